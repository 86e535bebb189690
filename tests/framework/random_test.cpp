// Random numbers are a function of (seed, stream, element index), on every device.
#include "framework/kernels/random/random.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

// The known answers of Random123 (kat_vectors, philox4x32-10), with its order of counter and key.
struct Known {
  uint64_t block, stream, seed;
  uint32_t word[4];
};
const Known kKnown[] = {
    {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {~0ull, ~0ull, ~0ull, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {0x85a308d3243f6a88,
     0x0370734413198a2e,
     0x299f31d0a4093822,
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(Philox, GivesTheKnownAnswers) {
  for (const Known& k : kKnown) {
    const Philox4 got = philox({k.seed, k.stream}, k.block);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(got.word[i], k.word[i]) << i;
  }
}

struct Draw {
  const char* name;
  Tensor (*make)(DType, Device, Generator*);
  bool integers;
};

constexpr int64_t kMany = 10'007;

const Draw kDraws[] = {
    {"rand",
     [](DType t, Device d, Generator* g) { return rand({kMany}, {.dtype = t, .device = d}, g); },
     false},
    {"randn",
     [](DType t, Device d, Generator* g) { return randn({kMany}, {.dtype = t, .device = d}, g); },
     false},
    {"randint",
     [](DType t, Device d, Generator* g) {
       return randint(-7, 100, {kMany}, {.dtype = t, .device = d}, g);
     },
     true},
    {"randperm",
     [](DType t, Device d, Generator* g) { return randperm(kMany, {.dtype = t, .device = d}, g); },
     true},
};

std::vector<DType> dtypes_of(const Draw& draw) {
  if (draw.integers) return {kInt64, kInt32, kFloat32, kFloat64};
  return {kFloat32, kFloat64, kFloat16, kBFloat16};
}

TEST(Random, EqualSeedsGiveEqualBitsOnEveryDevice) {
  for (const Draw& draw : kDraws) {
    for (const DType t : dtypes_of(draw)) {
      Generator first(123);
      const Tensor want = draw.make(t, Device(), &first);
      for (const Device device : all_devices()) {
        Generator again(123);
        EXPECT_TRUE(same_bits(draw.make(t, device, &again), want))
            << draw.name << " " << name_of(t) << " on " << to_string(device);
      }
    }
  }
}

TEST(Random, EachDrawTakesTheNextStream) {
  for (const Draw& draw : kDraws) {
    Generator generator(1), other(2);
    const Tensor a = draw.make(kFloat32, Device(), &generator);
    const PhiloxKey state = generator.state();
    const Tensor b = draw.make(kFloat32, Device(), &generator);
    EXPECT_FALSE(same_bits(a, b)) << draw.name;
    EXPECT_FALSE(same_bits(a, draw.make(kFloat32, Device(), &other))) << draw.name;
    generator.set_state(state);
    EXPECT_TRUE(same_bits(draw.make(kFloat32, Device(), &generator), b)) << draw.name;
    generator.manual_seed(1);
    EXPECT_TRUE(same_bits(draw.make(kFloat32, Device(), &generator), a)) << draw.name;
  }
}

TEST(Random, ALongDrawBeginsLikeAShortOne) {
  for (const Device device : all_devices()) {
    for (const int64_t n : {1, 2, 3, 5, 17, 1025}) {
      Generator a(9), b(9);
      const Tensor whole = rand({kMany}, {.device = device}, &a);
      EXPECT_TRUE(same_bits(whole.narrow(0, 0, n), rand({n}, {.device = device}, &b))) << n;
    }
  }
}

TEST(Random, ElementsAreNumberedInRowMajorOrderWhateverTheLayout) {
  for (const Device device : all_devices()) {
    const Tensor a = zeros({5, 7}, {.device = device}), b = zeros({7, 5}, {.device = device});
    manual_seed(3);
    a.uniform_();
    manual_seed(3);
    b.t().uniform_();
    EXPECT_TRUE(same_bits(a, b.t()));
  }
}

TEST(Random, UniformNumbersFillTheirRangeAndNeverReachItsEnd) {
  for (const DType t : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    Generator generator(4);
    double sum = 0;
    for (const double v : values_of(rand({100'000}, {.dtype = t}, &generator))) {
      EXPECT_TRUE(v >= 0 && v < 1);
      sum += v;
    }
    EXPECT_NEAR(sum / 100'000, 0.5, 0.005) << name_of(t);
    const Tensor x = empty({100'000}, {.dtype = t});
    for (const double v : values_of(x.uniform_(-3, -1))) EXPECT_TRUE(v >= -3 && v < -1);
  }
}

TEST(Random, NormalNumbersHaveTheirMoments) {
  for (const DType t : {kFloat32, kFloat64}) {
    Generator generator(5);
    double sum = 0, squares = 0, fourth = 0;
    const int n = 100'000;
    for (const double v : values_of(randn({n}, {.dtype = t}, &generator))) {
      sum += v;
      squares += v * v;
      fourth += v * v * v * v;
    }
    EXPECT_NEAR(sum / n, 0, 0.015);
    EXPECT_NEAR(squares / n, 1, 0.02);
    EXPECT_NEAR(fourth / n, 3, 0.15);
    const std::vector<double> moved = values_of(empty({n}, {.dtype = t}).normal_(10, 0.5));
    double mean = 0;
    for (const double v : moved) mean += v / n;
    EXPECT_NEAR(mean, 10, 0.01);
  }
}

TEST(Random, IntegersMeetEveryValueOfTheirRange) {
  Generator generator(6);
  const std::vector<double> values = values_of(randint(-2, 3, {1000}, {}, &generator));
  EXPECT_EQ(std::set<double>(values.begin(), values.end()), (std::set<double>{-2, -1, 0, 1, 2}));
  EXPECT_TRUE(
      refuses<Error>([] { return randint(3, 3, {1}); },
                     "random_ expects 'from' to be less than 'to', but got from=3 >= to=3"));
}

TEST(Random, PermutationsHaveEveryNumberOnce) {
  for (const Device device : all_devices()) {
    for (const int64_t n : {0, 1, 2, 3, 17, 1025, 60'000}) {
      Generator generator(7);
      std::vector<double> values = values_of(randperm(n, {.device = device}, &generator));
      if (n > 3) {
        EXPECT_FALSE(std::is_sorted(values.begin(), values.end()));
      }
      std::sort(values.begin(), values.end());
      EXPECT_EQ(values, values_of(arange(n))) << n;
    }
  }
}

TEST(Random, OneDefaultGeneratorServesAllThreads) {
  manual_seed(8);
  const Tensor first = rand({4}), second = rand({4});
  manual_seed(8);
  Tensor elsewhere;
  std::thread([&] { elsewhere = rand({4}); }).join();
  EXPECT_TRUE(same_bits(elsewhere, first)) << "manual_seed did not reach another thread";
  EXPECT_TRUE(same_bits(rand({4}), second)) << "two threads drew the same numbers";
}

TEST(Random, DrawsOfSeveralThreadsAreAllDifferent) {
  constexpr int kThreads = 3, kEach = 2000;
  Generator generator(5);
  std::vector<uint64_t> streams[kThreads];
  std::vector<std::thread> threads;
  for (auto& own : streams) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) own.push_back(generator.next().stream);
    });
  }
  for (std::thread& t : threads) t.join();
  std::vector<uint64_t> all;
  for (const auto& own : streams) all.insert(all.end(), own.begin(), own.end());
  std::sort(all.begin(), all.end());
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i);
  EXPECT_EQ(generator.state().stream, uint64_t(kThreads * kEach));
}

TEST(Random, AThreadMayDrawFromItsOwn) {
  Generator generator(8);
  const Tensor want = rand({4}, {}, &generator);
  manual_seed(1);
  const PhiloxKey before = default_generator().state();
  Tensor own;
  std::thread([&] {
    Generator mine(8);
    const DrawGuard scope(mine);
    own = rand({4});
    EXPECT_EQ(default_generator().state().stream, 1u);
  }).join();
  EXPECT_TRUE(same_bits(own, want));
  EXPECT_EQ(default_generator().state().stream, before.stream);
}

TEST(Random, NotedDrawsAreRepeated) {
  manual_seed(8);
  std::vector<PhiloxKey> outer, inner;
  Tensor a, b;
  {
    const DrawGuard noted = DrawGuard::record(outer);
    a = rand({4});
    std::thread([] { (void)rand({4}); }).join();
    const DrawGuard again = DrawGuard::record(inner);
    b = rand({4});
  }
  EXPECT_EQ(outer.size(), 2u);
  EXPECT_EQ(inner.size(), 1u);
  const uint64_t next = default_generator().state().stream;
  {
    const DrawGuard repeated = DrawGuard::replay(outer);
    EXPECT_TRUE(same_bits(rand({4}), a));
    EXPECT_TRUE(same_bits(rand({4}), b));
    EXPECT_EQ(default_generator().state().stream, next);
  }
}

TEST(Random, WrongRangesAndDtypesAreRefused) {
  const Tensor x = empty({2}), ints = empty({2}, {.dtype = kInt64});
  EXPECT_TRUE(refuses<Error>([&] { return x.uniform_(1, 0), 0; },
                             "uniform_ expects to return a [from, to) range"));
  EXPECT_TRUE(refuses<Error>([&] { return x.normal_(0, -1), 0; },
                             "normal expects std >= 0.0, but found std -1"));
  EXPECT_TRUE(
      refuses<Error>([&] { return ints.uniform_(), 0; }, "\"uniform\" not implemented for 'Long'"));
  EXPECT_TRUE(refuses<Error>([] { return randn({2}, {.dtype = kInt64}); },
                             "\"normal\" not implemented for 'Long'"));
}

}  // namespace
}  // namespace taper::v0::test
