// Further random transforms of training images (data/transforms.h).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "data/dataset.h"
#include "data/transforms.h"
#include "framework/base/describe.h"

namespace taper::v0::data {

// Rotates by up to `degrees` in either direction around the center
// (torchvision.transforms.RandomRotation). Interpolates bilinearly; pixels outside of the image
// count as 0.
struct RandomRotation {
  double degrees = 10;
  template <class V> void describe(V& v) {
    v("degrees", degrees, {0, 180}, "largest rotation in either direction");
  }
  Tensor operator()(const Tensor& x, SampleRng& draws) const;
};

// Cuts a part of random area and aspect ratio at a random place, and scales it to the size of the
// image (torchvision.transforms.RandomResizedCrop). The part is at most as high and as wide as the
// image. Interpolates bilinearly.
struct RandomResizedCrop {
  std::array<double, 2> scale{0.08, 1}, ratio{3. / 4, 4. / 3};
  template <class V> void describe(V& v) {
    v("scale", scale, kBetweenZeroAndOneIncluded, "smallest and largest share of the area");
    v("ratio", ratio, kPositive, "smallest and largest ratio of width to height of the part");
  }
  template <class V> void rules(V& v) {
    v("scale", "must be in rising order", [this] { return scale[0] <= scale[1]; });
    v("ratio", "must be in rising order", [this] { return ratio[0] <= ratio[1]; });
  }
  Tensor operator()(const Tensor& x, SampleRng& draws) const;

  static constexpr Range kBetweenZeroAndOneIncluded{0, 1, true, false};
};

// Small changes that most photos bear: rotation by up to 10 degrees, scaling and shifts by up to
// 10 %, and brightness and contrast. Images of three channels are also mirrored and change their
// saturation.
struct AutoTransform {
  template <class V> void describe(V&) {}
  Tensor operator()(const Tensor& x, SampleRng& draws) const;
};

// Options of Mixup (data/transforms.h), whose number of classes the data determine.
struct MixupOptions {
  double alpha = 0.2;
  template <class V> void describe(V& v) {
    v("alpha", alpha, kPositive,
      "shares are drawn from Beta(alpha, alpha): small values mix little");
  }
};

// The mean and standard deviation by which channels of images are normalized.
struct NormalizeOptions {
  std::vector<double> mean{}, std{};
  template <class V> void describe(V& v) {
    v("mean", mean, "of each channel").required();
    v("std", std, kPositive, "standard deviation of each channel").required();
  }
  template <class V> void rules(V& v) {
    v("std", "must have as many numbers as mean", [this] { return std.size() == mean.size(); });
  }
};

// Returns (x - mean) / std of each channel of images [B, C, H, W], and the inverse. Throws
// ValueError for a different number of channels.
Tensor normalize_channels(const Tensor& x, const NormalizeOptions& by);
Tensor denormalize_channels(const Tensor& x, const NormalizeOptions& by);

// Returns a data set of the same samples with normalized inputs.
DatasetPtr normalized_dataset(DatasetPtr images, const NormalizeOptions& by);

}  // namespace taper::v0::data
