#include "data/transforms.h"

#include <algorithm>
#include <numbers>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/nn/image.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/base/philox.h"
#include "framework/factory/factories.h"

namespace taper::v0::data {
namespace {

constexpr uint64_t kTransformStreams = uint64_t(3)
                                       << 61;       // far from the streams of all other draws
constexpr uint64_t kMostDraws = uint64_t(1) << 20;  // per sample and epoch

void require_images(const char* name, const Tensor& x) {
  require<ValueError>(x.dim() == 4 && x.is_floating_point(), name,
                      ": expected floating images [B, C, H, W], got ", x.dtype(), " ", x.shape());
}

// Returns column i of numbers [B, n] as [B, 1, 1, 1], which broadcasts to images.
Tensor of_images(const Tensor& numbers, int64_t i = 0) {
  return numbers.select(1, i).reshape({-1, 1, 1, 1});
}

// Returns 0, 1, ... as [1, n], on the device of `like`.
Tensor places(int64_t n, const Tensor& like) {
  return arange(n, {.dtype = kInt64, .device = like.device()}).unsqueeze(0);
}

// Returns y[b, c, i, j] = x[b, c, rows[b, i], columns[b, j]]; rows [B, h] and columns [B, w] are
// int64.
Tensor pick(const Tensor& x, const Tensor& rows, const Tensor& columns) {
  const int64_t B = x.size(0), C = x.size(1), h = rows.size(1), w = columns.size(1);
  const Tensor index =
      (rows.unsqueeze(2) * x.size(3) + columns.unsqueeze(1)).reshape({B, 1, h * w});
  return gather(x.flatten(2), 2, index.expand({B, C, h * w})).reshape({B, C, h, w});
}

// Returns whole numbers from 0 to count - 1 for draws in [0, 1). The product may be rounded up to
// count.
Tensor whole(const Tensor& draws, int64_t count) {
  return minimum(floor(draws * double(count)).to(kInt64), count - 1);
}

Tensor grey_of(const Tensor& x) {
  if (x.size(1) == 1) return x;
  require<ValueError>(x.size(1) == 3, "ColorJitter: expected 1 or 3 channels, got ", x.size(1));
  const auto channel = [&](int64_t c) { return x.narrow(1, c, 1); };
  return channel(0) * 0.2989 + channel(1) * 0.587 + channel(2) * 0.114;
}

}  // namespace

SampleRng::SampleRng(uint64_t seed, int64_t epoch, std::vector<int64_t> samples, Device device)
    : seed_(seed),
      stream_(kTransformStreams + uint64_t(epoch)),
      samples_(std::move(samples)),
      device_(device) {}

Tensor SampleRng::uniform(int64_t count, double low, double high) {
  require<ValueError>(count >= 0 && drawn_ + uint64_t(count) <= kMostDraws,
                      "SampleRng::uniform: ", count, " more numbers after ", drawn_, "; there are ",
                      kMostDraws, " for each sample");
  const Tensor out = Tensor::make({size(), count}, kFloat32, Device(), device_.is_cuda());
  float* to = out.data<float>();
  for (const int64_t sample : samples_) {
    for (uint64_t i = 0; i < uint64_t(count); ++i) {
      const uint64_t at = uint64_t(sample) * kMostDraws + drawn_ + i;
      const uint32_t word = philox({seed_, stream_}, at / 4).word[at % 4];
      *to++ = float(low + (high - low) * double(uniform_float(word)));
    }
  }
  drawn_ += uint64_t(count);
  return out.to(device_, {.non_blocking = true});
}

Tensor Normalize::operator()(const Tensor& x, SampleRng&) const {
  require_images("Normalize", x);
  const auto of_channels = [&](const std::vector<double>& values) {
    require<ValueError>(std::ssize(values) == x.size(1), "Normalize: ", values.size(),
                        " numbers for ", x.size(1), " channels");
    return tensor_of(values.data(), {1, x.size(1), 1, 1}).to(x.device(), x.dtype());
  };
  if (std::ranges::count(std, 0.0) > 0) throw ValueError("Normalize: a std is 0");
  return (x - of_channels(mean)) / of_channels(std);
}

Tensor RandomCrop::operator()(const Tensor& x, SampleRng& draws) const {
  require_images("RandomCrop", x);
  const Tensor padded = padding > 0 ? pad(x, {padding, padding, padding, padding}) : x;
  const int64_t h = size > 0 ? size : x.size(2), w = size > 0 ? size : x.size(3);
  const int64_t H = padded.size(2), W = padded.size(3);
  require<ValueError>(h <= H && w <= W, "Required crop size ", Shape{h, w},
                      " is larger than input image size ", Shape{H, W});
  const Tensor u = draws.uniform(2);
  const auto from = [&](int64_t i, int64_t free) { return whole(u.narrow(1, i, 1), free + 1); };
  return pick(padded, from(0, H - h) + places(h, u), from(1, W - w) + places(w, u));
}

Tensor RandomHorizontalFlip::operator()(const Tensor& x, SampleRng& draws) const {
  require_images("RandomHorizontalFlip", x);
  return where(lt(of_images(draws.uniform(1)), p), flip(x, {3}), x);
}

Tensor RandomAffine::operator()(const Tensor& x, SampleRng& draws) const {
  require_images("RandomAffine", x);
  const double H = double(x.size(2)), W = double(x.size(3));
  const Tensor u = draws.uniform(4, -1, 1);
  const auto number = [&](int64_t i, double most) { return of_images(u, i).squeeze(1) * most; };
  const Tensor angle = number(0, degrees * std::numbers::pi / 180);
  const Tensor dx = round(number(1, translate[0] * W)), dy = round(number(2, translate[1] * H));
  const Tensor by = number(3, (scale[1] - scale[0]) / 2) + (scale[0] + scale[1]) / 2;
  // The position in the source image of each pixel [i, j], relative to the center, as [B, H, W].
  const TensorOptions here{.dtype = kFloat32, .device = x.device()};
  const Tensor right = (arange(x.size(3), here) - (W - 1) / 2) - dx;
  const Tensor down = (arange(x.size(2), here) - (H - 1) / 2).unsqueeze(1) - dy;
  const Tensor from_x = (cos(angle) * right + sin(angle) * down) / by;
  const Tensor from_y = (cos(angle) * down - sin(angle) * right) / by;
  const Tensor grid = stack({from_x * (2 / W), from_y * (2 / H)}, -1);
  return grid_sample(x, grid.to(x.dtype()));
}

Tensor ColorJitter::operator()(const Tensor& x, SampleRng& draws) const {
  require_images("ColorJitter", x);
  const Tensor u = draws.uniform(3);
  // Interpolates between `other` and y, or extrapolates.
  const auto blend = [&](const Tensor& y, const Tensor& other, int64_t i, double most) {
    if (most == 0) return y;
    const double low = std::max(0.0, 1 - most);
    const Tensor factor = (of_images(u, i) * (1 + most - low) + low).to(x.dtype());
    return clamp(other + (y - other) * factor, 0, 1);
  };
  Tensor y = blend(x, zeros_like(x), 0, brightness);
  y = blend(y, mean(grey_of(y), {1, 2, 3}, true), 1, contrast);
  return blend(y, grey_of(y), 2, saturation);
}

Tensor Cutout::operator()(const Tensor& x, SampleRng& draws) const {
  require_images("Cutout", x);
  const Tensor u = draws.uniform(2);
  const auto is_inside = [&](int64_t i, int64_t n) {
    const Tensor at = places(n, u) - (whole(u.narrow(1, i, 1), n) - size / 2);
    return logical_and(ge(at, 0), lt(at, size));  // [B, n]
  };
  const Tensor hole =
      logical_and(is_inside(0, x.size(2)).unsqueeze(2), is_inside(1, x.size(3)).unsqueeze(1));
  return masked_fill(x, hole.unsqueeze(1), 0);
}

Batch Mixup::operator()(const Batch& batch, SampleRng& draws) const {
  const Tensor u = draws.uniform(2);
  // Draws Beta(a, a) from a t variate with 2a degrees of freedom, by Bailey's method ("Polar
  // generation of random variates with the t-distribution", 1994).
  const Tensor c = cos(u.narrow(1, 1, 1) * (2 * std::numbers::pi));
  const Tensor t = (pow(1 - u.narrow(1, 0, 1), -1 / alpha) - 1) * square(c);
  const Tensor part = sign(c) / (sqrt(1 / t + 1) * 2) + 0.5;  // [B, 1]
  const auto mixed = [&](const Tensor& x) {
    Shape shape = x.shape();
    for (int d = 0; d < x.dim(); ++d) shape[d] = d == 0 ? x.size(0) : 1;
    const Tensor p = part.reshape(shape).to(x.dtype());
    return x * p + flip(x, {0}) * (1 - p);
  };
  Tensor y = batch.targets;
  if (y.defined() && !y.is_floating_point()) {
    if (num_classes < 1) throw ValueError("Mixup: needs num_classes, for targets are classes");
    y = one_hot(y, num_classes).to(batch.inputs.dtype());
  }
  return {mixed(batch.inputs), y.defined() ? mixed(y) : y, batch.others};
}

}  // namespace taper::v0::data
