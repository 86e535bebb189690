// Tries a model with all batch sizes of its run before the first step.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/runner/run/batches.h"
#include "apps/runner/settings/run_config.h"
#include "modules/module.h"

namespace taper::v0::runner {

// The samples that the model gets in one call: a whole batch, or the part of one rank or shard.
struct CallSize {
  int64_t samples = 0;
  int64_t batch = 0;     // samples of the whole batch
  bool is_last = false;  // the batch is the last, smaller one of an epoch
};
// Returns the distinct call sizes of an epoch of training. The sizes for full batches come first.
std::vector<CallSize> training_calls(const RunConfig& config, const RunSizes& sizes);

// Runs the model, the loss and the metrics on batches of all sizes that the run will have, unless
// that would be expensive. Token ids and classes are at both ends of their range. Restores weights,
// buffers and the default generator. Throws ConfigError with a remedy and the position of the
// layer, loss, metric or train.batch_size that does not fit. Also throws the errors of run_model().
// Call it before sync_batch_norms().
void check_batches(Module& model, const RunConfig& config, const DataInfo& data,
                   const RunSizes& sizes, Device device);

}  // namespace taper::v0::runner
