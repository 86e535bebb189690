// Schedules as a config names them.
#pragma once

#include <optional>

#include "apps/runner/config/config.h"
#include "optim/schedule.h"

namespace taper::inline v0::runner {

// The rate of each step (from 0), warm-up included; lr is the optimizer's. A plateau has no such
// function: it gets a constant one here, and options for optim::ReduceLROnPlateau from plateau_of,
// of which others have none.
optim::Schedule build_schedule(const ScheduleConfig& config, double lr, int64_t total_steps,
                               int64_t steps_per_epoch);
std::optional<optim::PlateauOptions> plateau_of(const ScheduleConfig& config);

}  // namespace taper::inline v0::runner
