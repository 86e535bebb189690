#include "data/images/digits.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "framework/base/error.h"

namespace taper::v0::data {
namespace {

constexpr int64_t kSize = 28;
// Above the strongest noise (40), and below half of the palest ink (150).
constexpr uint8_t kInk = 70;

struct Images {
  int64_t count, height, width;
  std::vector<uint8_t> pixels;
  std::vector<int64_t> labels;
};

Images drawn(uint64_t seed, int64_t first, int64_t count) {
  const Batch b = draw_digits(seed, first, count);
  EXPECT_EQ(b.inputs.size(1), 1);
  return {b.inputs.size(0), b.inputs.size(2), b.inputs.size(3), b.inputs.to_vector<uint8_t>(),
          b.targets.to_vector<int64_t>()};
}

// The 64-bit FNV-1a hash.
uint64_t hash(const Images& images) {
  uint64_t h = 0xcbf29ce484222325u;
  const auto mix = [&h](uint8_t byte) { h = (h ^ byte) * 0x100000001b3u; };
  for (uint8_t pixel : images.pixels) mix(pixel);
  for (int64_t label : images.labels) mix(uint8_t(label));
  return h;
}

bool is_ink(const Images& images, int64_t image, int64_t y, int64_t x) {
  return images.pixels[size_t((image * kSize + y) * kSize + x)] >= kInk;
}

int64_t ink_pixels(const Images& images, int64_t image) {
  const auto begin = images.pixels.begin() + image * kSize * kSize;
  return std::count_if(begin, begin + kSize * kSize, [](uint8_t p) { return p >= kInk; });
}

int touched_borders(const Images& images, int64_t image) {
  bool top = false, bottom = false, left = false, right = false;
  for (int64_t i = 0; i < kSize; ++i) {
    top |= is_ink(images, image, 0, i);
    bottom |= is_ink(images, image, kSize - 1, i);
    left |= is_ink(images, image, i, 0);
    right |= is_ink(images, image, i, kSize - 1);
  }
  return top + bottom + left + right;
}

TEST(Digits, SizesAreThoseAskedFor) {
  const Images images = drawn(3, 5, 7);
  EXPECT_EQ(images.count, 7);
  EXPECT_EQ(images.height, kSize);
  EXPECT_EQ(images.width, kSize);
  EXPECT_EQ(images.pixels.size(), size_t(7 * kSize * kSize));
  EXPECT_EQ(images.labels.size(), 7u);
  EXPECT_TRUE(drawn(3, 5, 0).pixels.empty());
}

// Accuracies are compared across releases, so the images must not change unnoticed.
TEST(Digits, SeedZeroGivesTheStoredImages) {
  const Images images = drawn(0, 0, 1000);
  EXPECT_EQ(hash(images), 4780552057748749534u);
  const std::vector<int64_t> first_labels(images.labels.begin(), images.labels.begin() + 10);
  EXPECT_EQ(first_labels, (std::vector<int64_t>{2, 0, 5, 8, 1, 4, 3, 9, 7, 6}));
}

TEST(Digits, AnImageIsTheSameInWhateverRange) {
  const Images all = drawn(11, 0, 60);
  for (const int64_t first : {0, 7, 10, 33}) {
    const Images part = drawn(11, first, 20);
    EXPECT_TRUE(std::equal(part.pixels.begin(), part.pixels.end(),
                           all.pixels.begin() + first * kSize * kSize))
        << "from " << first;
    EXPECT_TRUE(std::equal(part.labels.begin(), part.labels.end(), all.labels.begin() + first))
        << "from " << first;
  }
}

TEST(Digits, SeedsGiveDifferentSequences) {
  const Images a = drawn(0, 0, 100), b = drawn(1, 0, 100);
  EXPECT_NE(a.pixels, b.pixels);
  EXPECT_NE(a.labels, b.labels);
}

TEST(Digits, ImagesOfOneSequenceDiffer) {
  std::set<uint64_t> seen;
  for (int64_t i = 0; i < 500; ++i) seen.insert(hash(drawn(0, i, 1)));
  EXPECT_EQ(seen.size(), 500u);
}

TEST(Digits, EveryTenImagesHoldEachDigitOnce) {
  const Images images = drawn(5, 0, 500);
  for (auto ten = images.labels.begin(); ten != images.labels.end(); ten += 10) {
    std::vector<int64_t> sorted(ten, ten + 10);
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
}

// Each digit is expected 100 times at each position, with a standard deviation of 9.5. The
// tolerance is five standard deviations.
TEST(Digits, LabelsComeInRandomOrder) {
  const Images images = drawn(5, 0, 10000);
  std::array<std::array<int, 10>, 10> seen{};
  for (size_t i = 0; i < images.labels.size(); ++i) ++seen[i % 10][size_t(images.labels[i])];
  for (const auto& position : seen) {
    for (int count : position) EXPECT_NEAR(count, 100, 48);
  }
}

TEST(Digits, EveryImageHoldsAStrokeInsideTheFrame) {
  const Images images = drawn(0, 0, 5000);
  for (int64_t i = 0; i < images.count; ++i) {
    const int64_t ink = ink_pixels(images, i);
    EXPECT_GE(ink, 10) << "image " << i;
    EXPECT_LE(ink, kSize * kSize / 2) << "image " << i;
    EXPECT_LE(touched_borders(images, i), 2) << "image " << i;
  }
}

TEST(Digits, RangesOutsideTheSequenceAreRefused) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_THROW(draw_digits(0, -1, 1), ValueError);
  EXPECT_THROW(draw_digits(0, 0, -1), ValueError);
  EXPECT_THROW(draw_digits(0, kMax, 1), ValueError);
  EXPECT_THROW(draw_digits(0, 0, kMax), ValueError);
  EXPECT_EQ(drawn(0, kMax - 1, 1).count, 1);
}

}  // namespace
}  // namespace taper::v0::data
