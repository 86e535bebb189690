// Steps whose loss or gradient is not finite: stops the run, skips the step or rolls back, as
// train.on_nan says. Also warns of steps that take very long.
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "apps/runner/run/ranks.h"
#include "apps/runner/train/resume.h"
#include "apps/runner/train/trainer.h"
#include "framework/base/log.h"

namespace taper::v0::runner {
namespace {

constexpr int64_t kMaxRollbacks = 5;
constexpr double kLongStep = 10;  // seconds
constexpr const char* kAdvice =
    ": lower optimizer.lr, set train.clip_norm, or check the data for extreme values; with "
    "train.on_nan=skip or rollback the run continues";

}  // namespace

// Gradients may overflow under a loss scale, which the scaler then lowers. If the scale is below 1,
// the cause is another one.
bool Trainer::is_overflow(float loss) const {
  return training_.scaler && std::isfinite(loss) && training_.scaler->get_scale() >= 1;
}

// Logs a warning on the first rank only, because all ranks have the same numbers.
void Trainer::report(const std::string& warning) const {
  if (is_first_) warn(warning);
}

void Trainer::on_bad_step(const Pending& p, int64_t step, float loss, float norm) {
  const std::string tensor = step_.find_bad_tensor(p.at, p.random);
  const bool bad_loss = !std::isfinite(loss);
  const std::string what = concat_to_string(
      bad_loss ? "the loss" : "the gradient's norm", " became ", bad_loss ? loss : norm,
      " at step ", step, " of epoch ", p.at.epoch,
      tensor.empty() ? "" : concat_to_string("; the first bad tensor is ", tensor));
  if (config_.train.on_nan == OnNan::kStop) throw Diverged(what + kAdvice);
  if (config_.train.on_nan == OnNan::kSkip) {
    report(concat_to_string(what, "; step skipped (", ++state_.skipped, " skipped so far)"));
    return;
  }
  require<Diverged>(state_.rollbacks != kMaxRollbacks, what, ", after ", kMaxRollbacks,
                    " rollbacks", kAdvice);
  roll_back();
  report(concat_to_string(what, "; rolled back to step ", state_.step,
                          " with half the learning rate (rollback ", state_.rollbacks,
                          " of at most ", kMaxRollbacks, ")"));
}

void Trainer::roll_back() {
  std::optional<Checkpoint> target;
  on_first([&] {
    finish_saving();
    target = target_of_rollback(dir_);
  });
  target = from_first(ranks_, std::move(target));
  const int64_t rollbacks = state_.rollbacks + 1;
  load(*target, state_.lr_scale / 2);
  state_.rollbacks = rollbacks;
  log_.go_back(state_);
}

// Users of a slow machine should not wait for an hour before they learn that a run takes a week.
void Trainer::warn_of_long_steps(int64_t steps) {
  const double trained = log_.timings.training();
  const double each = (trained - std::exchange(trained_, trained)) / double(steps);
  if (each < kLongStep || has_warned_of_long_steps_) return;
  has_warned_of_long_steps_ = true;
  const int64_t left = length_.steps - state_.step;
  report(
      fmt::format("a step takes {:.0f} s, and the remaining {} steps about {:.1f} hours; a "
                  "smaller train.batch_size, a smaller model, train.precision=bf16 or a GPU "
                  "makes steps shorter",
                  each, left, each * double(left) / 3600));
}

}  // namespace taper::v0::runner
