// Pooling and interpolation of images [N, C, H, W] or [C, H, W], and of rows [N, C, L] or [C, L]
// (https://pytorch.org/docs/stable/nn.functional.html#pooling-functions). Results have the memory
// format of their input: row-major or channels-last. Options of the ops in one dimension: their w.
#pragma once

#include <optional>

#include "framework/pair.h"
#include "framework/tensor.h"

namespace taper {

struct MaxPoolOptions {
  std::optional<Pair> stride = std::nullopt;  // the kernel size
  Pair padding = 0;                           // as if -inf were there
  Pair dilation = 1;
  bool ceil_mode = false;
};
// nan wins; among equals the first gets the gradient.
Tensor max_pool1d(const Tensor& x, int64_t kernel_size, const MaxPoolOptions& options = {});
Tensor max_pool2d(const Tensor& x, Pair kernel_size, const MaxPoolOptions& options = {});

struct AvgPoolOptions {
  std::optional<Pair> stride = std::nullopt;  // the kernel size
  Pair padding = 0;                           // zeros
  bool ceil_mode = false;
  bool count_include_pad = true;  // zeros of the padding count in the mean
};
Tensor avg_pool1d(const Tensor& x, int64_t kernel_size, const AvgPoolOptions& options = {});
Tensor avg_pool2d(const Tensor& x, Pair kernel_size, const AvgPoolOptions& options = {});

Tensor adaptive_avg_pool1d(const Tensor& x, int64_t output_size);
Tensor adaptive_avg_pool2d(const Tensor& x, Pair output_size);

enum class Interpolation : uint8_t { nearest, linear, bilinear };
inline constexpr const char* kInterpolationNames[] = {"nearest", "linear", "bilinear"};
struct InterpolateOptions {
  // One of the two.
  std::optional<Pair> size = std::nullopt;
  std::optional<double> scale_factor = std::nullopt;
  Interpolation mode = Interpolation::nearest;
  // Whether the corners' centres keep their place; not for nearest.
  std::optional<bool> align_corners = std::nullopt;
};
// x [N, C, L] (nearest, linear) or [N, C, H, W] (nearest, bilinear).
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

}  // namespace taper
