// Images and their surroundings: padding by what is there, sliding windows as columns, channels as
// pixels, sampling by a grid (https://pytorch.org/docs/stable/nn.functional.html#vision-functions).
#pragma once

#include <vector>

#include "autograd/ops/nn/pool.h"
#include "framework/describe.h"
#include "framework/scalar.h"
#include "framework/tensor.h"

namespace taper::v0 {

// What lies beyond the edge: one value (zeros, for layers); the inside, mirrored at the last
// element; the last element; the other end.
enum class PadMode : uint8_t { constant, reflect, replicate, circular, zeros = constant };
inline constexpr const char* kPadModeNames[] = {"zeros", "reflect", "replicate", "circular"};
// {before, after} of the last dimension, then of the one before it, ...; negative ones crop. Modes
// but constant pad one to three dimensions behind N and C (or C), take no value and do not reach
// further than the input: reflect less than its size, circular its size.
Tensor pad(const Tensor& x, const std::vector<int64_t>& padding, PadMode mode, Scalar value = 0);

struct UnfoldOptions {
  Pair dilation = 1, padding = 0, stride = 1;

  template <class V> void describe(V& v) {
    v("dilation", dilation, kWidth, "distance of the window's elements");
    v("padding", padding, kWidthOrNone, "rows and columns of zeros added around the image");
    v("stride", stride, kWidth, "step of the window");
  }
};
// The windows of images [N, C, H, W] or [C, H, W] as columns [N, C kh kw, windows].
Tensor unfold(const Tensor& x, Pair kernel_size, const UnfoldOptions& options = {});
// Sums of such windows at their places in images [N, C, output_size]: the transpose of unfold.
// Floating dtypes.
Tensor fold(const Tensor& x, Pair output_size, Pair kernel_size, const UnfoldOptions& options = {});

// [..., C r^2, H, W] to [..., C, H r, W r] (https://arxiv.org/abs/1609.05158), and back.
Tensor pixel_shuffle(const Tensor& x, IntArg upscale_factor);
Tensor pixel_unshuffle(const Tensor& x, IntArg downscale_factor);

enum class GridPadding : uint8_t { zeros, border, reflection };
struct GridSampleOptions {
  Interpolation mode = Interpolation::bilinear;  // or nearest
  GridPadding padding_mode = GridPadding::zeros;
  // Whether -1 and 1 are the centres of the outer pixels; else their edges.
  bool align_corners = false;
};
// x [N, C, H, W] at the places grid [N, H', W', 2], each (x, y) in [-1, 1], both of one floating
// dtype: [N, C, H', W']. Made of gathers: while it runs, and for the backward pass, the four pixels
// around each place are in memory.
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {});
// The grid of theta [N, 2, 3] (floating) for images of shape size [N, C, H, W]: theta (x, y, 1).
Tensor affine_grid(const Tensor& theta, const Shape& size, BoolArg align_corners = false);

}  // namespace taper::v0
