// `digits`: a generated data set that needs no file. Each image is one of the ten digits, drawn
// from a stroke skeleton that is bent, rotated, sheared, scaled and shifted at random, with random
// stroke width, blur, contrast and noise.
#pragma once

#include <cstdint>

#include "data/images/images.h"

namespace taper::v0::data {

// Generated digits as a data source. The first images of the sequence are for training, the
// following ones for the test.
struct Digits {
  int64_t train_size = 20000, test_size = 4000;
  uint64_t seed = 1;

  template <class V> void describe(V& v) {
    constexpr Range kSamples{1, 10'000'000};
    v("train_size", train_size, kSamples, "number of training images");
    v("test_size", test_size, kSamples, "number of test images");
    v("seed", seed, "seed of the images; independent of the run's seed");
  }

  Splits load(uint64_t seed) const;
  Outline outline(uint64_t seed) const;
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const {
    return more_images(info, file);
  }
  static constexpr DType raw_dtype = kUInt8;
  Tensor prepared(const DataInfo&, const Tensor& raw) const { return scaled_pixels(raw); }
};

// Draws 28x28 images with labels 0 to 9 from an endless sequence that `seed` determines. Returns
// images first to first + count - 1 of it. Image i is a function of (seed, i) only, so disjoint
// ranges give disjoint splits. Every ten images, starting at a multiple of ten, contain each digit
// once in random order. Takes about 20 us per image on the calling thread. Throws ValueError if
// first or count is negative, or if an index or the number of pixels exceeds int64.
Batch draw_digits(uint64_t seed, int64_t first, int64_t count);

}  // namespace taper::v0::data
