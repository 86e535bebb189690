// Mixed precision (https://pytorch.org/docs/stable/amp.html):
//
//   {
//     const Autocast guard(DeviceType::cuda, kBFloat16);
//     loss = cross_entropy(net(x), labels);
//   }
//   loss.backward();
//
// Inside, products (linear, mm, bmm, matmul, addmm, convolutions, scaled_dot_product_attention)
// compute in the half type, and what needs the range (powers, exp and log and what is made of
// them, sums, norms, losses) in float32, by PyTorch's lists for CUDA, here on every device;
// everything else in the types it is given. float64 and integers are left alone. Values of
// parameters in the half type are kept from step to step (framework/memory/half_copy.h).
#pragma once

#include <optional>
#include <tuple>

#include "autograd/node.h"

namespace taper::v0 {

// --- per thread; a backward pass ignores it: gradients have the types of the forward pass ---
struct AutocastState {
  std::optional<DType> cpu, cuda;  // the half type, where it is on
};
const AutocastState& autocast_state();
void set_autocast_state(const AutocastState& state);
using AutocastScope = Switched<autocast_state, set_autocast_state>;

// Without a dtype: float16 on the GPU and bfloat16 on the CPU, as in PyTorch. Throws ValueError for
// a dtype that is no half type. `enabled` false turns it off for a part.
class Autocast : AutocastScope {
 public:
  explicit Autocast(DeviceType device, std::optional<DType> dtype = std::nullopt,
                    BoolArg enabled = true);
};

// --- for ops ---

// True when ops on x's device are to be cast.
bool autocasts(const Tensor& x);
// The half type of x's device, where products there compute in one and x is float32.
std::optional<DType> autocast_dtype(const Tensor& x);

enum class Cast { to_low, to_float32 };
// x as the rule wants it, on the tape; x itself where it has the type, is float64, no floating
// type, or undefined.
Tensor cast_for(Cast rule, const Tensor& x);
// What is no tensor, as it is.
template <class T> const T& cast_for(Cast, const T& x) { return x; }

template <class F, class... T> Tensor casted(Cast rule, F op, const T&... x) {
  const std::tuple inputs{cast_for(rule, x)...};
  const AutocastScope off{AutocastState()};
  return std::apply(op, inputs);
}
// An op's first line: `if (autocasts(x)) return in_half(linear, x, weight, bias, ...);`
template <class F, class... T> Tensor in_half(F op, const T&... x) {
  return casted(Cast::to_low, op, x...);
}
template <class F, class... T> Tensor in_float32(F op, const T&... x) {
  return casted(Cast::to_float32, op, x...);
}

// f of x in a dtype that the caller chose, whatever f gives for it by itself.
template <class F> Tensor in_dtype(DType dtype, const Tensor& x, F f) {
  const AutocastScope off{AutocastState()};
  const Tensor y = x.to(dtype);
  return f(y).to(dtype);
}

}  // namespace taper::v0
