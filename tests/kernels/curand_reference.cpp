// philox() compared with cuRAND's host generator, an independent implementation of the same
// function that needs no GPU (https://docs.nvidia.com/cuda/curand/host-api-overview.html). Compiled
// if CMake finds cuRAND.
#include <memory>
#include <vector>

#include <curand.h>
#include <gtest/gtest.h>

#include "framework/base/philox.h"

namespace taper::v0 {
namespace {

// The generator advances this many streams in parallel: words 4s to 4s + 3 of its output are block
// 0 of stream s, followed by block 1 of all streams.
constexpr size_t kStreams = 65536;

struct DestroyGenerator {
  void operator()(curandGenerator_t generator) const { curandDestroyGenerator(generator); }
};

std::vector<unsigned> words_of_curand(uint64_t seed, size_t blocks) {
  curandGenerator_t made = nullptr;
  EXPECT_EQ(curandCreateGeneratorHost(&made, CURAND_RNG_PSEUDO_PHILOX4_32_10),
            CURAND_STATUS_SUCCESS);
  const std::unique_ptr<curandGenerator_st, DestroyGenerator> generator(made);
  EXPECT_EQ(curandSetPseudoRandomGeneratorSeed(made, seed), CURAND_STATUS_SUCCESS);
  std::vector<unsigned> words(4 * kStreams * blocks);
  EXPECT_EQ(curandGenerate(made, words.data(), words.size()), CURAND_STATUS_SUCCESS);
  return words;
}

TEST(Philox, GivesTheWordsOfCurandsHostGenerator) {
  for (const uint64_t seed :
       {uint64_t{0}, uint64_t{1}, uint64_t{0x299f31d0a4093822}, ~uint64_t{0}}) {
    const std::vector<unsigned> want = words_of_curand(seed, 2);
    for (const uint64_t block : {0, 1}) {
      for (const uint64_t stream : {0, 1, 2, 3, 65535}) {
        const Philox4 got = philox({seed, stream}, block);
        for (size_t i = 0; i < 4; ++i) {
          EXPECT_EQ(got.word[i], want[4 * (block * kStreams + stream) + i])
              << "seed " << seed << ", stream " << stream << ", block " << block << ", word " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace taper::v0
