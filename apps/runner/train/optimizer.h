// Optimizers and schedules as a config names them.
#pragma once

#include <memory>
#include <optional>

#include "apps/runner/config/config.h"
#include "modules/module.h"

namespace taper::runner {

// Muon gets the matrices of hidden layers; embeddings, the last linear layer, biases and norms go
// to AdamW with the same lr and weight_decay (so take `adjust_lr_fn: match_rms_adamw`). Throws
// ConfigError for a model without parameters, or one that the optimizer refuses.
std::unique_ptr<optim::Optimizer> build_optimizer(const OptimizerConfig& config, Module& model);

// The rate of each step (from 0), warm-up included; lr is the optimizer's. A plateau has no such
// function: it gets a constant one here, and options for optim::ReduceLROnPlateau from plateau_of,
// of which others have none.
optim::Schedule build_schedule(const ScheduleConfig& config, double lr, int64_t total_steps,
                               int64_t steps_per_epoch);
std::optional<optim::PlateauOptions> plateau_of(const ScheduleConfig& config);

}  // namespace taper::runner
