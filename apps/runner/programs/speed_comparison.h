// Compares the speed and the peak memory of two programs that train the same config.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/gate/gate.h"

namespace taper::v0::runner {

struct SpeedOptions {
  int64_t pairs = 15;         // pairs of runs, one of each program; at least kFewestPairs
  int64_t steps = 0;          // training steps of each run; 0: those of the config
  double slower = 0.05;       // the slowdown that is allowed, as a fraction
  double more_memory = 0.05;  // the growth of peak memory that is allowed on the CPU
  double alpha = 0.01;        // the intervals of all times together cover 1 - alpha
};
inline constexpr int64_t kFewestPairs = 5;

// The measurements of one run, which is a process of its own.
struct SpeedSample {
  double process_seconds = 0;                // from the start of the process to its end
  std::optional<double> training_seconds{};  // of the training steps alone
  std::optional<int64_t> peak_bytes{};       // of tensors on the device of the training
  bool is_on_gpu = false;
};

struct SpeedSamples {
  std::vector<SpeedSample> old, now;  // of the same length; elements with the same index are a pair
};

// Calls `measure` for both programs in turn and returns the results. After one run of each, which
// is not counted, the pairs begin alternately with the old and with the new program, so that a
// machine that becomes slower or faster meanwhile favors neither.
using MeasureProgram = std::function<SpeedSample(const std::string& program)>;
SpeedSamples measure_pairs(const MeasureProgram& measure, const std::string& old,
                           const std::string& now, int64_t pairs);

// Compares times by the median of the ratios of all pairs (new / old) and its bootstrap interval:
// fails if the interval is above 1 + options.slower, is inconclusive if it contains that limit, and
// passes if it is below. Compares peak memory exactly on a GPU, where the allocator counts the same
// bytes in every run, and with options.more_memory on the CPU, where data workers that run ahead
// change it.
Verdict compare_speed(const SpeedSamples& samples, const SpeedOptions& options);

// Returns the ratio of times with its interval, of which compare_speed() is a verdict.
std::vector<RatioComparison> speed_ratios(const SpeedSamples& samples, double alpha);

}  // namespace taper::v0::runner
