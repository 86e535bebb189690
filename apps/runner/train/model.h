// Models as a config names them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "apps/runner/config/config.h"
#include "apps/runner/data/dataset.h"
#include "modules/sequential.h"

namespace taper::runner {

// Inputs of every layer are inferred from the one before; an mlp gets its last layer added, a
// sequential model must end in the output. Throws ConfigError at the layer's (or model's) place,
// with the shape that arrives there, when shapes do not fit.
std::unique_ptr<Module> build_model(const ModelConfig& config, const DataInfo& data, Device device);

// Zeros as the data give them to the model.
Tensor sample_batch(const DataInfo& data, int64_t count, Device device);

// Makes `model: {type: custom, name: NAME, options: {...}}` known; options are as written. Call it
// before run_program (apps/runner/program.h). Throws ValueError for a name that is taken.
using ModelFactory = std::function<std::unique_ptr<Module>(
    const std::map<std::string, std::string>& options, const DataInfo& data, Device device)>;
void register_model(const std::string& name, ModelFactory factory);

}  // namespace taper::runner
