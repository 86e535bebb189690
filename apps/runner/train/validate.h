// `taper train CONFIG --validate`: what a run would be.
#pragma once

#include <string>

#include "apps/runner/config/config.h"

namespace taper::runner {

// Builds the model on the CPU, whatever the config's device, and runs a few samples of zeros
// through a step: shapes, parameters and multiply-adds module by module, memory by its parts at
// the batch size, and the number of steps. Of images only headers are read. Throws ConfigError
// for shapes that do not fit, InputError for data that are missing or damaged.
std::string validate(const RunConfig& config);

}  // namespace taper::runner
