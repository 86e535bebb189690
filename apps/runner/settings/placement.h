// Puts the parts of a run's model on the devices that model.placement names.
#pragma once

#include <memory>
#include <vector>

#include "apps/runner/settings/run_config.h"
#include "modules/module.h"

namespace taper::v0::runner {

// Returns the patterns of model.placement and their devices.
std::vector<PlacementRule> placement_rules(const RunConfig& config);

// Throws ConfigError, with the position of model.placement, if the run has several ranks, or if a
// pattern does not fit the model. The devices need not exist.
void check_placement(const RunConfig& config, Module& model, int64_t ranks);

// Builds the model of a run on `device` and places it as the config says. Throws the errors of
// build_training_model() and check_placement(), and DeviceUnavailable for a device that does not
// exist.
std::unique_ptr<Module> build_placed_model(const RunConfig& config, const DataInfo& data,
                                           Device device);

// Returns `device` and the other devices on which the model has parameters or buffers.
std::vector<Device> devices_of(const Module& model, Device device);

// Returns whether one of them is a GPU.
bool uses_gpu(const Module& model, Device device);

// Waits for the GPUs of the model other than `device`. Throws the errors that they report late,
// such as an index out of range.
void synchronize_others(const Module& model, Device device);

// Returns the device on which the model's results are. `device` is that of its inputs.
Device output_device(Module& model, const RunConfig& config, const DataInfo& data, Device device);

}  // namespace taper::v0::runner
