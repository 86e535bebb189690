// The descriptions that config.cpp puts together.
#pragma once

#include "apps/runner/config/config.h"
#include "apps/runner/config/schema.h"

namespace taper::runner {

// Each of `all`, with the fields of `more` at its end.
std::vector<Schema> each_with(std::vector<Schema> all, const Schema& more);

// What a run may aim at: the loss, and the metrics that are a number.
std::vector<std::string> goals();

Union describe(LossConfig& c);
Union describe(OptimizerConfig& c);
Union describe(ScheduleConfig& c);

}  // namespace taper::runner
