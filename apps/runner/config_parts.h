// The descriptions that config.cpp puts together.
#pragma once

#include "apps/runner/config.h"
#include "apps/runner/schema.h"

namespace taper::runner {

// Beyond these a number is a slip of the finger, not a wish.
inline constexpr double kMaxWidth = 1 << 24;
inline constexpr double kMaxSteps = 1'000'000'000;
inline constexpr Range kWidth{1, kMaxWidth};
inline constexpr Range kSteps{1, kMaxSteps};
inline constexpr Range kStepsOrNone{0, kMaxSteps};

// Each of `all`, with the fields of `more` at its end.
std::vector<Schema> each_with(std::vector<Schema> all, const Schema& more);

// What a run may aim at: the loss, and the metrics that are a number.
std::vector<std::string> goals();

Union describe(ModelConfig& c);
Union describe(LossConfig& c);
Union describe(OptimizerConfig& c);
Union describe(ScheduleConfig& c);

}  // namespace taper::runner
