// Automatic mixed precision (https://pytorch.org/docs/stable/amp.html):
//
//   {
//     const AutocastGuard guard(DeviceType::kCuda, kBFloat16);
//     loss = cross_entropy(net(x), labels);
//   }
//   loss.backward();
//
// While the guard exists, matrix products (linear, mm, bmm, matmul, addmm, convolutions,
// scaled_dot_product_attention) compute in the half type. Ops that need float32's range compute in
// float32: powers, exp, log and functions based on them, sums, norms, losses and interpolation. All
// other ops compute in the dtypes that they are given. The lists are PyTorch's for CUDA, applied
// here on every device. float64 and integer tensors are not converted. The half-precision copies of
// parameters are cached from step to step (framework/factory/low_precision_cache.h).
#pragma once

#include <optional>
#include <tuple>

#include "autograd/node.h"

namespace taper::v0 {

// --- per thread; backward passes ignore it and use the dtypes of the forward pass ---
struct AutocastState {
  std::optional<DType> cpu, cuda;  // the half type; nullopt if autocast is off for that device
};
const AutocastState& autocast_state();
void set_autocast_state(const AutocastState& state);

// Switches autocast until the end of the scope (torch.autocast).
class AutocastGuard : ThreadStateGuard<autocast_state, set_autocast_state> {
 public:
  // Sets the state of both devices.
  explicit AutocastGuard(const AutocastState& state) : ThreadStateGuard(state) {}
  // Enables autocast for ops on `device`. The default dtype is float16 on the GPU and bfloat16 on
  // the CPU, as in PyTorch. `enabled` = false disables autocast inside an enabled scope. Throws
  // ValueError if dtype is not float16 or bfloat16.
  explicit AutocastGuard(DeviceType device, std::optional<DType> dtype = std::nullopt,
                         BoolArg enabled = true);
};

// --- for ops ---

// Returns whether autocast is on for ops on x's device.
bool autocasts(const Tensor& x);
// Returns the half type in which matrix products with x compute. Returns nullopt if autocast is off
// for x's device or x is not float32.
std::optional<DType> autocast_dtype(const Tensor& x);

enum class Cast { kToLow, kToFloat32 };
// Converts x to the dtype that `rule` requires; the conversion is recorded. Returns x itself if it
// has that dtype already, is float64, is not floating-point, or is undefined.
Tensor cast_for(Cast rule, const Tensor& x);
// Arguments that are not tensors pass through unchanged.
template <class T> const T& cast_for(Cast, const T& x) { return x; }

template <class F, class... T> Tensor casted(Cast rule, F op, const T&... x) {
  const std::tuple inputs{cast_for(rule, x)...};
  const AutocastGuard off{AutocastState()};
  return std::apply(op, inputs);
}
// Casts the tensors to the half type and calls op. The first line of an op is `if (autocasts(x))
// return in_half(linear, x, weight, bias, ...);`.
template <class F, class... T> Tensor in_half(F op, const T&... x) {
  return casted(Cast::kToLow, op, x...);
}
template <class F, class... T> Tensor in_float32(F op, const T&... x) {
  return casted(Cast::kToFloat32, op, x...);
}

// Computes f(x) in a dtype that the caller chose, ignoring autocast. Converts x to it before, and
// the result to x's dtype afterwards.
template <class F> Tensor in_dtype(DType dtype, const Tensor& x, F f) {
  const AutocastGuard off{AutocastState()};
  const Tensor y = x.to(dtype);
  return f(y).to(dtype);
}

}  // namespace taper::v0
