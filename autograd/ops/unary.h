// Element-wise functions of one tensor (https://pytorch.org/docs/stable/torch.html#pointwise-ops,
// https://pytorch.org/docs/stable/nn.functional.html). Integers are computed in float32 where the
// result is not an integer.
#pragma once

#include <optional>

#include "framework/tensor.h"

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
// log |gamma(x)|, and its derivative, which has two more.
Tensor lgamma(const Tensor& x);
Tensor digamma(const Tensor& x);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
// To the nearest, halves to even.
Tensor round(const Tensor& x);
// Towards 0, and what is cut off.
Tensor trunc(const Tensor& x);
Tensor frac(const Tensor& x);

[[nodiscard]] Tensor relu(const Tensor& x);
Tensor leaky_relu(const Tensor& x, RealArg negative_slope = 0.01);
Tensor elu(const Tensor& x, RealArg alpha = 1);
// tanh_form: the approximation of GPT-2 (PyTorch: approximate="tanh"); else by erf.
Tensor gelu(const Tensor& x, BoolArg tanh_form = false);
Tensor silu(const Tensor& x);
Tensor softplus(const Tensor& x, RealArg beta = 1, RealArg threshold = 20);
Tensor selu(const Tensor& x);
Tensor celu(const Tensor& x, RealArg alpha = 1);
Tensor hardsigmoid(const Tensor& x);
Tensor hardswish(const Tensor& x);
// x tanh(log(1 + exp(x))) (https://arxiv.org/abs/1908.08681).
Tensor mish(const Tensor& x);
Tensor logsigmoid(const Tensor& x);
Tensor softsign(const Tensor& x);
Tensor tanhshrink(const Tensor& x);
Tensor hardshrink(const Tensor& x, RealArg lambd = 0.5);
Tensor softshrink(const Tensor& x, RealArg lambd = 0.5);
// The first half along dim times the sigmoid of the second.
Tensor glu(const Tensor& x, IntArg dim = -1);
// weight: one for all, or one for each slice of dimension 1; of x's dtype.
Tensor prelu(const Tensor& x, const Tensor& weight);
// Either bound may be missing; nan passes; integers stay integers where the bounds are. The
// gradient passes at the bounds too.
[[nodiscard]] Tensor clamp(const Tensor& x, std::optional<Scalar> min,
                           std::optional<Scalar> max = std::nullopt);
// Bounds that broadcast; an undefined one is missing. Where they cross, max is taken.
[[nodiscard]] Tensor clamp(const Tensor& x, const Tensor& min, const Tensor& max = {});
// clamp, with no gradient at the bounds. Integers stay integers, and bounds lose their fractions.
Tensor hardtanh(const Tensor& x, RealArg min_val = -1, RealArg max_val = 1);
Tensor relu6(const Tensor& x);

// Without posinf and neginf the dtype's largest and smallest.
Tensor nan_to_num(const Tensor& x, RealArg nan = 0, std::optional<double> posinf = std::nullopt,
                  std::optional<double> neginf = std::nullopt);

Tensor logical_not(const Tensor& x);
// Of integers every bit; of bool logical_not.
Tensor bitwise_not(const Tensor& x);
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);

inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator~(const Tensor& x) { return bitwise_not(x); }

}  // namespace taper::v0
