// Hooks on the calls of a module and on their gradients, and access to the tensors among the
// arguments and in the result of a call
// (https://pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_forward_hook).
#pragma once

#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

class Module;

// Hooks on calls. They receive the tensors among the arguments and, after the call, also those in
// the result, in the order of each_tensor() below. Tensors that are not given are undefined. A hook
// that returns the same number of tensors replaces them.
using ForwardPreHook =
    std::function<std::vector<Tensor>(Module&, const std::vector<Tensor>& inputs)>;
using ForwardHook = std::function<std::vector<Tensor>(Module&, const std::vector<Tensor>& inputs,
                                                      const std::vector<Tensor>& outputs)>;
// Hooks on the first argument and the first result only. If such a hook returns a defined tensor,
// it replaces that argument or result.
using FirstPreHook = std::function<Tensor(Module&, const Tensor& x)>;
using FirstHook = std::function<Tensor(Module&, const Tensor& x, const Tensor& y)>;
// A hook on the gradients of a call's tensors; missing gradients are undefined. If the hook returns
// as many tensors as there are inputs, they replace the inputs' gradients.
using BackwardHook = std::function<std::vector<Tensor>(
    Module&, const std::vector<Tensor>& grad_input, const std::vector<Tensor>& grad_output)>;
struct ModuleHooks;  // hooks.cpp
struct BackwardCall;
// The handle that register_forward_hook() and the like return. The hook remains when the handle is
// destroyed.
class ModuleHookHandle {
 public:
  ModuleHookHandle() = default;
  ModuleHookHandle(const std::shared_ptr<ModuleHooks>& hooks, uint64_t id)
      : hooks_(hooks), id_(id) {}
  // Removes the hook. Has no effect if it is called again, or after the module was destroyed.
  void remove();

 private:
  std::shared_ptr<ModuleHooks> hooks_;
  uint64_t id_ = 0;
};

// --- the tensors among the arguments and in the result of a call ---

// Calls f for each tensor in x, in order. x is a Tensor, a container of them (vector, array, tuple,
// pair, optional), or a struct that lists its own:
//   struct State { Tensor h, c; int64_t steps; auto tensors() { return std::tie(h, c); } };
// A struct may also define void tensors(const auto& each) { each(h, c); }, which compiles faster.
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
// Replaces the tensors of x. `values` must have as many tensors as tensors_of() returns.
template <class T> void set_tensors(T& x, const std::vector<Tensor>& values) {
  auto value = values.begin();
  each_tensor(x, [&](Tensor& t) { t = *value++; });
}

// The type in which a call with hooks stores an argument: a copy, because hooks may replace its
// tensors.
template <class T>
using HeldArgument =
    std::conditional_t<std::is_convertible_v<const T&, const Tensor&>, Tensor,
                       std::conditional_t<std::is_copy_constructible_v<T>, T, const T&>>;

namespace detail {

// Returns a std::reference_wrapper of an argument that a function may change, and any other
// argument as a constant. T is deduced by a T&& parameter.
template <class T> decltype(auto) as_reference(std::remove_reference_t<T>& argument) {
  constexpr bool kMayChange = std::is_lvalue_reference_v<T> &&
                              !std::is_const_v<std::remove_reference_t<T>> &&
                              !std::is_convertible_v<T, const Tensor&>;
  if constexpr (kMayChange) {
    return std::ref(argument);
  } else {
    return std::as_const(argument);
  }
}

// Calls call(forward, arguments...) for the forward() of a module. The arguments are constants if
// forward() takes them so, and otherwise references. Args are deduced by Args&&... parameters.
template <class... Args, class D, class Call>
auto call_forward(D& module, const Call& call, std::remove_reference_t<Args>&... arguments) {
  const auto forward = [&module](const auto&... a) { return module.forward(a...); };
  if constexpr (requires(D & d, const std::remove_reference_t<Args>&... a) { d.forward(a...); }) {
    return call(forward, std::as_const(arguments)...);
  } else {
    constexpr bool is_call = requires(D & d) { d.forward(as_reference<Args>(arguments)...); };
    static_assert(is_call, "forward() of this module does not take these arguments");
    if constexpr (is_call) return call(forward, as_reference<Args>(arguments)...);
  }
}

}  // namespace detail
}  // namespace taper::v0
