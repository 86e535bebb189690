// What batches go through on their way to a model. Of images [B, C, H, W] (floating, on any device)
// random ones draw for each sample by itself: the same whatever the batch, the workers and the
// device.
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

// What a random transform of a batch draws from: each sample's numbers are a function of the seed,
// the epoch and the sample's own number, whoever makes the batch and whatever else is in it.
class Draws {
 public:
  Draws(uint64_t seed, int64_t epoch, std::vector<int64_t> samples, Device device);

  int64_t size() const { return std::ssize(samples_); }
  // [samples, count] float32 in [low, high), on the device; others each time.
  Tensor uniform(int64_t count, double low = 0, double high = 1);

 private:
  uint64_t seed_, stream_;
  std::vector<int64_t> samples_;
  Device device_;
  uint64_t drawn_ = 0;  // numbers of each sample
};

// Done to each batch where it is used.
using Transform = std::function<Batch(const Batch&, Draws&)>;

// (x - mean) / std of each channel (torchvision.transforms.Normalize). ValueError: other channels,
// or a std of 0.
struct Normalize {
  std::vector<double> mean, std;
  Tensor operator()(const Tensor& x, Draws& draws) const;
};

// A square of `size` at a random place of the image with `padding` zeros around it
// (torchvision.transforms.RandomCrop). ValueError: it is larger than that.
struct RandomCrop {
  int64_t size = 0;  // 0: as the image is
  int64_t padding = 0;
  template <class V> void describe(V& v) {
    v("padding", padding, kWidthOrNone, "zeros around the image, from which it is cut out again");
  }
  Tensor operator()(const Tensor& x, Draws& draws) const;
};

// Mirrors an image with probability p (torchvision.transforms.RandomHorizontalFlip).
struct RandomHorizontalFlip {
  double p = 0.5;
  template <class V> void describe(V& v) { v("p", p, kUnit, "probability"); }
  Tensor operator()(const Tensor& x, Draws& draws) const;
};

// Turns by up to `degrees` to either side about the middle, moves by up to these parts of width and
// height, scales by a number between the two; bilinear, with zeros around
// (torchvision.transforms.RandomAffine).
struct RandomAffine {
  double degrees = 0;
  std::array<double, 2> translate{0, 0}, scale{1, 1};
  template <class V> void describe(V& v) {
    v("degrees", degrees, {0, 180}, "largest angle to either side");
    v("translate", translate, kUnit, "largest moves, as parts of width and height");
    v("scale", scale, kPositive, "smallest and largest scale");
  }
  Tensor operator()(const Tensor& x, Draws& draws) const;
};

// Of grey or RGB images in [0, 1]: brightness, contrast and saturation are changed in this order by
// factors between 1 - s (0 at least) and 1 + s (torchvision.transforms.ColorJitter).
struct ColorJitter {
  double brightness = 0, contrast = 0, saturation = 0;
  template <class V> void describe(V& v) {
    v("brightness", brightness, kNonNegative, "largest change of the factor 1");
    v("contrast", contrast, kNonNegative, "largest change of the factor 1");
    v("saturation", saturation, kNonNegative, "largest change of the factor 1");
  }
  Tensor operator()(const Tensor& x, Draws& draws) const;
};

// Zeros in a square about a random pixel, which may reach over the edge (DeVries and Taylor,
// "Improved regularization of convolutional neural networks with Cutout", 2017).
struct Cutout {
  int64_t size = 8;
  template <class V> void describe(V& v) { v("size", size, kWidth, "of the square"); }
  Tensor operator()(const Tensor& x, Draws& draws) const;
};

// Mixes each sample with the one at its place from the batch's end, and their targets: l x + (1 -
// l) y, where l is drawn from Beta(alpha, alpha) (Zhang et al., "mixup: beyond empirical risk
// minimization", 2018). Classes become probabilities [B, num_classes], which cross_entropy takes.
struct Mixup {
  int64_t num_classes = 0;  // of int64 targets
  double alpha = 0.2;
  Batch operator()(const Batch& batch, Draws& draws) const;
};

// One transform after another: of batches, or of their inputs alone.
template <class... Steps> Transform compose(Steps... steps) {
  return [=](const Batch& batch, Draws& draws) {
    Batch out = batch;
    const auto apply = [&](const auto& step) {
      if constexpr (std::invocable<decltype(step), const Batch&, Draws&>) {
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
