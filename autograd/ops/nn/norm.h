// Normalisation (https://pytorch.org/docs/stable/nn.functional.html#normalization-functions).
// Parameters have the dtype of x, or float32 where x is of a half type; statistics are float32
// (float64 for double). Undefined weight and bias stand for 1 and 0. All differentiate twice.
#pragma once

#include <optional>

#include "framework/tensor.h"

namespace taper::v0 {

// What traces are told of these: how many dimensions, or groups.
struct NormTrace {
  double eps;
  int64_t count = 0;
};

// Over the last dimensions, whose sizes are normalized_shape and the parameters' shape. With
// `result` as layer_norm(...).to(result), without a pass of its own for a half type of float32.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, RealArg eps = 1e-5,
                  std::optional<DType> result = std::nullopt);
// x / sqrt(mean(x^2) + eps) * weight. Without eps: the epsilon of float32 (of double for double).
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                std::optional<double> eps = std::nullopt);
// x [N, C, ...]: over num_groups groups of channels of each of N; parameters [C].
Tensor group_norm(const Tensor& x, IntArg num_groups, const Tensor& weight = {},
                  const Tensor& bias = {}, RealArg eps = 1e-5);
// x [N, C, ...], row-major or channels-last, which the result keeps; the others [C]. training: by
// each channel's statistics, which move the running ones in place, outside the tape, by momentum
// (the variance unbiased). Else by the running ones.
Tensor batch_norm(const Tensor& x, const Tensor& running_mean = {}, const Tensor& running_var = {},
                  const Tensor& weight = {}, const Tensor& bias = {}, BoolArg training = false,
                  RealArg momentum = 0.1, RealArg eps = 1e-5);
// x [N, C, ...]: each channel of each of N by its own statistics, whose means over N move the
// running ones as in batch_norm; or, without use_input_stats, by the running ones.
Tensor instance_norm(const Tensor& x, const Tensor& running_mean = {},
                     const Tensor& running_var = {}, const Tensor& weight = {},
                     const Tensor& bias = {}, BoolArg use_input_stats = true,
                     RealArg momentum = 0.1, RealArg eps = 1e-5);
// x / max(norm(x, p) along dim, eps).
Tensor normalize(const Tensor& x, RealArg p = 2, IntArg dim = 1, RealArg eps = 1e-12);

}  // namespace taper::v0
