#include "autograd/ops/nn/image.h"

#include <algorithm>

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/op_helpers.h"
#include "framework/kernels/conv/conv.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0 {
namespace {

// --- padding ---

// Returns the `count` elements beyond the first or last element of dimension d.
Tensor beyond(const Tensor& x, int d, int64_t count, bool behind, PadMode mode) {
  const int64_t n = x.size(d);
  if (mode == PadMode::kReplicate) {
    Shape shape = x.shape();
    shape[d] = count;
    return expand(narrow(x, d, behind ? n - 1 : 0, 1), shape);
  }
  if (mode == PadMode::kCircular) return narrow(x, d, behind ? 0 : n - count, count);
  return flip(narrow(x, d, behind ? n - 1 - count : 1, count), {d});
}

Tensor extended(const Tensor& x, int d, int64_t before, int64_t after, PadMode mode) {
  const auto cropped = [&](const Tensor& t) {
    const int64_t first = std::max<int64_t>(-before, 0), last = std::max<int64_t>(-after, 0);
    return first + last > 0 ? narrow(t, d, first, t.size(d) - first - last) : t;
  };
  // Circular padding wraps around the cropped tensor.
  const Tensor inside = mode == PadMode::kCircular ? cropped(x) : x;
  std::vector<Tensor> parts;
  if (before > 0) parts.push_back(beyond(inside, d, before, false, mode));
  parts.push_back(inside);
  if (after > 0) parts.push_back(beyond(inside, d, after, true, mode));
  const Tensor y = parts.size() > 1 ? cat(parts, d) : inside;
  return mode == PadMode::kCircular ? y : cropped(y);
}

void check_extension(const Tensor& x, int d, int64_t before, int64_t after, PadMode mode) {
  const int64_t n = x.size(d);
  require(mode != PadMode::kCircular || std::max(before, after) <= n,
          "Padding value causes wrapping around more than once.");
  require(
      mode != PadMode::kReflect || std::max(before, after) < n, "Argument #", 2 * (x.dim() - d + 1),
      ": Padding size should be less than the corresponding input dimension, but got: padding (",
      before, ", ", after, ") at dimension ", d, " of input ", x.shape());
  const int64_t size = checked_add(checked_add(n, before), after);
  require(size >= (mode == PadMode::kCircular ? 0 : 1), "input (W: ", n,
          ") is too small. Calculated output W: ", size, " (pad: dimension ", d, " of ", x.shape(),
          ")");
}

// --- windows ---

// Returns the number of windows in each dimension.
Pair blocks_of(const char* op, Pair image, Pair kernel, const UnfoldOptions& o) {
  check_window_numbers(op, {image.h, image.w, kernel.h, kernel.w, o.stride.h, o.stride.w,
                            o.padding.h, o.padding.w, o.dilation.h, o.dilation.w});
  const auto at_least = [](const char* what, const char* name, Pair p, int64_t least) {
    require(p.h >= least && p.w >= least, what, " should be ",
            least > 0 ? "greater than zero" : "non-negative", ", but got ", name, "_height: ", p.h,
            " ", name, "_width: ", p.w);
  };
  at_least("kernel size", "kernel", kernel, 1);
  at_least("dilation", "dilation", o.dilation, 1);
  at_least("padding", "pad", o.padding, 0);
  at_least("stride", "stride", o.stride, 1);
  const auto count = [](int64_t n, int64_t k, int64_t dilation, int64_t padding, int64_t stride) {
    const int64_t reach = n + 2 * padding - checked_mul(dilation, k - 1) - 1;
    return reach < 0 ? 0 : reach / stride + 1;
  };
  return {count(image.h, kernel.h, o.dilation.h, o.padding.h, o.stride.h),
          count(image.w, kernel.w, o.dilation.w, o.padding.w, o.stride.w)};
}

std::string both(Pair p) { return concat_to_string("(", p.h, ", ", p.w, ")"); }

// unfold_images and fold_images compute each other's gradients.
Tensor unfold_images(const Tensor& x, Pair kernel, Pair blocks, const UnfoldOptions& o);

Tensor fold_images(const Tensor& x, const Shape& images, Pair kernel, Pair blocks,
                   const UnfoldOptions& o) {
  Tensor y = kernels::fold(x, images, kernel,
                           {{1, o.stride.h, o.stride.w},
                            {0, o.padding.h, o.padding.w},
                            {1, o.dilation.h, o.dilation.w}});
  return linear_in(x, "Col2ImBackward0", y, [kernel, blocks, o](const Tensor& dy) {
    return unfold_images(dy, kernel, blocks, o);
  });
}

Tensor unfold_images(const Tensor& x, Pair kernel, Pair blocks, const UnfoldOptions& o) {
  const Pair p = o.padding;
  const Tensor given = x.detach();
  const Tensor image = p.h + p.w > 0 ? pad(given, {p.w, p.w, p.h, p.h}) : given;
  const int64_t N = x.size(0), C = x.size(1), h = image.stride(2), w = image.stride(3);
  const Tensor windows = view_as(image, {N, C, kernel.h, kernel.w, blocks.h, blocks.w},
                                 {image.stride(0), image.stride(1), h * o.dilation.h,
                                  w * o.dilation.w, h * o.stride.h, w * o.stride.w},
                                 image.storage_offset());
  const int64_t rows = checked_mul(C, kernel.h * kernel.w), columns = blocks.h * blocks.w;
  Tensor y = Tensor::make({N, rows, columns}, x.dtype(), x.device());
  kernels::copy_into(view_as(y, windows.shape(), contiguous_strides(windows.shape()), 0), windows);
  return linear_in(x, "Im2ColBackward0", y,
                   [images = x.shape(), kernel, blocks, o](const Tensor& dy) {
                     return fold_images(dy, images, kernel, blocks, o);
                   });
}

// --- channels as pixels ---

void check_shuffle(const char* op, const char* name, const Tensor& x, int64_t factor) {
  require(x.dim() >= 3, op, " expects input to have at least 3 dimensions, but got input with ",
          x.dim(), " dimension(s)");
  require(factor > 0, op, " expects a positive ", name, ", but got ", factor);
}

// Splits the last three dimensions into `split`, permutes those by `order`, and reshapes to `last`.
Tensor rearranged(const Tensor& x, const Shape& split, const Shape& order, const Shape& last) {
  const Shape lead(x.shape().begin(), x.shape().end() - 3);
  Shape permuted;
  for (int d = 0; d < lead.size(); ++d) permuted.push_back(d);
  for (const int64_t d : order) permuted.push_back(lead.size() + d);
  const Tensor y = reshape(permute(reshape(x, joined(lead, split)), permuted), joined(lead, last));
  return y.storage() == x.storage() ? clone(y) : y;  // never returns a view of x
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<int64_t>& padding, PadMode mode, Scalar value) {
  if (mode == PadMode::kConstant) return pad(x, padding, value);
  const int pairs = int(padding.size() / 2);
  require(padding.size() % 2 == 0, "Padding length must be divisible by 2");
  require(value.to_double() == 0, "Padding mode \"", mode, "\" doesn't take in value argument");
  require<NotImplementedError>(
      pairs >= 1 && pairs <= 3 && (x.dim() == pairs + 1 || x.dim() == pairs + 2), "Padding size ",
      padding.size(), " is not supported for ", x.dim(), "D input tensor.");
  for (int d = x.dim() - pairs - 1; d < x.dim() && mode != PadMode::kCircular; ++d) {
    require(x.size(d) > 0, "Expected ", pairs + 1, "D or ", pairs + 2,
            "D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
            "input, but got: ",
            x.shape());
  }
  const auto each = [&](auto f) {
    for (int i = 0; i < pairs; ++i) {
      f(x.dim() - 1 - i, padding[size_t(2 * i)], padding[size_t(2 * i) + 1]);
    }
  };
  each([&](int d, int64_t before, int64_t after) { check_extension(x, d, before, after, mode); });
  Tensor y = x;
  each([&](int d, int64_t before, int64_t after) { y = extended(y, d, before, after, mode); });
  const bool only_crops = *std::max_element(padding.begin(), padding.end()) <= 0;
  return only_crops ? clone(y) : y;
}

Tensor unfold(const Tensor& x, Pair kernel_size, const UnfoldOptions& o) {
  if (x.dim() == 3) return squeeze(unfold(unsqueeze(x, 0), kernel_size, o), 0);
  require(x.dim() == 4 && x.size(1) != 0 && x.size(2) != 0 && x.size(3) != 0,
          "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
          "dimensions for input, but got: ",
          x.shape());
  const Pair image{x.size(2), x.size(3)}, blocks = blocks_of("unfold", image, kernel_size, o);
  if (blocks.h < 1 || blocks.w < 1) {
    throw Error("Given input with spatial size ", both(image), ", kernel_size=", both(kernel_size),
                ", dilation=", both(o.dilation), ", padding=", both(o.padding),
                ", calculated shape of the array of sliding blocks as ", both(blocks),
                ", but its components must be at least one.");
  }
  return unfold_images(x, kernel_size, blocks, o);
}

Tensor fold(const Tensor& x, Pair output_size, Pair kernel_size, const UnfoldOptions& o) {
  if (x.dim() == 2) return squeeze(fold(unsqueeze(x, 0), output_size, kernel_size, o), 0);
  require(x.dim() == 3 && x.size(1) != 0 && x.size(2) != 0,
          "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
          "dimensions for input, but got: ",
          x.shape());
  kernels::check_floating("fold", x);
  const Pair blocks = blocks_of("fold", output_size, kernel_size, o);
  const int64_t window = checked_mul(kernel_size.h, kernel_size.w);
  if (x.size(1) % window != 0) {
    throw Error(
        "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
        "but got input.size(1)=",
        x.size(1), " and kernel_size=", both(kernel_size), ".");
  }
  if (x.size(2) != blocks.h * blocks.w) {
    throw Error(
        "Given output_size=", both(output_size), ", kernel_size=", both(kernel_size),
        ", dilation=", both(o.dilation), ", padding=", both(o.padding), ", stride=", both(o.stride),
        ", expected size of input's dimension 2 to match the calculated number of sliding blocks ",
        blocks.h, " * ", blocks.w, " = ", blocks.h * blocks.w,
        ", but got input.size(2)=", x.size(2), ".");
  }
  return fold_images(x, {x.size(0), x.size(1) / window, output_size.h, output_size.w}, kernel_size,
                     blocks, o);
}

Tensor pixel_shuffle(const Tensor& x, IntArg r) {
  check_shuffle("pixel_shuffle", "upscale_factor", x, r);
  const int64_t C = x.size(-3), H = x.size(-2), W = x.size(-1), square = checked_mul(r, r);
  require(C % square == 0,
          "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
          "upscale_factor, but input.size(-3)=",
          C, " is not divisible by ", square);
  const int64_t c = C / square;
  return rearranged(x, {c, r, r, H, W}, {0, 3, 1, 4, 2}, {c, checked_mul(H, r), checked_mul(W, r)});
}

Tensor pixel_unshuffle(const Tensor& x, IntArg r) {
  check_shuffle("pixel_unshuffle", "downscale_factor", x, r);
  const int64_t C = x.size(-3), H = x.size(-2), W = x.size(-1);
  const auto divides = [&](const char* what, int d) {
    require(x.size(d) % r == 0, "pixel_unshuffle expects ", what,
            " to be divisible by downscale_factor, but input.size(", d, ")=", x.size(d),
            " is not divisible by ", r);
  };
  divides("height", -2);
  divides("width", -1);
  return rearranged(x, {C, H / r, r, W / r, r}, {0, 2, 4, 1, 3},
                    {checked_mul(C, checked_mul(r, r)), H / r, W / r});
}

}  // namespace taper::v0
