// Repeats a run with several seeds or other settings, side by side in processes of their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/runner/gate/gate.h"

namespace taper::v0::runner {

// A repetition of a run: the phases to train, and a name for messages, such as "seed 5".
struct Repetition {
  std::string name;
  std::vector<Phase> phases;
};

// Returns `count` seeds, `first` and those after it. `record` and `check` train the same ones, so
// that a program that has not changed passes every check.
std::vector<int64_t> seeds_from(int64_t first, int64_t count);
// Returns the phases with another seed.
Repetition with_seed(std::vector<Phase> phases, int64_t seed);

// How repetitions are trained side by side.
struct Jobs {
  int64_t count = 1;  // repetitions at the same time; 1: one after the other, in this process
  // If not empty, each repetition is trained by a new process of `program`, which sees one of these
  // values of CUDA_VISIBLE_DEVICES. A forked process could not use CUDA after this process has.
  std::vector<std::string> gpus{};
  std::string program{};
};

// Records the first steps of each repetition and returns the rows in the order of `repetitions`.
// Child processes share the threads that a kernel may use; this does not change the numbers. Fails
// with the first error of a repetition, whose message begins with its name. With `gpus`, each
// repetition must have one phase.
std::vector<std::vector<Recording::Row>> train_all(const std::vector<Repetition>& repetitions,
                                                   const RecordOptions& options, const Jobs& jobs);

// Returns how to train repetitions of a run that has this metadata. `count`: how many at the same
// time; 0: on the CPU as many as there are threads for a kernel, on GPUs one for each GPU that is
// visible. Repetitions on several ranks, or on the devices of model.placement, are trained one
// after the other. On GPUs, so are those of a run whose config has changed, and those of a host
// program, which has no command `record`.
Jobs jobs_for(const RunMetadata& metadata, const std::vector<Phase>& phases, int64_t count);

// Combines the rows of one recording for each seed. Throws Diverged if a value is not finite, and
// names its seed, step and metric.
Curves curves_of_seeds(const std::vector<int64_t>& seeds,
                       const std::vector<std::vector<Recording::Row>>& rows);
// Compares the curves by statistics (framework/gate/curves.h), in the direction of each metric.
// Throws ConfigError if one side has fewer than kFewestSeeds seeds.
Verdict compare_seeds(const Curves& got, const Curves& want, const CheckOptions& options);

}  // namespace taper::v0::runner
