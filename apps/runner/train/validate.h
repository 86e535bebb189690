// What a run would be, and take of its device's memory.
#pragma once

#include "apps/runner/config/config.h"
#include "framework/distributed/communicator.h"
#include "modules/module.h"

namespace taper::inline v0::runner {

// `taper train CONFIG --validate`: builds the model on the CPU, whatever the config's device, and
// runs a few samples of zeros through a step: shapes, parameters and multiply-adds module by
// module, memory by its parts at the batch size, and the number of steps. Of images only headers
// are read. Throws ConfigError for shapes that do not fit, InputError for data that are missing or
// damaged.
// `ranks`: of so many.
std::string validate(const RunConfig& config, int64_t ranks = 1);

// Bytes. What is not there all the time counts with its most: activations with what a backward pass
// needs beside gradients, or an evaluation, whichever is more.
struct MemoryForecast {
  int64_t parameters = 0, gradients = 0, state = 0, averages = 0, activations = 0, data = 0;
  int64_t buckets = 0;  // in which gradients travel, and sums of shards
  int64_t total() const {
    return parameters + gradients + state + averages + activations + data + buckets;
  }
};

// From two small steps of the model, which lies on the CPU and loses its gradients: memory after
// each op grows along a line with the batch. holds_data: the samples lie on the device, too. Of
// several ranks, those of one.
MemoryForecast foretell_memory(const RunConfig& config, const data::Splits& data, Module& model,
                               bool holds_data, bool on_gpu, int64_t ranks = 1);

// The same of a run that goes on, with a model of its own; draws stay as they were.
MemoryForecast foretold_anew(const RunConfig& config, const data::Splits& data, bool holds_data,
                             const distributed::Communicator& ranks);

// The most that tensors of the device held since reset_peak_memory().
int64_t peak_memory(Device device);
void reset_peak_memory(Device device);

}  // namespace taper::inline v0::runner
