// Functions of images: padding, sliding windows as columns, rearranging channels as pixels, and
// sampling on a grid (https://pytorch.org/docs/stable/nn.functional.html#vision-functions). All are
// differentiable and do not synchronize.
#pragma once

#include <vector>

#include "autograd/ops/nn/pool_ops.h"
#include "framework/base/describe.h"
#include "framework/base/scalar.h"
#include "framework/base/text_enum.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

// The values outside the image: one constant (0 by default), the image mirrored at its outermost
// elements, the nearest element, or the opposite side.
struct PadModeValues {
  enum class Value : uint8_t { kConstant, kReflect, kReplicate, kCircular };
  static constexpr Value kConstant = Value::kConstant, kReflect = Value::kReflect,
                         kReplicate = Value::kReplicate, kCircular = Value::kCircular;
  static constexpr const char* kOption = "mode";
  static constexpr const char* kWords[] = {"constant", "reflect", "replicate", "circular"};
};
using PadMode = TextEnum<PadModeValues>;

// Pads x. padding holds {before, after} of the last dimension, then of the one before it, and so
// on. Negative values crop. Modes other than constant pad the last one to three dimensions of [N,
// C, ...] or [C, ...] and take no value. The padding must be less than the size for reflect and at
// most the size for circular; otherwise throws Error.
Tensor pad(const Tensor& x, const std::vector<int64_t>& padding, PadMode mode, Scalar value = 0);

struct UnfoldOptions {
  Pair dilation = 1, padding = 0, stride = 1;

  template <class V> void describe(V& v) {
    v("dilation", dilation, kWidth, "distance between elements of the window");
    v("padding", padding, kWidthOrNone, "rows and columns of zeros added on each side");
    v("stride", stride, kWidth, "step of the window");
  }
};
// Returns the windows of images [N, C, H, W] or [C, H, W] as columns [N, C * kh * kw, windows].
//
//   unfold(images, 3, {.padding = 1});  // [N, C * 9, H * W]
Tensor unfold(const Tensor& x, Pair kernel_size, const UnfoldOptions& options = {});
// Sums windows at their positions in images [N, C, output_size]: the transpose of unfold. Floating
// dtypes only.
Tensor fold(const Tensor& x, Pair output_size, Pair kernel_size, const UnfoldOptions& options = {});

// Convert [..., C * r^2, H, W] to [..., C, H * r, W * r] (https://arxiv.org/abs/1609.05158), and
// back.
Tensor pixel_shuffle(const Tensor& x, IntArg upscale_factor);
Tensor pixel_unshuffle(const Tensor& x, IntArg downscale_factor);

struct GridPaddingValues {
  enum class Value : uint8_t { kZeros, kBorder, kReflection };
  static constexpr Value kZeros = Value::kZeros, kBorder = Value::kBorder,
                         kReflection = Value::kReflection;
  static constexpr const char* kOption = "padding_mode";
  static constexpr const char* kWords[] = {"zeros", "border", "reflection"};
};
using GridPadding = TextEnum<GridPaddingValues>;

struct GridSampleOptions {
  Interpolation mode = Interpolation::kBilinear;  // or nearest
  GridPadding padding_mode = GridPadding::kZeros;
  // Whether -1 and 1 refer to the centers of the outermost pixels; otherwise to their outer edges.
  bool align_corners = false;
};
// Samples x [N, C, H, W] at the positions grid [N, H', W', 2], each an (x, y) in [-1, 1], and
// returns [N, C, H', W']. Both have the same floating dtype. Composed of gathers: the four pixels
// around each position are in memory during the call and until the backward pass.
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {});
// Returns the grid theta (x, y, 1) for images of shape size [N, C, H, W]. theta is [N, 2, 3] and
// floating.
//
//   grid_sample(x, affine_grid(theta, x.shape()));
Tensor affine_grid(const Tensor& theta, const Shape& size, BoolArg align_corners = false);

}  // namespace taper::v0
