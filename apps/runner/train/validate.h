// What a run would be, and take of its device's memory.
#pragma once

#include "apps/runner/config/config.h"
#include "framework/distributed/communicator.h"
#include "modules/module.h"

namespace taper::v0::runner {

// `taper train CONFIG --validate`: builds the model on the CPU, whatever the config's device, and
// runs a few samples of zeros through a step: shapes, parameters and multiply-adds module by
// module, memory by its parts at the batch size, and the number of steps. Of images only headers
// are read. Throws ConfigError for shapes that do not fit, InputError for data that are missing or
// damaged.
// `ranks`: of so many.
std::string validate(const RunConfig& config, int64_t ranks = 1);

// The bytes of all parts together for a run that goes on; draws stay as they were. holds_data: the
// samples lie on the device, too. Of several ranks, those of one.
int64_t foretold_memory(const RunConfig& config, const data::Splits& data, bool holds_data,
                        const distributed::Communicator& ranks);

// The most that tensors of the device held since reset_peak_memory().
int64_t peak_memory(Device device);
void reset_peak_memory(Device device);

}  // namespace taper::v0::runner
