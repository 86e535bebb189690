// Builds the model of a run with the settings of its training.
#pragma once

#include <memory>

#include "apps/runner/settings/run_config.h"
#include "modules/module.h"

namespace taper::v0::runner {

// Returns build_model() with the settings of the training that change how the model computes
// (train.recompute). Throws the errors of build_model(), and ConfigError for a setting that the
// model does not support.
std::unique_ptr<Module> build_training_model(const RunConfig& config, const DataInfo& data,
                                             Device device);

}  // namespace taper::v0::runner
