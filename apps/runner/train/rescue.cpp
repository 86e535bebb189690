// Saves a checkpoint of the last whole step of a run that fails.
#include <algorithm>
#include <cmath>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/process.h"
#include "apps/runner/run/checkpoint.h"
#include "apps/runner/run/signals.h"
#include "apps/runner/settings/placement.h"
#include "apps/runner/train/trainer.h"
#include "framework/base/log.h"
#include "framework/distributed/communicator.h"

namespace taper::v0::runner {
namespace {

std::string what_of(const std::exception_ptr& error) try {
  std::rethrow_exception(error);
} catch (const std::exception& e) {
  return e.what();
} catch (...) {
  return "an exception that is not a std::exception";
}

template <class... E> bool is_one_of(const std::exception_ptr& error) try {
  std::rethrow_exception(error);
} catch (const std::exception& e) {
  return is_any<E...>(e);
} catch (...) {
  return false;
}

// Returns whether the error may come from kernels of earlier steps. A bad index on a GPU, for
// example, is reported by a later call that synchronizes. The type of the error may have changed
// since.
bool may_be_late(const std::exception_ptr& error) {
  return is_one_of<AcceleratorError>(error) ||
         what_of(error).find("(reported by ") != std::string::npos;
}

std::string newest_in(const fs::path& run) {
  const std::optional<fs::path> newest = newest_checkpoint(run);
  return newest ? concat_to_string("the newest checkpoint is ", newest->string())
                : "there is no checkpoint";
}

}  // namespace

void Trainer::log_epoch_of_failure() noexcept try { log_epoch(); } catch (...) {
  return;  // the cause of the failure reaches the caller
}

std::string Trainer::failure_of_checkpoint() try {
  finish_saving();
  return "";
} catch (const std::exception& error) {
  is_saving_ = false;
  return error.what();
}

void Trainer::rescue(const std::exception_ptr& cause) noexcept try {
  log_.end_bar();
  log_epoch_of_failure();
  std::string why = failure_of_checkpoint();
  const bool is_signal = is_one_of<Interrupted>(cause);
  if (state_.step == 0 || is_one_of<Diverged, distributed::RankError>(cause)) {
    if (!why.empty()) warn(why);
    return;
  }
  if (is_signal ? saved_step_ == state_.step : !is_first_) return;
  // The error already names the checkpoints that remain on the full disk.
  if (is_saving_ && is_one_of<DiskError>(cause)) return;
  // After an error of a checkpoint the last step is not saved either, because its state may name
  // that checkpoint as the best one.
  try {
    if (saved_step_ != state_.step && why.empty()) why = why_lost(cause);
    if (saved_step_ != state_.step && why.empty()) save_last_step(is_signal);
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (!is_first_) return;
  if (!why.empty()) {
    warn(concat_to_string("the run failed after step ", state_.step, ": ", what_of(cause),
                          "; that step is not saved: ", why, "; ", newest_in(dir_)));
    return;
  }
  const std::string text = concat_to_string("step ", state_.step, " is saved in ",
                                            checkpoint_of_step(dir_, state_.step).string());
  if (is_signal) log_info(concat_to_string(text, "; continue with ", resume_auto()));
  if (!is_signal)
    warn(concat_to_string("the run failed; ", text, "; continue with ", resume_auto()));
} catch (...) {
  return;  // there is not even memory for a message; the cause itself reaches the caller
}

std::string Trainer::why_lost(const std::exception_ptr& cause) {
  if (ranks_.size() > 1 && training_.shards && !is_one_of<Interrupted>(cause)) {
    return "the optimizer's state is sharded over the ranks";
  }
  if (uses_gpu(*training_.model, ranks_.device()) && may_be_late(cause)) {
    return "the GPU reports this error after later kernels have run, so that weights may be wrong";
  }
  if (!undo()) return "the step that failed has changed weights or buffers of the model";
  step_.release_memory();
  if (missing_lines_ > 0) return "lines of metrics.jsonl could not be written";
  if (pending_.empty()) return "";
  // A rank that acts alone cannot ask the others which tensor became non-finite first.
  if (ranks_.size() > 1 && has_bad_step())
    return "a loss or gradient of an earlier step is not finite";
  read_losses();  // may roll back to a checkpoint, whose step is then the last whole one
  return "";
}

bool Trainer::has_bad_step() const {
  const std::vector<float> read = window_.cpu().to_floats();
  const auto end = read.begin() + 2 * std::ssize(pending_);
  return !std::all_of(read.begin(), end, [](float x) { return std::isfinite(x); });
}

bool Trainer::undo() {
  if (!begun_) return true;
  if (!step_.undo()) return false;
  default_generator().set_state(begun_->random);
  state_.at = begun_->at;
  pending_.erase(pending_.begin() + std::ptrdiff_t(begun_->pending), pending_.end());
  training_.return_schedule_to(begun_->schedule_epoch);
  if (begun_->is_evaluation) log_.go_back(state_);
  begun_.reset();
  return true;
}

// If other ranks may have failed, the first rank saves its own state. That is enough, because all
// ranks have the same weights, and checkpoints store the first rank's buffers.
void Trainer::save_last_step(bool is_on_all_ranks) {
  const SaveOptions options{.is_extra = true, .ends_run = true};
  if (is_on_all_ranks) return save(options);
  state_.is_extra = true;
  write(checkpoint_of_rank(false), options);
  saved_step_ = state_.step;
}

}  // namespace taper::v0::runner
