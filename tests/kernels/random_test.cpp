// Random draws: known answers, statistics, and that an element depends only on its index.
#include "framework/kernels/random/random.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "framework/factory/factories.h"

namespace taper::v0 {
namespace {

using kernels::bernoulli_into;
using kernels::normal_into;
using kernels::randint_into;
using kernels::randperm_into;
using kernels::uniform_into;

constexpr PhiloxKey kKey{5, 7};
constexpr int64_t kMany = 1 << 20;

struct Moments {
  double mean = 0, variance = 0, neighbours = 0;
};
Moments moments_of(const std::vector<double>& x) {
  Moments m;
  const double n = double(x.size());
  for (const double v : x) m.mean += v / n;
  for (const double v : x) m.variance += (v - m.mean) * (v - m.mean) / n;
  for (size_t i = 1; i < x.size(); ++i) {
    m.neighbours += (x[i] - m.mean) * (x[i - 1] - m.mean) / n / m.variance;
  }
  return m;
}

// The authors' kat_vectors (Random123): counter words are block and stream, key words the seed.
TEST(Philox, GivesTheAuthorsKnownAnswers) {
  const struct {
    PhiloxKey key;
    uint64_t block;
    uint32_t expected[4];
  } rows[] = {
      {{0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{~0ull, ~0ull}, ~0ull, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x299f31d0a4093822, 0x0370734413198a2e},
       0x85a308d3243f6a88,
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const auto& row : rows) {
    const Philox4 words = philox(row.key, row.block);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(words.word[i], row.expected[i]);
  }
}

TEST(Uniform, UsesWordOfItsElement) {
  const Tensor x = empty({1003}), d = empty({1003}, {.dtype = kFloat64});
  uniform_into(x, kKey, 0, 1);
  uniform_into(d, kKey, 0, 1);
  for (uint64_t i = 0; i < 1003; ++i) {
    const Philox4 single = philox(kKey, i / 4), twin = philox(kKey, i / 2);
    EXPECT_EQ(x.data<float>()[i], uniform_float(single.word[i % 4]));
    EXPECT_EQ(d.data<double>()[i],
              uniform_double(twin.word[2 * (i % 2)], twin.word[2 * (i % 2) + 1]));
  }
}

// A draw of n numbers equals the first n of every longer draw, for every floating-point dtype.
TEST(Draws, PartsEqualTheWhole) {
  for (const DType t : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    const Tensor whole = empty({kMany}, {.dtype = t});
    for (const auto draw : {uniform_into, normal_into}) {
      draw(whole, kKey, 0.5, 2);
      const std::vector<double> expected = whole.to_vector<double>();
      for (const int64_t n : {1, 2, 3, 5, 4097, 100003}) {
        const Tensor part = empty({n}, {.dtype = t});
        draw(part, kKey, 0.5, 2);
        const std::vector<double> got = part.to_vector<double>();
        EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.begin())) << name_of(t) << n;
      }
    }
  }
}

TEST(Uniform, FillsItsRangeEvenlyAndNeverReachesTheEnd) {
  for (const DType t : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    const Tensor x = empty({kMany}, {.dtype = t});
    uniform_into(x, kKey, -1, 1);
    const std::vector<double> values = x.to_vector<double>();
    std::vector<int> bins(16);
    for (const double v : values) {
      ASSERT_GE(v, -1) << name_of(t);
      ASSERT_LT(v, 1) << name_of(t);
      ++bins[size_t((v + 1) * 8)];
    }
    for (const int n : bins) EXPECT_NEAR(n, kMany / 16, 1300) << name_of(t);
    const Moments m = moments_of(values);
    EXPECT_NEAR(m.mean, 0, t == kBFloat16 ? 0.006 : 0.003) << name_of(t);
    EXPECT_NEAR(m.variance, 1.0 / 3, 0.002) << name_of(t);
    EXPECT_NEAR(m.neighbours, 0, 0.004) << name_of(t);
  }
}

TEST(Normal, HasTheMomentsAndTailsOfABell) {
  for (const DType t : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    const Tensor x = empty({kMany}, {.dtype = t});
    normal_into(x, kKey, 3, 2);
    std::vector<double> z = x.to_vector<double>();
    for (double& v : z) v = (v - 3) / 2;
    const Moments m = moments_of(z);
    EXPECT_NEAR(m.mean, 0, 0.004) << name_of(t);
    EXPECT_NEAR(m.variance, 1, 0.006) << name_of(t);
    EXPECT_NEAR(m.neighbours, 0, 0.004) << name_of(t);
    const auto beyond = [&](double limit) {
      return double(std::count_if(z.begin(), z.end(), [&](double v) { return v > limit; })) / kMany;
    };
    EXPECT_NEAR(beyond(1), 0.158655, 0.004) << name_of(t);
    EXPECT_NEAR(beyond(3), 0.00135, 0.0003) << name_of(t);
  }
}

TEST(Normal, FloatFollowsBoxMuller) {
  const Tensor x = empty({4096});
  normal_into(x, kKey, 0, 1);
  for (uint64_t i = 0; i < 4096; i += 2) {
    const Philox4 w = philox(kKey, i / 4);
    const double u = uniform_float(w.word[i % 4]), v = uniform_float(w.word[i % 4 + 1]);
    const double radius = std::sqrt(-2 * std::log(1 - u)), angle = 2 * M_PI * v;
    EXPECT_NEAR(x.data<float>()[i], radius * std::cos(angle), 2e-6);
    EXPECT_NEAR(x.data<float>()[i + 1], radius * std::sin(angle), 2e-6);
  }
}

TEST(Randint, StaysInRangeAndHitsEveryNumber) {
  const struct {
    int64_t low, high;
  } rows[] = {{0, 10}, {-3, 4}, {0, 1ll << 32}, {-(1ll << 40), 1ll << 40}};
  for (const auto& row : rows) {
    const Tensor x = empty({kMany}, {.dtype = kInt64});
    randint_into(x, kKey, row.low, row.high);
    std::vector<double> values = x.to_vector<double>();
    const double range = double(row.high) - double(row.low);
    for (double& v : values) v = (v - double(row.low)) / range;
    EXPECT_GE(*std::min_element(values.begin(), values.end()), 0);
    EXPECT_LT(*std::max_element(values.begin(), values.end()), 1);
    EXPECT_NEAR(moments_of(values).mean, range < 100 ? 0.5 - 0.5 / range : 0.5, 0.002);
    if (range < 100) {
      EXPECT_EQ(double(std::set<double>(values.begin(), values.end()).size()), range);
    }
  }
}

TEST(Randperm, SortsTheWordsOfItsElements) {
  for (const int64_t n : {0, 1, 2, 10, 5000, 70001}) {
    const Tensor x = empty({n}, {.dtype = kInt64});
    randperm_into(x, kKey);
    std::vector<std::pair<uint32_t, int64_t>> expected;
    for (int64_t i = 0; i < n; ++i) {
      expected.push_back({philox(kKey, uint64_t(i / 4)).word[i % 4], i});
    }
    std::sort(expected.begin(), expected.end());
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(x.data<int64_t>()[i], expected[size_t(i)].second) << n;
    }
  }
}

TEST(Bernoulli, IsOneWithProbabilityP) {
  for (const DType t : {kFloat32, kFloat16, kInt64, kUInt8, kBool}) {
    const Tensor x = empty({kMany}, {.dtype = t});
    bernoulli_into(x, kKey, 0.3);
    EXPECT_NEAR(moments_of(x.to_vector<double>()).mean, 0.3, 0.002) << name_of(t);
    bernoulli_into(x, kKey, 1);
    EXPECT_EQ(moments_of(x.to_vector<double>()).variance, 0) << name_of(t);
  }
}

TEST(Dropout, KeepsTheSameElementsForEveryDtype) {
  const Tensor u = empty({10007});
  uniform_into(u, kKey, 0, 1);
  for (const DType t : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    const Tensor x = ones({10007}, {.dtype = t});
    for (const double p : {0.0, 0.25, 0.5, 1.0}) {
      const Tensor y = kernels::dropout(x, p, kKey);
      // A part of it is drawn separately.
      const Tensor part = kernels::dropout(ones({5007}, {.dtype = t}), p, kKey, t, 5000);
      const std::vector<double> whole = y.to_vector<double>(), end = part.to_vector<double>();
      EXPECT_TRUE(std::equal(end.begin(), end.end(), whole.begin() + 5000)) << name_of(t) << p;
      const std::vector<double> got = y.to_vector<double>();
      for (size_t i = 0; i < got.size(); ++i) {
        const bool kept = u.data<float>()[i] >= p;
        ASSERT_NEAR(got[i], kept ? 1 / (1 - p) : 0, 0.004) << name_of(t) << " " << p;
      }
    }
  }
}

}  // namespace
}  // namespace taper::v0
