#include "framework/gate/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "framework/base/error.h"

namespace taper::v0::golden {
namespace {

// Returns the continued fraction of the incomplete beta function by Lentz's method (DLMF 8.17.22,
// https://dlmf.nist.gov/8.17). It converges quickly for x < (a + 1) / (a + b + 2).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto nonzero = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / nonzero(1 - (a + b) * x / (a + 1)), product = d;
  for (int m = 1; m < 10'000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / nonzero(1 + even * d);
    c = nonzero(1 + even / c);
    product *= c * d;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / nonzero(1 + odd * d);
    c = nonzero(1 + odd / c);
    product *= c * d;
    if (std::abs(c * d - 1) < 1e-15) break;
  }
  return product;
}

// Returns the regularized incomplete beta function I_x(a, b).
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double normal_tail(double z) { return std::erfc(z / std::sqrt(2.0)) / 2; }

// Returns the density of sqrt(X / df), where X has a chi-squared distribution.
double chi_density(double s, double df) {
  if (s <= 0) return 0;
  const double half = df / 2;
  return std::exp(std::log(2.0) + half * std::log(half) - std::lgamma(half) +
                  (df - 1) * std::log(s) - half * s * s);
}

double standard_error(const Sample& a, const Sample& b) {
  return std::sqrt(a.sd * a.sd / double(a.n) + b.sd * b.sd / double(b.n));
}

// Returns the degrees of freedom by Welch and Satterthwaite. If neither sample varies, returns
// those of samples of equal variance.
double welch_df(const Sample& a, const Sample& b) {
  const double x = a.sd * a.sd / double(a.n), y = b.sd * b.sd / double(b.n);
  if (x + y == 0) return double(a.n + b.n - 2);
  return (x + y) * (x + y) / (x * x / double(a.n - 1) + y * y / double(b.n - 1));
}

}  // namespace

double student_t_tail(double t, double df) {
  if (std::isinf(t)) return t > 0 ? 0 : 1;
  const double tail = incomplete_beta(df / 2, 0.5, df / (df + t * t)) / 2;
  return t > 0 ? tail : 1 - tail;
}

double student_t_critical(double p, double df) {
  if (p > 0.5) return -student_t_critical(1 - p, df);
  double low = 0, high = 1;
  while (student_t_tail(high, df) > p && high < 1e300) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-14 * high; ++i) {
    const double middle = (low + high) / 2;
    (student_t_tail(middle, df) > p ? low : high) = middle;
  }
  return (low + high) / 2;
}

// T = (Z + noncentrality) / S with S = sqrt(X / df), so P(T > t) is the mean over S of
// P(Z > t S - noncentrality). Simpson's rule integrates it over the values of S that occur.
double noncentral_t_tail(double t, double df, double noncentrality) {
  constexpr int kIntervals = 4000;
  // The density has a mean near 1 and a standard deviation near 1 / sqrt(2 df).
  const double end = 1 + 40 / std::sqrt(2 * df), h = end / kIntervals;
  double sum = 0;
  for (int i = 1; i <= kIntervals; ++i) {
    const double s = i * h, weight = i == kIntervals ? 1 : i % 2 == 1 ? 4 : 2;
    sum += weight * normal_tail(t * s - noncentrality) * chi_density(s, df);
  }
  return std::clamp(sum * h / 3, 0.0, 1.0);
}

Sample sample_of(const std::vector<double>& values) {
  require<ValueError>(values.size() >= 2, "a sample needs at least two values, got ",
                      values.size());
  const double n = double(values.size());
  double sum = 0, squares = 0;
  for (const double x : values) {
    require<ValueError>(std::isfinite(x), "a value of a sample is not finite: ", x);
    sum += x;
  }
  const double mean = sum / n;
  for (const double x : values) squares += (x - mean) * (x - mean);
  // Equal values have no spread, although their rounded mean may differ from them.
  const auto [least, most] = std::ranges::minmax(values);
  if (least == most) return {std::ssize(values), least, 0};
  return {std::ssize(values), mean, std::sqrt(squares / (n - 1))};
}

double pooled_sd(const Sample& a, const Sample& b) {
  return std::sqrt((a.sd * a.sd + b.sd * b.sd) / 2);
}

WelchTest welch_test(const Sample& got, const Sample& want, Better better) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const double difference = got.mean - want.mean;
  WelchTest out;
  out.shift = better == Better::kSmaller ? difference : -difference;
  out.error = standard_error(got, want);
  out.df = welch_df(got, want);
  const double sd = pooled_sd(got, want);
  if (sd == 0) {
    out.p = out.shift > 0 ? 0 : 1;
    out.t = out.effect = out.shift == 0 ? 0 : out.shift > 0 ? kInfinite : -kInfinite;
    return out;
  }
  out.t = out.shift / out.error;
  out.p = student_t_tail(out.t, out.df);
  out.effect = out.shift / sd;
  return out;
}

double detectable_shift(const Sample& got, const Sample& want, double alpha) {
  const double error = standard_error(got, want);
  return error == 0 ? 0 : student_t_critical(alpha, welch_df(got, want)) * error;
}

double test_power(int64_t n, int64_t m, double shift, double alpha) {
  const double df = double(n + m - 2);
  const double noncentrality = shift / std::sqrt(1 / double(n) + 1 / double(m));
  return noncentral_t_tail(student_t_critical(alpha, df), df, noncentrality);
}

int64_t seeds_needed(double shift, double alpha) {
  int64_t n = kFewestSeeds;
  while (n < 1000 &&
         student_t_critical(alpha, double(2 * n - 2)) * std::sqrt(2 / double(n)) > shift) {
    ++n;
  }
  return n;
}

std::vector<double> holm_adjusted(const std::vector<double>& p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::stable_sort(order, {}, [&](size_t i) { return p[i]; });
  std::vector<double> out(p.size());
  double largest = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    largest = std::max(largest, std::min(1.0, p[order[rank]] * double(p.size() - rank)));
    out[order[rank]] = largest;
  }
  return out;
}

}  // namespace taper::v0::golden
