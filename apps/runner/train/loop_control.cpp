// Requests from outside the training loop: signals, the caller's stop token and options, the time
// limit, and the interval of checkpoints. With several ranks, all ranks act on a request after the
// same step.
#include "apps/runner/train/loop_control.h"

#include <algorithm>
#include <cmath>
#include <locale>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "apps/runner/base/process.h"
#include "apps/runner/report/progress.h"
#include "apps/runner/run/ranks.h"
#include "apps/runner/run/signals.h"
#include "apps/runner/train/trainer.h"

namespace taper::v0::runner {
namespace {

// Returns the signal of the first rank that received one, with the name of the rank.
std::string signal_of(const std::vector<std::string>& signals, const Communicator& ranks) {
  for (size_t r = 0; r < signals.size(); ++r) {
    if (!signals[r].empty()) return concat_to_string(signals[r], " on ", ranks.name_of(int(r)));
  }
  return "";
}

// Returns after how many more steps or batches the ranks exchange their requests again: after about
// half a second, but after at most `max` of them. The last `count` of them took `seconds`.
int64_t count_until_exchange(int64_t count, double seconds, double max) {
  const double in_time = double(count) * kReadSeconds / std::max(seconds, 1e-6);
  return int64_t(std::clamp(in_time, 1.0, max));
}

}  // namespace

std::string Trainer::own_signal() const {
  return stop_.stop_requested() ? "its program" : SignalGuard::received();
}

std::function<void(int64_t)> Trainer::stop_check(int64_t total) {
  const auto bar = std::make_shared<WorkProgress>("evaluating", "batches", total);
  return [this, bar, start = Clock::now(), exchange_at = int64_t(1)](int64_t batches) mutable {
    bar->show(batches);
    std::string signal = own_signal();
    if (ranks_.size() > 1) {
      if (batches < exchange_at) return;
      const int64_t next = count_until_exchange(batches, seconds_since(start), 1e6);
      const auto signals = ranks_.all_gather_text(signal);
      exchange_at = batches + std::stoll(from_first(ranks_, concat_to_string(next)));
      signal = signal_of(signals, ranks_);
    }
    require<Interrupted>(signal.empty(), "ended by ", signal, " in the evaluation after step ",
                         state_.step, " of ", length_.steps);
  };
}

bool Trainer::interval_is_over() const {
  const CheckpointConfig& c = config_.checkpoint;
  // A run that may be rolled back gives the same numbers each time, so the clock must not decide
  // where its checkpoints are.
  if (c.every || config_.train.on_nan == OnNan::kRollback) return false;
  return seconds_since(saved_) > seconds_of(c.interval).value_or(INFINITY);
}

LoopControl Trainer::loop_control() {
  const auto& limit = config_.train.time_limit;
  const double since_read = seconds_since(read_);
  LoopControl own{
      .signal = own_signal(),
      .is_late = limit && seconds_since(log_.timings.start) > seconds_of(*limit).value_or(INFINITY),
      .saves = interval_is_over(),
      .reads = since_read > kReadSeconds,
      .is_saved = writer_.is_due()};
  if (ranks_.size() == 1) return own;
  const int64_t next = count_until_exchange(std::ssize(pending_), since_read, double(kWindow));
  const auto signals = ranks_.all_gather_text(own.signal);
  std::istringstream first(
      from_first(ranks_, concat_to_string(int(own.is_late), " ", int(own.saves), " ",
                                          int(own.is_saved), " ", state_.step + next)));
  first.imbue(std::locale::classic());  // other locales may separate thousands by a blank
  first >> own.is_late >> own.saves >> own.is_saved >> exchange_at_;
  own.reads = true;
  own.signal = signal_of(signals, ranks_);
  return own;
}

void Trainer::set_options(const TrainOptions& options) {
  stop_ = options.stop;
  stop_at_ = options.stop_at;
  if (options.stop_after_epochs > 0) pause_at_ = options.stop_after_epochs * length_.per_epoch;
  if (options.stop_after_steps > 0) pause_at_ = options.stop_after_steps;
  const bool is_past = pause_at_ > 0 && state_.step > pause_at_;
  require<ConfigError>(!is_past, "the checkpoint has ", state_.step,
                       " steps, and the run is to stop after ", pause_at_, "; increase ",
                       options.stop_after_steps > 0
                           ? for_caller("--stop-after-steps", "TrainOptions.stop_after_steps")
                           : for_caller("--stop-after-epochs", "TrainOptions.stop_after_epochs"),
                       ", or leave it out");
}

// Ends the run if that is requested. At this point the step is saved. A signal throws Interrupted,
// because the run is to be resumed. Other requests end the run as if this had been its last step.
void Trainer::end_if_requested(const Plan& plan, const LoopControl& control) {
  require<Interrupted>(control.signal.empty() || plan.run_ends, "ended by ", control.signal,
                       " at step ", state_.step, " of ", length_.steps,
                       ", which is saved; continue with ", resume_auto());
  if (plan.stops && !has_ended()) end_early("another config");
  if (!(control.is_late || plan.pauses) || plan.run_ends || has_ended()) return;
  evaluate_and_end(plan.pauses ? kPaused : "time limit");
}

// The checkpoint does not contain this evaluation, so a resumed run is not affected by it.
void Trainer::evaluate_and_end(const char* reason) {
  is_last_evaluation_ = true;
  if (state_.evaluated_step != state_.step) evaluate_and_log();
  end_early(reason);
}

}  // namespace taper::v0::runner
