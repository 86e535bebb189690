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

// Records the first steps of each repetition and returns the rows in the order of `repetitions`.
// Trains up to `jobs` of them at the same time in child processes, which share the threads that a
// kernel may use; this does not change the numbers. jobs = 1 trains in this process. Fails with the
// first error of a repetition, whose message begins with its name.
//
// A child process cannot use CUDA if this process has already used it. Call with jobs = 1 then.
std::vector<std::vector<Recording::Row>> train_all(const std::vector<Repetition>& repetitions,
                                                   const RecordOptions& options, int64_t jobs);

// Returns how many repetitions to train at the same time: the number of threads that a kernel may
// use on the CPU; 1 on a GPU, and on several ranks.
int64_t jobs_for(const RunMetadata& metadata);

}  // namespace taper::v0::runner
