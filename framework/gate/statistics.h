// Statistics of the gate: compares the values that a metric has in several runs of two programs.
// Nothing here reads files or trains.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::golden {

// --- distributions ---

// Returns P(T > t) for Student's t distribution with df > 0 degrees of freedom, which need not be
// an integer.
double student_t_tail(double t, double df);
// Returns the t with P(T > t) = p, for 0 < p < 1.
double student_t_critical(double p, double df);
// Returns P(T > t) for the noncentral t distribution, the distribution of Welch's t if the means
// differ by `noncentrality` standard errors.
double noncentral_t_tail(double t, double df, double noncentrality);

// --- samples ---

// The fewest runs of each program that a test accepts. With two, the standard deviation is hardly
// more than a guess.
inline constexpr int64_t kFewestSeeds = 3;

// Mean and standard deviation (with n - 1) of a metric over `n` runs.
struct Sample {
  int64_t n = 0;
  double mean = 0, sd = 0;
};
// Throws ValueError if there are fewer than two values, or if one is not finite.
Sample sample_of(const std::vector<double>& values);

enum class Better { kSmaller, kLarger };

// The result of Welch's t test (Welch, "The generalization of Student's problem when several
// different population variances are involved", 1947) of the hypothesis that `got` is worse than
// `want`. It does not assume equal variances.
struct WelchTest {
  double shift = 0;   // by how much `got` is worse, in the metric's unit; negative: better
  double error = 0;   // the standard error of `shift`
  double df = 0;      // degrees of freedom, by Welch and Satterthwaite
  double t = 0;       // shift / error
  double p = 1;       // the probability of such a shift or a larger one by chance
  double effect = 0;  // Cohen's d: `shift` in standard deviations (pooled_sd())
};
// If neither sample varies, any shift to the worse has p = 0, and no shift has p = 1.
WelchTest welch_test(const Sample& got, const Sample& want, Better better);

// Returns the root of the mean of both variances.
double pooled_sd(const Sample& a, const Sample& b);

// Returns the smallest observed shift that has p < alpha, in the metric's unit. A true shift of
// this size is found in half of all cases.
double detectable_shift(const Sample& got, const Sample& want, double alpha);

// Returns the probability that a test of n against m runs finds a true shift of `shift` standard
// deviations at p < alpha, for normally distributed values of equal variance.
double test_power(int64_t n, int64_t m, double shift, double alpha);
// Returns the fewest runs of each program for which detectable_shift() is at most `shift` standard
// deviations, for values of equal variance; at most 1000.
int64_t seeds_needed(double shift, double alpha);

// Returns Holm's adjusted p values (Holm, "A simple sequentially rejective multiple test
// procedure", 1979), in the order of `p`. Rejecting those below alpha keeps the probability of any
// false rejection below alpha, however the metrics depend on each other.
std::vector<double> holm_adjusted(const std::vector<double>& p);

}  // namespace taper::v0::golden
