#include "autograd/ops/nn/image.h"

#include <algorithm>

#include "autograd/autocast.h"
#include "autograd/node.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/index/index.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "framework/factories.h"
#include "framework/kernels/conv/conv.h"
#include "framework/kernels/elementwise/broadcast.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/profiler/trace.h"

namespace taper::inline v0 {
namespace {

// --- padding ---

// `count` elements along dimension d, what lies before the first one or behind the last one.
Tensor beyond(const Tensor& x, int d, int64_t count, bool behind, PadMode mode) {
  const int64_t n = x.size(d);
  if (mode == PadMode::replicate) {
    Shape shape = x.shape();
    shape[d] = count;
    return expand(narrow(x, d, behind ? n - 1 : 0, 1), shape);
  }
  if (mode == PadMode::circular) return narrow(x, d, behind ? 0 : n - count, count);
  return flip(narrow(x, d, behind ? n - 1 - count : 1, count), {d});
}

Tensor extended(const Tensor& x, int d, int64_t before, int64_t after, PadMode mode) {
  const auto cropped = [&](const Tensor& t) {
    const int64_t first = std::max<int64_t>(-before, 0), last = std::max<int64_t>(-after, 0);
    return first + last > 0 ? narrow(t, d, first, t.size(d) - first - last) : t;
  };
  // What wraps around is what is left.
  const Tensor inside = mode == PadMode::circular ? cropped(x) : x;
  std::vector<Tensor> parts;
  if (before > 0) parts.push_back(beyond(inside, d, before, false, mode));
  parts.push_back(inside);
  if (after > 0) parts.push_back(beyond(inside, d, after, true, mode));
  const Tensor y = parts.size() > 1 ? cat(parts, d) : inside;
  return mode == PadMode::circular ? y : cropped(y);
}

void check_extension(const Tensor& x, int d, int64_t before, int64_t after, PadMode mode) {
  const int64_t n = x.size(d);
  if (mode == PadMode::circular && std::max(before, after) > n) {
    throw Error("Padding value causes wrapping around more than once.");
  }
  if (mode == PadMode::reflect && std::max(before, after) >= n) {
    throw Error(
        cat("Argument #", 2 * (x.dim() - d + 1),
            ": Padding size should be less than the corresponding input dimension, but got: "
            "padding (",
            before, ", ", after, ") at dimension ", d, " of input ", x.shape()));
  }
  if (checked_add(checked_add(n, before), after) < (mode == PadMode::circular ? 0 : 1)) {
    throw Error(cat("input (W: ", n, ") is too small. Calculated output W: ", n + before + after,
                    " (pad: dimension ", d, " of ", x.shape(), ")"));
  }
}

// --- windows ---

kernels::ConvWindows windows_of(const UnfoldOptions& o) {
  return {o.stride, o.padding, o.dilation};
}

// How many windows there are in each dimension.
Pair blocks_of(const char* op, Pair image, Pair kernel, const UnfoldOptions& o) {
  check_window_numbers(op, {image.h, image.w, kernel.h, kernel.w, o.stride.h, o.stride.w,
                            o.padding.h, o.padding.w, o.dilation.h, o.dilation.w});
  const auto require = [](const char* what, const char* name, Pair p, int64_t least) {
    if (p.h >= least && p.w >= least) return;
    throw Error(cat(what, " should be ", least > 0 ? "greater than zero" : "non-negative",
                    ", but got ", name, "_height: ", p.h, " ", name, "_width: ", p.w));
  };
  require("kernel size", "kernel", kernel, 1);
  require("dilation", "dilation", o.dilation, 1);
  require("padding", "pad", o.padding, 0);
  require("stride", "stride", o.stride, 1);
  const auto count = [](int64_t n, int64_t k, int64_t dilation, int64_t padding, int64_t stride) {
    const int64_t reach = n + 2 * padding - checked_mul(dilation, k - 1) - 1;
    return reach < 0 ? 0 : reach / stride + 1;
  };
  return {count(image.h, kernel.h, o.dilation.h, o.padding.h, o.stride.h),
          count(image.w, kernel.w, o.dilation.w, o.padding.w, o.stride.w)};
}

std::string both(Pair p) { return cat("(", p.h, ", ", p.w, ")"); }

// unfold and fold are each other's gradient.
Tensor unfold_images(const Tensor& x, Pair kernel, Pair blocks, const UnfoldOptions& o);

Tensor fold_images(const Tensor& x, const Shape& images, Pair kernel, Pair blocks,
                   const UnfoldOptions& o) {
  Tensor y = kernels::fold(x, images, kernel, windows_of(o));
  if (!needs_grad({x})) return y;
  return record("Col2ImBackward0", y, {x}, [kernel, blocks, o](Gradients& g) {
    g.dx(0) = unfold_images(g.dy(), kernel, blocks, o);
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
  if (!needs_grad({x})) return y;
  return record("Im2ColBackward0", y, {x}, [images = x.shape(), kernel, blocks, o](Gradients& g) {
    g.dx(0) = fold_images(g.dy(), images, kernel, blocks, o);
  });
}

// --- sampling ---

// Where places of the grid, along one dimension, lie among n pixels.
Tensor place_of(const Tensor& at, int64_t n, const GridSampleOptions& o) {
  const double last = double(n - 1);
  Tensor place = o.align_corners ? (at + 1) / 2 * last : ((at + 1) * double(n) - 1) / 2;
  if (o.padding_mode == GridPadding::reflection) {
    const double low = o.align_corners ? 0 : -0.5, span = o.align_corners ? last : double(n);
    if (span == 0) return place * 0;
    const Tensor distance = abs(place - low), rest = remainder(distance, span);
    const Tensor is_turned = ne(remainder(floor(distance / span), 2), 0);
    place = where(is_turned, span - rest, rest) + low;
  }
  return o.padding_mode == GridPadding::zeros ? place : hardtanh(place, 0, last);
}

void check_grid(const Tensor& x, const Tensor& grid, const GridSampleOptions& o) {
  kernels::same_device("grid_sampler", {&x, &grid}, {"input", "grid"});
  const auto refuse = [](const auto&... text) { throw Error(cat("grid_sampler(): ", text...)); };
  const auto sizes = [&] {
    return cat("but got input with sizes ", x.shape(), " and grid with sizes ", grid.shape());
  };
  if (o.mode != Interpolation::bilinear && o.mode != Interpolation::nearest) {
    throw ValueError(
        cat("nn.functional.grid_sample(): expected mode to be 'bilinear' or 'nearest', "
            "but got: '",
            kInterpolationNames[size_t(o.mode)], "'"));
  }
  if (x.dim() != 4 || grid.dim() != 4) {
    refuse("expected 4D input and grid with same number of dimensions, ", sizes());
  }
  if (x.size(0) != grid.size(0))
    refuse("expected grid and input to have same batch size, ", sizes());
  if (grid.size(3) != 2) {
    refuse("expected grid to have size 2 in last dimension, but got grid with sizes ",
           grid.shape());
  }
  for (const int d : {2, 3}) {
    if (x.size(d) > 0) continue;
    refuse("expected input to have non-empty spatial dimensions, but input has sizes ", x.shape(),
           " with dimension ", d, " being empty");
  }
  kernels::check_floating("grid_sampler_2d", x);
  if (grid.dtype() != x.dtype()) {
    throw Error(cat("expected scalar type ", scalar_type_name(x.dtype()), " but found ",
                    scalar_type_name(grid.dtype()), " (grid of grid_sample)"));
  }
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<int64_t>& padding, PadMode mode, Scalar value) {
  if (mode == PadMode::constant) return pad(x, padding, value);
  const int pairs = int(padding.size() / 2);
  if (padding.size() % 2 != 0) throw Error("Padding length must be divisible by 2");
  if (value.to_double() != 0) {
    throw Error(
        cat("Padding mode \"", kPadModeNames[size_t(mode)], "\" doesn't take in value argument"));
  }
  if (pairs < 1 || pairs > 3 || (x.dim() != pairs + 1 && x.dim() != pairs + 2)) {
    throw NotImplementedError(
        cat("Padding size ", padding.size(), " is not supported for ", x.dim(), "D input tensor."));
  }
  for (int d = x.dim() - pairs - 1; d < x.dim() && mode != PadMode::circular; ++d) {
    if (x.size(d) > 0) continue;
    throw Error(
        cat("Expected ", pairs + 1, "D or ", pairs + 2,
            "D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions "
            "for input, but got: ",
            x.shape()));
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
  if (x.dim() != 4 || x.size(1) == 0 || x.size(2) == 0 || x.size(3) == 0) {
    throw Error(
        cat("Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other "
            "non-zero dimensions for input, but got: ",
            x.shape()));
  }
  const Pair image{x.size(2), x.size(3)}, blocks = blocks_of("unfold", image, kernel_size, o);
  if (blocks.h < 1 || blocks.w < 1) {
    throw Error(cat("Given input with spatial size ", both(image),
                    ", kernel_size=", both(kernel_size), ", dilation=", both(o.dilation),
                    ", padding=", both(o.padding),
                    ", calculated shape of the array of sliding blocks as ", both(blocks),
                    ", but its components must be at least one."));
  }
  return unfold_images(x, kernel_size, blocks, o);
}

Tensor fold(const Tensor& x, Pair output_size, Pair kernel_size, const UnfoldOptions& o) {
  if (x.dim() == 2) return squeeze(fold(unsqueeze(x, 0), output_size, kernel_size, o), 0);
  if (x.dim() != 3 || x.size(1) == 0 || x.size(2) == 0) {
    throw Error(
        cat("Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            "non-zero dimensions for input, but got: ",
            x.shape()));
  }
  kernels::check_floating("fold", x);
  const Pair blocks = blocks_of("fold", output_size, kernel_size, o);
  const int64_t window = checked_mul(kernel_size.h, kernel_size.w);
  if (x.size(1) % window != 0) {
    throw Error(
        cat("Expected size of input's dimension 1 to be divisible by the product of "
            "kernel_size, but got input.size(1)=",
            x.size(1), " and kernel_size=", both(kernel_size), "."));
  }
  if (x.size(2) != blocks.h * blocks.w) {
    throw Error(cat("Given output_size=", both(output_size), ", kernel_size=", both(kernel_size),
                    ", dilation=", both(o.dilation), ", padding=", both(o.padding),
                    ", stride=", both(o.stride),
                    ", expected size of input's dimension 2 to match the calculated "
                    "number of sliding blocks ",
                    blocks.h, " * ", blocks.w, " = ", blocks.h * blocks.w,
                    ", but got input.size(2)=", x.size(2), "."));
  }
  return fold_images(x, {x.size(0), x.size(1) / window, output_size.h, output_size.w}, kernel_size,
                     blocks, o);
}

namespace {

void check_shuffle(const char* op, const char* name, const Tensor& x, int64_t factor) {
  if (x.dim() < 3) {
    throw Error(cat(op, " expects input to have at least 3 dimensions, but got input with ",
                    x.dim(), " dimension(s)"));
  }
  if (factor <= 0) throw Error(cat(op, " expects a positive ", name, ", but got ", factor));
}

// The last three sizes become those given, in another order, then [C, H, W].
Tensor rearranged(const Tensor& x, const Shape& split, const Shape& order, const Shape& last) {
  Shape inner(x.shape().begin(), x.shape().end() - 3), outer = inner, permuted;
  const int lead = inner.size();
  for (int d = 0; d < lead; ++d) permuted.push_back(d);
  for (const int64_t d : order) permuted.push_back(lead + d);
  for (const int64_t n : split) inner.push_back(n);
  for (const int64_t n : last) outer.push_back(n);
  const Tensor y = reshape(permute(reshape(x, inner), permuted), outer);
  return y.storage() == x.storage() ? clone(y) : y;  // where nothing moved
}

}  // namespace

Tensor pixel_shuffle(const Tensor& x, int64_t r) {
  check_shuffle("pixel_shuffle", "upscale_factor", x, r);
  const int64_t C = x.size(-3), H = x.size(-2), W = x.size(-1), square = checked_mul(r, r);
  if (C % square != 0) {
    throw Error(
        cat("pixel_shuffle expects its input's 'channel' dimension to be divisible by the "
            "square of upscale_factor, but input.size(-3)=",
            C, " is not divisible by ", square));
  }
  const int64_t c = C / square;
  return rearranged(x, {c, r, r, H, W}, {0, 3, 1, 4, 2}, {c, checked_mul(H, r), checked_mul(W, r)});
}

Tensor pixel_unshuffle(const Tensor& x, int64_t r) {
  check_shuffle("pixel_unshuffle", "downscale_factor", x, r);
  const int64_t C = x.size(-3), H = x.size(-2), W = x.size(-1);
  const auto require = [&](const char* what, int d) {
    if (x.size(d) % r == 0) return;
    throw Error(cat("pixel_unshuffle expects ", what,
                    " to be divisible by downscale_factor, but "
                    "input.size(",
                    d, ")=", x.size(d), " is not divisible by ", r));
  };
  require("height", -2);
  require("width", -1);
  return rearranged(x, {C, H / r, r, W / r, r}, {0, 2, 4, 1, 3},
                    {checked_mul(C, checked_mul(r, r)), H / r, W / r});
}

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& o) {
  if (x.dtype() != grid.dtype() && autocasts(x)) {
    return casted(Cast::to_float32, grid_sample, x, grid, o);
  }
  check_grid(x, grid, o);
  const int64_t N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
  const Tensor at = grid.to(compute_type(grid.dtype()));
  const Tensor px = place_of(select(at, 3, 0), W, o), py = place_of(select(at, 3, 1), H, o);
  const bool nearest = o.mode == Interpolation::nearest;
  const auto first = [&](const Tensor& t) {
    return nearest ? round(t.detach()) : floor(t.detach());
  };
  const Tensor left = first(px), top = first(py);
  const Tensor image = reshape(arange(N, {.device = x.device()}), {N, 1, 1});
  std::vector<Tensor> rows, shares, inside;  // of one pixel, or of four
  for (int i = 0; i < (nearest ? 1 : 4); ++i) {
    const Tensor h = top + i / 2, w = left + i % 2;
    const auto within = [](const Tensor& t, int64_t n) { return logical_and(ge(t, 0), lt(t, n)); };
    const auto number = [](const Tensor& t, int64_t n) { return clamp(t, 0, n - 1).to(kInt64); };
    rows.push_back((image * H + number(h, H)) * W + number(w, W));
    inside.push_back(logical_and(within(h, H), within(w, W)));
    const auto share = [](const Tensor& place, const Tensor& low, bool high) {
      return high ? place - low : low + 1 - place;
    };
    if (!nearest) shares.push_back(share(py, top, i / 2 > 0) * share(px, left, i % 2 > 0));
  }
  const Tensor pixels = reshape(permute(x, {0, 2, 3, 1}), {N * H * W, C});
  Tensor y = embedding(pixels, stack(rows));  // [1 or 4, N, H', W', C]
  if (!nearest) y = y * unsqueeze(stack(shares), -1);
  if (o.padding_mode == GridPadding::zeros) y = masked(y, unsqueeze(stack(inside), -1));
  y = nearest ? select(y, 0, 0) : sum(y, {0}).to(x.dtype());
  y = permute(y, {0, 3, 1, 2});
  trace("grid_sample", y, {x, grid}, o);
  return y;
}

Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners) {
  if (!theta.is_floating_point()) {
    throw ValueError(cat("Expected theta to have floating point type, but got ", theta.dtype()));
  }
  if (size.size() != 4) {
    throw NotImplementedError(
        cat("affine_grid only supports 4D sizes, for 2D affine transforms. Got "
            "size ",
            size, "."));
  }
  if (theta.shape() != Shape{size[0], 2, 3}) {
    throw ValueError(cat("Expected a batch of 2D affine matrices of shape Nx2x3 for size ", size,
                         ". Got ", theta.shape(), "."));
  }
  if (*std::min_element(size.begin(), size.end()) <= 0) {
    throw ValueError(cat("Expected non-zero, positive output size. Got ", size));
  }
  const int64_t N = size[0], H = size[2], W = size[3];
  const TensorOptions like{.dtype = theta.dtype(), .device = theta.device()};
  const auto places = [&](int64_t n) {
    const double last = n > 1 ? align_corners ? 1 : 1 - 1 / double(n) : 0;
    return n > 1 ? linspace(-last, last, n, like) : zeros({1}, like);
  };
  const Tensor across = expand(places(W), {H, W}), down = expand(unsqueeze(places(H), 1), {H, W});
  const Tensor base = reshape(stack({across, down, ones({H, W}, like)}, 2), {H * W, 3});
  return reshape(matmul(base, transpose(theta, 1, 2)), {N, H, W, 2});
}

}  // namespace taper::inline v0
