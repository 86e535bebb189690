// Element-wise functions of one tensor (https://pytorch.org/docs/stable/torch.html#pointwise-ops,
// https://pytorch.org/docs/stable/nn.functional.html).
//
// The result has x's shape and dtype. Functions whose result is not an integer convert integers to
// float32. Predicates return bool tensors and are not differentiable. All others are differentiable
// as often as needed; the gradient of step functions (sign, floor, ceil, round, trunc) is 0. None
// synchronizes.
#pragma once

#include <optional>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

[[nodiscard]] Tensor neg(const Tensor& x);
[[nodiscard]] Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor square(const Tensor& x);
[[nodiscard]] Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);
[[nodiscard]] Tensor exp(const Tensor& x);
Tensor expm1(const Tensor& x);
[[nodiscard]] Tensor log(const Tensor& x);
[[nodiscard]] Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
[[nodiscard]] Tensor tanh(const Tensor& x);
[[nodiscard]] Tensor sigmoid(const Tensor& x);
Tensor erf(const Tensor& x);
// Returns the inverse of erf: infinities at -1 and 1, and NaN outside of [-1, 1].
Tensor erfinv(const Tensor& x);
// lgamma returns log |gamma(x)|, and digamma returns its derivative. digamma can be differentiated
// twice.
Tensor lgamma(const Tensor& x);
Tensor digamma(const Tensor& x);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
// Rounds to the nearest integer, halves to even.
Tensor round(const Tensor& x);
// trunc rounds toward 0; frac returns the part that trunc removes.
Tensor trunc(const Tensor& x);
Tensor frac(const Tensor& x);

[[nodiscard]] Tensor relu(const Tensor& x);
Tensor leaky_relu(const Tensor& x, RealArg negative_slope = 0.01);
Tensor elu(const Tensor& x, RealArg alpha = 1);
// Returns x times the normal distribution function. The default formula uses erf. "tanh" selects
// GPT-2's approximation: gelu(x, "tanh").
Tensor gelu(const Tensor& x, GeluApproximate approximate = GeluApproximate::kNone);
Tensor silu(const Tensor& x);
Tensor softplus(const Tensor& x, RealArg beta = 1, RealArg threshold = 20);
Tensor selu(const Tensor& x);
Tensor celu(const Tensor& x, RealArg alpha = 1);
Tensor hardsigmoid(const Tensor& x);
Tensor hardswish(const Tensor& x);
// Returns x * tanh(log(1 + exp(x))) (https://arxiv.org/abs/1908.08681).
Tensor mish(const Tensor& x);
Tensor logsigmoid(const Tensor& x);
Tensor softsign(const Tensor& x);
Tensor tanhshrink(const Tensor& x);
Tensor hardshrink(const Tensor& x, RealArg lambd = 0.5);
Tensor softshrink(const Tensor& x, RealArg lambd = 0.5);
// Returns the first half of x along dim times the sigmoid of the second half.
Tensor glu(const Tensor& x, IntArg dim = -1);
// Returns x, but weight * x where x is negative. weight has x's dtype, and one element for all of x
// or one for each slice of dimension 1.
Tensor prelu(const Tensor& x, const Tensor& weight);
// Limits x to [min, max]. Either bound may be std::nullopt, but not both: that throws Error. NaN
// stays NaN. Integers stay integers if the bounds are integers. Elements equal to a bound pass the
// gradient.
//
//   clamp(x, std::nullopt, 6);
[[nodiscard]] Tensor clamp(const Tensor& x, std::optional<Scalar> min,
                           std::optional<Scalar> max = std::nullopt);
// Like clamp above, with tensors as bounds, which broadcast. An undefined bound does not limit.
// Where min > max, the result is max.
[[nodiscard]] Tensor clamp(const Tensor& x, const Tensor& min, const Tensor& max = {});
// Limit x on one side: clamp(x, min) and clamp(x, std::nullopt, max).
[[nodiscard]] Tensor clamp_min(const Tensor& x, Scalar min);
[[nodiscard]] Tensor clamp_min(const Tensor& x, const Tensor& min);
[[nodiscard]] Tensor clamp_max(const Tensor& x, Scalar max);
[[nodiscard]] Tensor clamp_max(const Tensor& x, const Tensor& max);
// Like clamp, but elements equal to a bound get no gradient. For integers the bounds are truncated.
Tensor hardtanh(const Tensor& x, RealArg min_val = -1, RealArg max_val = 1);
Tensor relu6(const Tensor& x);

// Replaces NaN and infinities. posinf and neginf default to the largest and smallest value of the
// dtype.
Tensor nan_to_num(const Tensor& x, RealArg nan = 0, std::optional<double> posinf = std::nullopt,
                  std::optional<double> neginf = std::nullopt);
Tensor nan_to_num(const Tensor& x, const NanToNumOptions& options);

Tensor logical_not(const Tensor& x);
// Inverts every bit of integers; logical_not for bool.
Tensor bitwise_not(const Tensor& x);
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);

inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator~(const Tensor& x) { return bitwise_not(x); }

}  // namespace taper::v0
