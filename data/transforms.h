// Transforms of batches before they are passed to the model. Random transforms of images [B, C, H,
// W] (floating-point, on any device) draw random numbers for each sample separately. The result
// does not depend on the batch, the number of workers or the device.
//
//   data::DataLoader loader(set, {.batch_size = 128,
//                                 .transform = data::compose(data::RandomCrop{.padding = 4},
//                                                            data::RandomHorizontalFlip{})});
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <vector>

#include "data/dataset.h"
#include "framework/base/describe.h"

namespace taper::v0::data {

// The random numbers of a transform. Each sample's numbers are a function of the seed, the epoch
// and the sample's number, independent of the rest of the batch.
class SampleRng {
 public:
  SampleRng(uint64_t seed, int64_t epoch, std::vector<int64_t> samples, Device device);

  int64_t size() const { return std::ssize(samples_); }
  // Returns float32 [samples, count] in [low, high), on the device. Each call returns new numbers.
  Tensor uniform(int64_t count, double low = 0, double high = 1);

 private:
  uint64_t seed_, stream_;
  std::vector<int64_t> samples_;
  Device device_;
  uint64_t drawn_ = 0;  // numbers drawn for each sample
};

// A function that is applied to each batch.
using Transform = std::function<Batch(const Batch&, SampleRng&)>;

// Computes (x - mean) / std per channel (torchvision.transforms.Normalize). Throws ValueError for a
// different number of channels, or a std of 0.
struct Normalize {
  std::vector<double> mean, std;
  Tensor operator()(const Tensor& x, SampleRng& draws) const;
};

// Cuts a square of `size` at a random place of the image, which is padded with `padding` zeros
// (torchvision.transforms.RandomCrop). Throws ValueError if the square does not fit.
struct RandomCrop {
  int64_t size = 0;  // 0: the size of the image
  int64_t padding = 0;
  template <class V> void describe(V& v) {
    v("padding", padding, kWidthOrNone, "zeros added on each side before the crop");
  }
  Tensor operator()(const Tensor& x, SampleRng& draws) const;
};

// Mirrors an image with probability p (torchvision.transforms.RandomHorizontalFlip).
struct RandomHorizontalFlip {
  double p = 0.5;
  template <class V> void describe(V& v) { v("p", p, kUnit, "probability"); }
  Tensor operator()(const Tensor& x, SampleRng& draws) const;
};

// Rotates by up to `degrees` in either direction around the center, shifts by up to these fractions
// of width and height, and scales by a factor in the given range
// (torchvision.transforms.RandomAffine). Interpolates bilinearly; pixels outside of the image count
// as 0.
struct RandomAffine {
  double degrees = 0;
  std::array<double, 2> translate{0, 0}, scale{1, 1};
  template <class V> void describe(V& v) {
    v("degrees", degrees, {0, 180}, "largest rotation in either direction");
    v("translate", translate, kUnit, "largest shifts, as fractions of width and height");
    v("scale", scale, kPositive, "smallest and largest scale");
  }
  Tensor operator()(const Tensor& x, SampleRng& draws) const;
};

// Changes brightness, contrast and saturation, in this order, of gray or RGB images in [0, 1], by
// factors in [max(0, 1 - s), 1 + s] (torchvision.transforms.ColorJitter).
struct ColorJitter {
  double brightness = 0, contrast = 0, saturation = 0;
  template <class V> void describe(V& v) {
    v("brightness", brightness, kNonNegative, "largest deviation of the factor from 1");
    v("contrast", contrast, kNonNegative, "largest deviation of the factor from 1");
    v("saturation", saturation, kNonNegative, "largest deviation of the factor from 1");
  }
  Tensor operator()(const Tensor& x, SampleRng& draws) const;
};

// Writes zeros into a square around a random pixel; the square may extend beyond the edge (DeVries
// and Taylor, "Improved regularization of convolutional neural networks with Cutout", 2017).
struct Cutout {
  int64_t size = 8;
  template <class V> void describe(V& v) {
    v("size", size, kWidth, "side of the square that is set to 0");
  }
  Tensor operator()(const Tensor& x, SampleRng& draws) const;
};

// Mixes the samples and targets of a batch with those of the same batch in reverse order: l x + (1
// - l) y, where l is drawn from Beta(alpha, alpha) (Zhang et al., "mixup: beyond empirical risk
// minimization", 2018). Classes become probabilities [B, num_classes], which cross_entropy accepts.
struct Mixup {
  int64_t num_classes = 0;  // number of classes; used if targets are int64 classes
  double alpha = 0.2;
  Batch operator()(const Batch& batch, SampleRng& draws) const;
};

// Applies transforms in order. Each is a function of a batch, or of the inputs only.
template <class... Steps> Transform compose(Steps... steps) {
  return [=](const Batch& batch, SampleRng& draws) {
    Batch out = batch;
    const auto apply = [&](const auto& step) {
      if constexpr (std::invocable<decltype(step), const Batch&, SampleRng&>) {
        out = step(out, draws);
      } else {
        out.inputs = step(out.inputs, draws);
      }
    };
    (apply(steps), ...);
    return out;
  };
}

}  // namespace taper::v0::data
