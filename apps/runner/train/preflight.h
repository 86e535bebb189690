// What a run's batches ask of its model, tried before anything is trained.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/runner/run/batches.h"
#include "apps/runner/settings/run_config.h"
#include "modules/module.h"

namespace taper::v0::runner {

// Samples that the model gets in one call: a batch, or its part on a rank or in a shard.
struct CallSize {
  int64_t rows = 0;      // of the call
  int64_t batch = 0;     // of the batch that it is a part of
  bool is_last = false;  // whether that batch is an epoch's last, smaller one
};
// Returns the different sizes of an epoch's calls in training, those of whole batches first.
std::vector<CallSize> training_calls(const RunConfig& config, const RunSizes& sizes);

// Runs the model, the loss and the metrics on batches of all the sizes that the run will have, as
// far as that is cheap, with token ids and classes at both ends of their range. Leaves weights,
// buffers and the default generator as they were. Throws ConfigError at the layer, loss, metric or
// train.batch_size that does not fit, with the remedy, and as run_model does. The model must not
// synchronize its batch norms over ranks yet.
void check_batches(Module& model, const RunConfig& config, const DataInfo& data,
                   const RunSizes& sizes, Device device);

}  // namespace taper::v0::runner
