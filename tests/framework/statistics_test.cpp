// The statistics of the gate, compared with SciPy, and the error rates that
// docs/regression_tests.md states, measured by simulation.
#include "framework/gate/statistics.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/testing.h"

namespace taper::v0::golden {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct TailRow {
  double t, df, tail;
};

// scipy.stats.t.sf(t, df) of SciPy 1.17.1.
constexpr TailRow kTails[] = {
    {0, 1, 0.5},
    {1, 1, 0.25},
    {-2, 3, 0.930337015720578},
    {2.5, 4.7, 0.0287960796734337},
    {12, 8, 1.07193337384438e-06},
    {2.896459446, 8, 0.0100000000262202},
    {0.1, 200, 0.460222246252161},
    {40, 2.5, 7.09781714524669e-05},
    {kInfinite, 4, 0},
    {-kInfinite, 4, 1},
};

TEST(GateStatistics, StudentsTailIsThatOfSciPy) {
  for (const TailRow& row : kTails) {
    EXPECT_NEAR(student_t_tail(row.t, row.df), row.tail, 1e-12 + 1e-10 * row.tail)
        << row.t << ", " << row.df;
  }
}

struct CriticalRow {
  double p, df, t;
};

// scipy.stats.t.isf(p, df) of SciPy 1.17.1.
constexpr CriticalRow kCritical[] = {
    {0.01, 8, 2.89645944770962},      {0.01, 14, 2.62449406759005},
    {0.01 / 3, 14, 3.18108341561186}, {0.05, 2, 2.91998558035373},
    {0.9, 5.5, -1.45597703346407},    {1e-6, 3, 103.299467780419},
    {0.25, 1000, 0.674735164607009},
};

TEST(GateStatistics, StudentsCriticalValueIsThatOfSciPy) {
  for (const CriticalRow& row : kCritical) {
    EXPECT_NEAR(student_t_critical(row.p, row.df), row.t, 1e-9 * std::abs(row.t))
        << row.p << ", " << row.df;
  }
}

struct NoncentralRow {
  double t, df, noncentrality, tail;
};

// 1 - scipy.stats.nct.cdf(t, df, noncentrality) of SciPy 1.17.1.
constexpr NoncentralRow kNoncentral[] = {
    {2.896459446, 8, 3.16227766, 0.616744969184},
    {2.62449406, 14, 4, 0.898737404897},
    {1, 3.5, 0, 0.190668626782},
    {0, 5, 1, 0.841344746069},
    {5, 4, 2.5, 0.130831273071},
    {-1, 10, 1, 0.973198143231},
    {2, 60, 2, 0.503299004714},
};

TEST(GateStatistics, TheNoncentralTailIsThatOfSciPy) {
  for (const NoncentralRow& row : kNoncentral) {
    EXPECT_NEAR(noncentral_t_tail(row.t, row.df, row.noncentrality), row.tail, 1e-8)
        << row.t << ", " << row.df << ", " << row.noncentrality;
  }
}

struct WelchRow {
  std::vector<double> a, b;
  double t, df, greater, less;
};

// scipy.stats.ttest_ind(a, b, equal_var=False, alternative=...) of SciPy 1.17.1.
const WelchRow kWelch[] = {
    {{1.1, 1.3, 0.9, 1.4, 1.2},
     {1.0, 0.8, 0.9, 1.1, 1.0},
     2.2,
     6.50195058517555,
     0.0333262095734707,
     0.966673790426529},
    {{5, 5.5, 4.8},
     {5.2, 5.1, 5.3, 5.25},
     -0.529411764705881,
     2.1692493273603,
     0.677127999538763,
     0.322872000461237},
    {{0.9, 0.91, 0.89, 0.93},
     {0.95, 0.951, 0.949, 0.952},
     -5.0213181898418,
     3.03428459478874,
     0.992597883554118,
     0.0074021164458821},
};

TEST(GateStatistics, WelchsTestIsThatOfSciPyInBothDirections) {
  for (const WelchRow& row : kWelch) {
    const Sample a = sample_of(row.a), b = sample_of(row.b);
    const WelchTest larger = welch_test(a, b, Better::kSmaller);
    EXPECT_NEAR(larger.t, row.t, 1e-9);
    EXPECT_NEAR(larger.df, row.df, 1e-9);
    EXPECT_NEAR(larger.p, row.greater, 1e-9);
    const WelchTest smaller = welch_test(a, b, Better::kLarger);
    EXPECT_NEAR(smaller.t, -row.t, 1e-9);
    EXPECT_NEAR(smaller.p, row.less, 1e-9);
    EXPECT_NEAR(smaller.effect, -larger.effect, 1e-12);
  }
}

TEST(GateStatistics, ASampleNeedsTwoFiniteValues) {
  const Sample s = sample_of({1, 2, 3, 4});
  EXPECT_EQ(s.n, 4);
  EXPECT_DOUBLE_EQ(s.mean, 2.5);
  EXPECT_DOUBLE_EQ(s.sd, std::sqrt(5.0 / 3));
  EXPECT_EQ(sample_of({0.1, 0.1, 0.1}).sd, 0) << "equal values have no spread";
  EXPECT_TRUE(test::refuses<ValueError>([] { sample_of({1}); },
                                        "a sample needs at least two values, got 1"));
  EXPECT_TRUE(test::refuses<ValueError>(
      [] {
        sample_of({1, NAN});
      },
      "a value of a sample is not finite: nan"));
}

TEST(GateStatistics, SamplesWithoutSpreadAreComparedExactly) {
  const Sample one = sample_of({1, 1, 1}), two = sample_of({2, 2, 2});
  EXPECT_EQ(welch_test(one, one, Better::kSmaller).p, 1);
  EXPECT_EQ(welch_test(two, one, Better::kSmaller).p, 0);
  EXPECT_EQ(welch_test(two, one, Better::kLarger).p, 1);
  EXPECT_EQ(detectable_shift(one, one, 0.01), 0);
  EXPECT_LT(welch_test(sample_of({2, 2.1, 2.2}), one, Better::kSmaller).p, 0.01)
      << "one sample without spread";
}

TEST(GateStatistics, HolmAdjustsFromTheSmallestUp) {
  EXPECT_EQ(holm_adjusted({}), std::vector<double>());
  EXPECT_EQ(holm_adjusted({0.25}), std::vector<double>({0.25}));
  // 3 * 1/64; 2 * 1/16; the largest keeps at least the one before it.
  EXPECT_EQ(holm_adjusted({0.0625, 0.09375, 0.015625}),
            std::vector<double>({0.125, 0.125, 0.046875}));
  EXPECT_EQ(holm_adjusted({0.5, 0.75, 1}), std::vector<double>({1, 1, 1}));
}

TEST(GateStatistics, TheSmallestDetectableShiftIsTheOneThatIsJustSignificant) {
  const Sample a = sample_of({1.1, 1.3, 0.9, 1.4, 1.2}), b = sample_of({1.0, 0.8, 0.9, 1.1, 1.0});
  const double shift = detectable_shift(a, b, 0.01);
  Sample moved = a;
  moved.mean = b.mean + shift;
  EXPECT_NEAR(welch_test(moved, b, Better::kSmaller).p, 0.01, 1e-9);
  EXPECT_EQ(seeds_needed(2, 0.01), 5);      // 1.83 standard deviations
  EXPECT_EQ(seeds_needed(2, 0.01 / 3), 6);  // 1.96 standard deviations
  EXPECT_LE(student_t_critical(0.01 / 3, 10) * std::sqrt(2 / 6.0), 2);
  EXPECT_EQ(seeds_needed(100, 0.01), kFewestSeeds);
}

struct PowerRow {
  int64_t n, m;
  double alpha, power;
};

// The table of docs/regression_tests.md, for a shift of two standard deviations.
constexpr PowerRow kPowers[] = {
    {3, 3, 0.01, 0.2613}, {5, 5, 0.01, 0.6167},     {8, 8, 0.01, 0.8987},
    {5, 8, 0.01, 0.7706}, {8, 8, 0.01 / 3, 0.7745}, {5, 5, 0.01 / 3, 0.3996},
};

TEST(GateStatistics, ThePowerIsThatOfThePage) {
  for (const PowerRow& row : kPowers) {
    EXPECT_NEAR(test_power(row.n, row.m, 2, row.alpha), row.power, 1e-4) << row.n << ", " << row.m;
  }
}

// Draws from the normal distribution by the method of Box and Muller. The standard library's
// distribution differs between its implementations.
class Normal {
 public:
  explicit Normal(uint64_t seed) : bits_(seed) {}
  std::vector<double> draw(int64_t n, double mean) {
    std::vector<double> out;
    for (int64_t i = 0; i < n; ++i) {
      const double radius = std::sqrt(-2 * std::log(1 - uniform()));
      out.push_back(mean + radius * std::cos(2 * std::numbers::pi * uniform()));
    }
    return out;
  }

 private:
  double uniform() { return double(bits_() >> 11) * 0x1p-53; }
  std::mt19937_64 bits_;
};

// Returns the share of simulated checks that fail: n runs whose metrics are shifted by `shift`
// standard deviations are compared with m recorded runs.
double failing_share(int64_t n, int64_t m, double shift, int metrics) {
  constexpr int kChecks = 20'000;
  Normal normal(uint64_t(n * 1000 + m * 10 + metrics));
  int failed = 0;
  for (int i = 0; i < kChecks; ++i) {
    std::vector<double> p;
    for (int metric = 0; metric < metrics; ++metric) {
      const Sample got = sample_of(normal.draw(n, metric == 0 ? shift : 0));
      p.push_back(welch_test(got, sample_of(normal.draw(m, 0)), Better::kSmaller).p);
    }
    bool fails = false;
    for (const double adjusted : holm_adjusted(p)) fails = fails || adjusted < 0.01;
    failed += fails ? 1 : 0;
  }
  return double(failed) / kChecks;
}

struct RateRow {
  int64_t n, m;
  double shift;
  int metrics;
  double least, most;
};

// With 20000 checks a share near 0.01 has a standard error of 0.0007, and one near 0.6 of 0.0035.
// Welch's test estimates two variances, so that it finds somewhat less than test_power() states.
constexpr RateRow kRates[] = {
    {5, 5, 0, 1, 0, 0.0115},    // false alarms: below 1 %
    {8, 8, 0, 1, 0, 0.0115},    //
    {5, 8, 0, 1, 0, 0.0125},    //
    {8, 8, 0, 4, 0, 0.0115},    // Holm's correction keeps the rate with four metrics
    {5, 5, 2, 1, 0.56, 0.59},   // 57 %
    {5, 8, 2, 1, 0.69, 0.725},  // 71 %
    {8, 8, 2, 1, 0.875, 0.90},  // 89 %
    {8, 8, 2, 3, 0.72, 0.78},   // 76 % if one of three metrics moves
};

TEST(GateStatistics, TheErrorRatesAreThoseOfThePage) {
  for (const RateRow& row : kRates) {
    const double share = failing_share(row.n, row.m, row.shift, row.metrics);
    EXPECT_GE(share, row.least) << row.n << " against " << row.m << ", shift " << row.shift;
    EXPECT_LE(share, row.most) << row.n << " against " << row.m << ", shift " << row.shift;
  }
}

}  // namespace
}  // namespace taper::v0::golden
