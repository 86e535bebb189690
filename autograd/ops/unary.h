// Element-wise functions of one tensor (https://pytorch.org/docs/stable/torch.html#pointwise-ops,
// https://pytorch.org/docs/stable/nn.functional.html). Integers are computed in float32 where the
// result is not an integer.
#pragma once

#include <optional>

#include "framework/tensor.h"

namespace taper::inline v0 {

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
Tensor log1p(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
[[nodiscard]] Tensor tanh(const Tensor& x);
[[nodiscard]] Tensor sigmoid(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
// To the nearest, halves to even.
Tensor round(const Tensor& x);

[[nodiscard]] Tensor relu(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
Tensor elu(const Tensor& x, double alpha = 1);
// tanh_form: the approximation of GPT-2 (PyTorch: approximate="tanh"); else by erf.
Tensor gelu(const Tensor& x, bool tanh_form = false);
Tensor silu(const Tensor& x);
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20);
// Either bound may be missing; nan passes; integers stay integers where the bounds are. The
// gradient passes at the bounds too.
[[nodiscard]] Tensor clamp(const Tensor& x, std::optional<Scalar> min,
                           std::optional<Scalar> max = std::nullopt);
// clamp, with no gradient at the bounds. Integers stay integers, and bounds lose their fractions.
Tensor hardtanh(const Tensor& x, double min_val = -1, double max_val = 1);
Tensor relu6(const Tensor& x);

Tensor logical_not(const Tensor& x);
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);

inline Tensor operator-(const Tensor& x) { return neg(x); }

}  // namespace taper::inline v0
