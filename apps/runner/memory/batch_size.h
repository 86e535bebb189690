// Chooses the batch sizes that a config leaves to the run, by the memory of its devices.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "apps/runner/settings/run_config.h"
#include "framework/base/device.h"
#include "framework/distributed/communicator.h"
#include "modules/module.h"

namespace taper::v0::runner {

// The environment variable with the number of runs that share the devices, as runs of a set do.
inline constexpr const char* kSharingRuns = "TAPER_SHARING_RUNS";

// A batch size for `train.batch_size: auto`, and a sentence that says why it was chosen.
struct BatchSizeChoice {
  int64_t samples;
  std::string reason;
};
// Chooses the batch size of a run that begins on the device `own` with this number of ranks. It is
// the largest power of two that is not larger than the training set, and for which the estimate of
// the run's memory is at most 80 % of a GPU's memory, or 50 % of the machine's on the CPU. With
// train.shards or several ranks it is a power of two times their number. If a single sample would
// be left for the last batch of an epoch, it is three quarters of that. total() returns the size of
// a device's memory. The result depends on no memory that is in use, so that it is the same for
// every run on the device. Throws ConfigError, with the place of the key, if the memory cannot be
// estimated or is too small.
BatchSizeChoice choose_batch_size(const RunConfig& config, const data::Splits& data, Device own,
                                  int64_t ranks, const std::function<int64_t(Device)>& total);
// Sets train.batch_size if the config leaves it to the run, and returns a line for the log that
// says why; otherwise returns "".
std::string set_batch_size(RunConfig& config, const data::Splits& data, Device own, int64_t ranks);

// Returns the largest batch size for evaluations, a power of two up to 1024, at which an evaluation
// and the state of the run take at most half of the device's memory on one rank. The result does
// not depend on the number of ranks. The model must be on the CPU. total() returns the size of the
// memory. It is called only if more than 1 GiB may be needed.
int64_t fitting_eval_batch_size(const RunConfig& config, const DataInfo& info, Module& model,
                                bool on_gpu, const std::function<int64_t()>& total);
// Returns the batch size of evaluations. It is train.eval_batch_size if the config sets that,
// otherwise eval_batch_size_of() for text, and fitting_eval_batch_size() for other data. It depends
// on the device's total memory, but not on how much of that is free, so that all runs of a config
// choose the same size.
int64_t choose_eval_batch_size(const RunConfig& config, const DataInfo& info,
                               const distributed::Communicator& ranks);

}  // namespace taper::v0::runner
