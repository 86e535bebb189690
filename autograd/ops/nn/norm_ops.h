// Normalization (https://pytorch.org/docs/stable/nn.functional.html#normalization-functions).
// Parameters have x's dtype, or float32 if x has a half type. Statistics are float32 (float64 for
// float64). An undefined weight counts as 1 and an undefined bias as 0. All functions can be
// differentiated twice and do not synchronize.
#pragma once

#include <optional>

#include "framework/kernels/elementwise/activation.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

// The arguments recorded in traces: eps and the number of dimensions or groups.
struct NormTrace {
  double eps;
  int64_t count = 0;
};

// Normalizes over the last dimensions, whose sizes are normalized_shape, the shape of the
// parameters. `result` is the dtype of the result. It equals layer_norm(...).to(result) but needs
// no separate pass if x is float32 and result a half type.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, RealArg eps = 1e-5,
                  std::optional<DType> result = std::nullopt);
// Returns x / sqrt(mean(x^2) + eps) * weight. eps defaults to the epsilon of float32 (of float64
// for float64).
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                std::optional<double> eps = std::nullopt);
// Normalizes x [N, C, ...] over num_groups groups of channels of each sample. Parameters are [C].
Tensor group_norm(const Tensor& x, IntArg num_groups, const Tensor& weight = {},
                  const Tensor& bias = {}, RealArg eps = 1e-5);
struct BatchNormFunctionOptions {
  Tensor weight = {}, bias = {};
  bool training = false;
  double momentum = 0.1, eps = 1e-5;
  // The result is activation(y + residual), where y is the normalized x. A residual that is
  // undefined counts as 0.
  Tensor residual = {};
  Activation activation = Activation::kNone;
  // int64, no dimensions. Training adds 1 to it, on a GPU in the kernel that updates the running
  // statistics.
  Tensor num_batches_tracked = {};
};
// Normalizes each channel of x [N, C, ...], which is row-major or channels-last; the result has the
// same memory format. The other tensors are [C]. In training, uses the mean and variance of each
// channel. They also update the running statistics in place, outside the tape, by momentum, with
// the unbiased variance. Otherwise uses the running statistics. In training on a GPU, a residual
// and ReLU need no further pass.
//
//   batch_norm(x, running_mean, running_var, {.weight = w, .bias = b, .training = true});
Tensor batch_norm(const Tensor& x, const Tensor& running_mean = {}, const Tensor& running_var = {},
                  const BatchNormFunctionOptions& options = {});
// A template, so that options in braces select the function above.
template <class = void>
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias = {}, BoolArg training = false,
                  RealArg momentum = 0.1, RealArg eps = 1e-5) {
  return batch_norm(
      x, running_mean, running_var,
      {.weight = weight, .bias = bias, .training = training, .momentum = momentum, .eps = eps});
}
struct InstanceNormFunctionOptions {
  Tensor weight = {}, bias = {};
  bool use_input_stats = true;
  double momentum = 0.1, eps = 1e-5;
};
// Normalizes x [N, C, ...]. With use_input_stats, normalizes each channel of each sample by its own
// statistics. Their means over N update the running statistics as in batch_norm. Without
// use_input_stats, normalizes by the running statistics.
Tensor instance_norm(const Tensor& x, const Tensor& running_mean = {},
                     const Tensor& running_var = {},
                     const InstanceNormFunctionOptions& options = {});
// A template, so that options in braces select the function above.
template <class = void>
Tensor instance_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                     const Tensor& weight, const Tensor& bias = {}, BoolArg use_input_stats = true,
                     RealArg momentum = 0.1, RealArg eps = 1e-5) {
  return instance_norm(x, running_mean, running_var,
                       InstanceNormFunctionOptions{weight, bias, use_input_stats, momentum, eps});
}
struct NormalizeOptions {
  double p = 2;
  int64_t dim = 1;
  double eps = 1e-12;
};
// Returns x / max(norm(x, p) along dim, eps).
//
//   normalize(x, {.dim = -1});
Tensor normalize(const Tensor& x, const NormalizeOptions& options);
Tensor normalize(const Tensor& x, RealArg p = 2, IntArg dim = 1, RealArg eps = 1e-12);

}  // namespace taper::v0
