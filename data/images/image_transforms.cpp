#include "data/images/image_transforms.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/image.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"

namespace taper::v0::data {
namespace {

// Returns the numbers of the channels as [1, C, 1, 1].
Tensor of_channels(const std::vector<double>& values, const Tensor& like) {
  require<ValueError>(like.dim() == 4 && std::ssize(values) == like.size(1),
                      "normalize: ", values.size(), " numbers for images of shape ", like.shape());
  return tensor_of(values.data(), {1, std::ssize(values), 1, 1}).to(like.device(), like.dtype());
}

class NormalizedSet : public Dataset {
 public:
  NormalizedSet(DatasetPtr images, NormalizeOptions by)
      : images_(std::move(images)), by_(std::move(by)) {}
  int64_t size() const override { return images_->size(); }
  Batch get(const Tensor& rows, bool pinned) const override {
    Batch out = images_->get(rows, pinned);
    out.inputs = normalize_channels(out.inputs, by_);
    return out;
  }
  std::vector<std::string> fields() const override { return images_->fields(); }
  std::unique_ptr<Sampler> sampler(const DataLoaderOptions& options, uint64_t seed) const override {
    return images_->sampler(options, seed);
  }
  Device device() const override { return images_->device(); }
  DatasetPtr to(Device device) const override {
    DatasetPtr moved = images_->to(device);
    return moved ? std::make_shared<NormalizedSet>(std::move(moved), by_) : nullptr;
  }
  size_t nbytes() const override { return images_->nbytes(); }

 private:
  DatasetPtr images_;
  NormalizeOptions by_;
};

}  // namespace

Tensor normalize_channels(const Tensor& x, const NormalizeOptions& by) {
  return (x - of_channels(by.mean, x)) / of_channels(by.std, x);
}

Tensor denormalize_channels(const Tensor& x, const NormalizeOptions& by) {
  return x * of_channels(by.std, x) + of_channels(by.mean, x);
}

DatasetPtr normalized_dataset(DatasetPtr images, const NormalizeOptions& by) {
  if (!images) return nullptr;
  return std::make_shared<NormalizedSet>(std::move(images), by);
}

Tensor RandomRotation::operator()(const Tensor& x, SampleRng& draws) const {
  return RandomAffine{.degrees = degrees}(x, draws);
}

Tensor RandomResizedCrop::operator()(const Tensor& x, SampleRng& draws) const {
  require<ValueError>(x.dim() == 4 && x.is_floating_point(),
                      "RandomResizedCrop: expected floating images [B, C, H, W], got ", x.dtype(),
                      " ", x.shape());
  const double H = double(x.size(2)), W = double(x.size(3));
  const Tensor u = draws.uniform(4);
  const auto drawn = [&](int64_t i, double low, double high) {
    return u.narrow(1, i, 1).squeeze(1) * (high - low) + low;  // [B]
  };
  const Tensor area = drawn(0, scale[0], scale[1]) * (H * W);
  const Tensor aspect = exp(drawn(1, std::log(ratio[0]), std::log(ratio[1])));
  const Tensor height = clamp(sqrt(area / aspect), 1, H), width = clamp(sqrt(area * aspect), 1, W);
  const Tensor top = (H - height) * drawn(2, 0, 1), left = (W - width) * drawn(3, 0, 1);
  // The position in the source image of the middle of each pixel [i, j], in pixels.
  const TensorOptions here{.dtype = kFloat32, .device = x.device()};
  const auto positions = [&](int64_t n, const Tensor& first, const Tensor& size) {
    return first.unsqueeze(1) + (arange(n, here) + 0.5) * (1.0 / double(n)) * size.unsqueeze(1);
  };
  const Tensor from_y = positions(x.size(2), top, height) * (2 / H) - 1;  // [B, H]
  const Tensor from_x = positions(x.size(3), left, width) * (2 / W) - 1;  // [B, W]
  const Shape shape{x.size(0), x.size(2), x.size(3)};
  const Tensor grid =
      stack({from_x.unsqueeze(1).expand(shape), from_y.unsqueeze(2).expand(shape)}, -1);
  return grid_sample(x, grid.to(x.dtype()), {.padding_mode = GridPadding::kBorder});
}

Tensor AutoTransform::operator()(const Tensor& x, SampleRng& draws) const {
  const bool is_color = x.dim() == 4 && x.size(1) == 3;
  Tensor y = is_color ? RandomHorizontalFlip{}(x, draws) : x;
  y = RandomAffine{.degrees = 10, .translate = {0.05, 0.05}, .scale = {0.9, 1.1}}(y, draws);
  return ColorJitter{.brightness = 0.2, .contrast = 0.2, .saturation = is_color ? 0.2 : 0}(y,
                                                                                           draws);
}

}  // namespace taper::v0::data
