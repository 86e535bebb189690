// Samples images at the positions of a grid.
#include <algorithm>

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/nn/image.h"
#include "autograd/ops/op_helpers.h"

namespace taper::v0 {
namespace {

// Converts grid positions along one dimension to pixel coordinates in an image of n pixels.
Tensor place_of(const Tensor& at, int64_t n, const GridSampleOptions& o) {
  const double last = double(n - 1);
  Tensor place = o.align_corners ? (at + 1) / 2 * last : ((at + 1) * double(n) - 1) / 2;
  if (o.padding_mode == GridPadding::kReflection) {
    const double low = o.align_corners ? 0 : -0.5, span = o.align_corners ? last : double(n);
    if (span == 0) return place * 0;
    const Tensor distance = abs(place - low), rest = remainder(distance, span);
    const Tensor is_turned = ne(remainder(floor(distance / span), 2), 0);
    place = where(is_turned, span - rest, rest) + low;
  }
  return o.padding_mode == GridPadding::kZeros ? place : hardtanh(place, 0, last);
}

void check_grid(const Tensor& x, const Tensor& grid, const GridSampleOptions& o) {
  kernels::same_device("grid_sampler", {&x, &grid}, {"input", "grid"});
  const auto refuse = [](const auto&... text) { throw Error("grid_sampler(): ", text...); };
  const auto sizes = [&] {
    return concat_to_string("but got input with sizes ", x.shape(), " and grid with sizes ",
                            grid.shape());
  };
  require<ValueError>(
      o.mode == Interpolation::kBilinear || o.mode == Interpolation::kNearest,
      "taper::grid_sample(): expected mode to be 'bilinear' or 'nearest', but got: '", o.mode, "'");
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
  require(grid.dtype() == x.dtype(), "expected scalar type ", scalar_type_name(x.dtype()),
          " but found ", scalar_type_name(grid.dtype()), " (grid of grid_sample)");
}

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& o) {
  if (x.dtype() != grid.dtype() && autocasts(x)) return in_float32(grid_sample, x, grid, o);
  check_grid(x, grid, o);
  const int64_t N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
  const Tensor at = grid.to(compute_type(grid.dtype()));
  const Tensor px = place_of(select(at, 3, 0), W, o), py = place_of(select(at, 3, 1), H, o);
  const bool nearest = o.mode == Interpolation::kNearest;
  const auto first = [&](auto& t) { return nearest ? round(t.detach()) : floor(t.detach()); };
  const Tensor left = first(px), top = first(py);
  const Tensor image = reshape(arange(N, {.device = x.device()}), {N, 1, 1});
  std::vector<Tensor> rows, shares, inside;  // for one pixel (nearest) or four (bilinear)
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
  if (o.padding_mode == GridPadding::kZeros) y = zero_outside(y, unsqueeze(stack(inside), -1));
  y = nearest ? select(y, 0, 0) : sum(y, {0}).to(x.dtype());
  return traced("grid_sample", permute(y, {0, 3, 1, 2}), {x, grid}, o);
}

Tensor affine_grid(const Tensor& theta, const Shape& size, BoolArg align_corners) {
  require<ValueError>(theta.is_floating_point(),
                      "Expected theta to have floating point type, but got ", theta.dtype());
  require<NotImplementedError>(
      size.size() == 4, "affine_grid only supports 4D sizes, for 2D affine transforms. Got size ",
      size, ".");
  require<ValueError>(theta.shape() == Shape{size[0], 2, 3},
                      "Expected a batch of 2D affine matrices of shape Nx2x3 for size ", size,
                      ". Got ", theta.shape(), ".");
  require<ValueError>(*std::min_element(size.begin(), size.end()) > 0,
                      "Expected non-zero, positive output size. Got ", size);
  const int64_t N = size[0], H = size[2], W = size[3];
  const TensorOptions like = options_of(theta);
  const auto places = [&](int64_t n) {
    const double last = n > 1 ? align_corners ? 1 : 1 - 1 / double(n) : 0;
    return n > 1 ? linspace(-last, last, n, like) : zeros({1}, like);
  };
  const Tensor across = expand(places(W), {H, W}), down = expand(unsqueeze(places(H), 1), {H, W});
  const Tensor base = reshape(stack({across, down, ones({H, W}, like)}, 2), {H * W, 3});
  return reshape(matmul(base, transpose(theta, 1, 2)), {N, H, W, 2});
}

}  // namespace taper::v0
