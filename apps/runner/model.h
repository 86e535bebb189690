// Models and optimizers as a config names them.
#pragma once

#include <memory>

#include "apps/runner/config.h"
#include "modules/sequential.h"
#include "optim/optimizer.h"

namespace taper::runner {

// Layers with sizes inferred from `input_shape` (without the batch), ending in `outputs` values: an
// mlp gets its last layer added, a sequential model must end there. Throws ConfigError at the
// layer's place when shapes do not fit.
std::unique_ptr<Sequential> build_model(const ModelConfig& config, const Shape& input_shape,
                                        int64_t outputs, Device device);

std::unique_ptr<optim::Optimizer> build_optimizer(const OptimizerConfig& config,
                                                  const Module& model);

}  // namespace taper::runner
