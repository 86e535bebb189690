// What sees the calls of a module and their gradients: hooks, and the tensors among the arguments
// and in the result of a call
// (https://pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_forward_hook).
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "framework/callable.h"
#include "framework/memory/pointers.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

class Module;

// Functions that see the calls of a module: the tensors among its arguments and, afterwards, those
// of its result, in order (each_tensor below), undefined where one was not given. One that returns
// tensors, as many, replaces them.
using ForwardPreHook = Callable<std::vector<Tensor>(Module&, const std::vector<Tensor>& inputs)>;
using ForwardHook = Callable<std::vector<Tensor>(Module&, const std::vector<Tensor>& inputs,
                                                 const std::vector<Tensor>& outputs)>;
// The same of the first argument and the first result alone; a defined tensor replaces it.
using FirstPreHook = Callable<Tensor(Module&, const Tensor& x)>;
using FirstHook = Callable<Tensor(Module&, const Tensor& x, const Tensor& y)>;
// Sees the gradients of a call: those of its tensors, undefined where there is none. One that
// returns tensors, as many as the inputs, replaces theirs.
using BackwardHook = Callable<std::vector<Tensor>(Module&, const std::vector<Tensor>& grad_input,
                                                  const std::vector<Tensor>& grad_output)>;
struct ModuleHooks;  // hooks.cpp
struct BackwardCall;
// Returned by register_forward_hook; the hook stays when the handle goes.
class ModuleHookHandle {
 public:
  ModuleHookHandle() = default;
  ModuleHookHandle(const Shared<ModuleHooks>& hooks, uint64_t id) : hooks_(hooks), id_(id) {}
  // Does nothing the second time, or when the module is gone.
  void remove();

 private:
  Shared<ModuleHooks> hooks_;
  uint64_t id_ = 0;
};

// --- the tensors among the arguments and in the result of a call ---

// Calls f for each tensor of x, in order: of a Tensor, of what is made of them (vector, array,
// tuple, pair, optional), and of a struct that names its own, also as void tensors(const auto&
// each) { each(h, c); }, which costs compilers less:
//   struct State { Tensor h, c; int64_t steps; auto tensors() { return std::tie(h, c); } };
template <class T, class F> void each_tensor(T& x, const F& f) {
  const auto each = [&](auto&... parts) { (each_tensor(parts, f), ...); };
  if constexpr (std::is_same_v<T, Tensor>) {
    f(x);
  } else if constexpr (requires { x.tensors(each); }) {
    x.tensors(each);
  } else if constexpr (requires { x.tensors(); }) {
    std::apply(each, x.tensors());
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply(each, x);
  } else if constexpr (requires { x.has_value(); }) {
    if (x) each(*x);
  } else if constexpr (requires { x.begin(); }) {
    if constexpr (std::is_class_v<typename T::value_type>) {
      for (auto& part : x) each(part);
    }
  } else {
    static_assert(!std::is_aggregate_v<T>,
                  "hooks cannot see the tensors of this struct: give it a member "
                  "auto tensors() { return std::tie(x, y); }, std::tie() where it has none");
  }
}

template <class T> std::vector<Tensor> tensors_of(T& x) {
  std::vector<Tensor> out;
  each_tensor(x, [&](const Tensor& t) { out.push_back(t); });
  return out;
}
// As many as tensors_of gave.
template <class T> void set_tensors(T& x, const std::vector<Tensor>& values) {
  auto value = values.begin();
  each_tensor(x, [&](Tensor& t) { t = *value++; });
}

// How an argument is kept for a call with hooks: as a copy, whose tensors they may replace.
template <class T>
using HeldArgument =
    std::conditional_t<std::is_convertible_v<const T&, const Tensor&>, Tensor,
                       std::conditional_t<std::is_copy_constructible_v<T>, T, const T&>>;

}  // namespace taper::v0
