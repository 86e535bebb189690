#include "apps/runner/programs/speed_comparison.h"

#include <algorithm>

#include <fmt/format.h>

#include "apps/runner/programs/bootstrap.h"

namespace taper::v0::runner {
namespace {

// A time of both programs, in the order of the pairs.
struct Times {
  std::string name;
  std::vector<double> old{}, now{};
};

// The times that all runs have.
std::vector<Times> times_of(const SpeedSamples& samples) {
  Times training{"training steps"}, process{"whole process"};
  bool has_training = true;
  const auto add = [&](const std::vector<SpeedSample>& from, std::vector<double>& steps,
                       std::vector<double>& total) {
    for (const SpeedSample& s : from) {
      has_training = has_training && s.training_seconds.value_or(0) > 0;
      steps.push_back(s.training_seconds.value_or(0));
      total.push_back(s.process_seconds);
    }
  };
  add(samples.old, training.old, process.old);
  add(samples.now, training.now, process.now);
  return has_training ? std::vector{training, process} : std::vector{process};
}

// The verdict on one quantity, and its line.
struct Part {
  bool passed, is_inconclusive;
  std::string line;
};

Part time_part(const RatioComparison& r, double limit) {
  const bool fails = r.low > limit, passes = r.high <= limit;
  const char* verdict = fails ? "fail" : passes ? "pass" : "inconclusive";
  return {passes, !fails && !passes,
          fmt::format("  {}: {:.3g} [{:.3g}, {:.3g}], {:.3g} s -> {:.3g} s ({})\n", r.name, r.ratio,
                      r.low, r.high, r.old, r.now, verdict)};
}

std::optional<int64_t> peak_of(const std::vector<SpeedSample>& samples) {
  std::vector<double> bytes;
  for (const SpeedSample& s : samples) {
    if (!s.peak_bytes) return {};
    bytes.push_back(double(*s.peak_bytes));
  }
  const bool is_on_gpu = samples.at(0).is_on_gpu;
  return int64_t(is_on_gpu ? *std::ranges::max_element(bytes) : median_of(bytes));
}

Part memory_part(const SpeedSamples& samples, double more_memory) {
  const auto old = peak_of(samples.old), now = peak_of(samples.now);
  if (!old || !now) return {true, false, "  peak memory: not compared, a program is too old\n"};
  const bool is_exact = samples.old[0].is_on_gpu && samples.now[0].is_on_gpu;
  const double limit = is_exact ? double(*old) : double(*old) * (1 + more_memory);
  const bool passes = double(*now) <= limit;
  const std::string allowed =
      is_exact ? "compared exactly" : fmt::format("{:.3g} % more are allowed", 100 * more_memory);
  return {passes, false,
          fmt::format("  peak memory of tensors: {} bytes -> {} bytes, {} ({})\n", *old, *now,
                      allowed, passes ? "pass" : "fail")};
}

}  // namespace

SpeedSamples measure_pairs(const MeasureProgram& measure, const std::string& old,
                           const std::string& now, int64_t pairs) {
  require<ConfigError>(pairs >= kFewestPairs, "the number of pairs is ", pairs,
                       "; an interval needs at least ", kFewestPairs);
  (void)measure(old);  // reads programs and data into the system's cache
  (void)measure(now);
  SpeedSamples out;
  for (int64_t i = 0; i < pairs; ++i) {
    if (i % 2 == 0) out.old.push_back(measure(old));
    out.now.push_back(measure(now));
    if (i % 2 == 1) out.old.push_back(measure(old));
  }
  return out;
}

std::vector<RatioComparison> speed_ratios(const SpeedSamples& samples, double alpha) {
  const std::vector<Times> all = times_of(samples);
  std::vector<RatioComparison> out;
  for (const Times& times : all) {
    std::vector<double> ratios;
    for (size_t i = 0; i < times.old.size(); ++i) ratios.push_back(times.now[i] / times.old[i]);
    // Bonferroni's correction.
    const Interval interval = bootstrap_median(ratios, {.alpha = alpha / double(all.size())});
    out.push_back({times.name, median_of(ratios), interval.low, interval.high, median_of(times.old),
                   median_of(times.now)});
  }
  return out;
}

Verdict compare_speed(const SpeedSamples& samples, const SpeedOptions& options) {
  const double limit = 1 + options.slower;
  Verdict out;
  out.ratios = speed_ratios(samples, options.alpha);
  std::vector<Part> parts;
  for (const RatioComparison& ratio : out.ratios) parts.push_back(time_part(ratio, limit));
  parts.push_back(memory_part(samples, options.more_memory));
  std::string lines;
  bool fails = false, is_open = false;
  for (const Part& part : parts) {
    fails = fails || (!part.passed && !part.is_inconclusive);
    is_open = is_open || part.is_inconclusive;
    lines += part.line;
  }
  out.is_inconclusive = is_open && !fails;
  out.passed = !is_open && !fails;
  out.text = fmt::format(
      "{}: times of the new program, relative to the old one, at most {:.4g}: median of {} pairs "
      "and "
      "its {:.4g} % interval\n{}",
      out.name(), limit, samples.old.size(), 100 * (1 - options.alpha / double(out.ratios.size())),
      lines);
  if (out.is_inconclusive) {
    out.text += fmt::format(
        "an interval contains the limit {:.4g}: use more --pairs, more --steps, "
        "or a machine with less other work\n",
        limit);
  }
  return out;
}

}  // namespace taper::v0::runner
