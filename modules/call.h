// The tensors among the arguments and in the result of a module's call, which hooks see.
#pragma once

#include <concepts>
#include <tuple>
#include <type_traits>
#include <vector>

#include "framework/tensor.h"

namespace taper {

// Calls f for each tensor of x, in order: of a Tensor, of what is made of them (vector, array,
// tuple, pair, optional), and of a struct that names its own:
//   struct State { Tensor h, c; int64_t steps; auto tensors() { return std::tie(h, c); } };
template <class T, class F> void each_tensor(T& x, const F& f) {
  const auto each = [&](auto&... parts) { (each_tensor(parts, f), ...); };
  if constexpr (std::is_same_v<T, Tensor>) {
    f(x);
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

}  // namespace taper
