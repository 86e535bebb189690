// The loop of a run: steps, and between them evaluations, checkpoints, and an end.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/runner/base/errors.h"
#include "apps/runner/train/log.h"
#include "apps/runner/train/step.h"
#include "apps/runner/train/train.h"
#include "framework/profiler/profiler.h"

namespace taper::v0::runner {

class Trainer {
 public:
  // The files are those of `dir`; config and data are to outlive it.
  Trainer(const RunConfig& config, const data::Splits& data, const Communicator& ranks,
          fs::path dir, Observer* observer = nullptr);

  int64_t step() const { return state_.step; }
  int64_t steps() const { return length_.steps; }  // of the whole run
  double lr() const { return training_.optimizer->lr(); }

  // Trains until the end, an early stop, the time limit, `stop_at`, or a signal, which throws
  // Interrupted. Whatever it throws, the last whole step is saved first where that is possible, and
  // a warning says where, or why it is not.
  TrainResult run(int64_t stop_at, std::stop_token stop);

  void open_files() {
    on_first([this] { log_.open(state_); });
  }
  void train_step();
  // Reads and logs the steps since the last call. False: the run was rolled back.
  bool flush();
  Metrics evaluate();
  Checkpoint checkpoint();
  // The same of what this rank has, without the others: not where the optimizer's state is in
  // shards.
  Checkpoint checkpoint_of_rank();
  // The state of a whole checkpoint; run() then goes on from there. With another factor of the
  // schedule's rates, where one is given.
  void load(const Checkpoint& checkpoint, std::optional<double> lr_scale = {});

 private:
  // What clocks and signals say. Of several ranks all do the same at the same step: they meet every
  // half a second, in steps, and where all of them stop anyway.
  struct Orders {
    std::string signal{};
    bool is_late = false, saves = false, reads = false;
  };
  Orders orders();
  // The signal that came to this process, or "its program" where that asks for the end; empty:
  // none.
  std::string own_signal() const;
  // What an evaluation calls after each of its batches: throws Interrupted once a rank was asked to
  // stop, on all ranks after the same batch.
  std::function<void(int64_t batches)> stop_check();
  void run_steps(int64_t stop_at);
  // Files are the first's; what it meets ends all.
  void on_first(const std::function<void()>& f);
  void after_step(bool stops);
  // Returns whether it is the best so far.
  bool evaluate_and_log();
  bool save_is_due(bool epoch_ends) const;
  bool interval_is_over() const;
  // An extra one, of a signal or at the time limit, is none to go back to: the run that is not
  // ended does not have it.
  void save(bool is_best = false, bool is_extra = false);
  void save_ended_by_observer();
  void roll_back();
  // Writes model.safetensors: the best weights where the config asks for them, else the last ones;
  // averages where there are some. Notes in the result whose they are.
  void save_model(TrainResult& result);

  // --- rescue.cpp ---

  // Saves the last whole step, unless that is saved already, before the error that ended the run
  // reaches the caller. Never throws.
  void rescue(const std::exception_ptr& cause) noexcept;
  // Why the last step cannot be saved after that error, in words; empty: it can.
  std::string why_lost(const std::exception_ptr& cause);
  bool has_bad_step() const;  // among those that are not read yet
  // Takes back what a step or an evaluation has changed that did not reach its end.
  bool undo();
  void save_last_step(bool is_on_all_ranks);

  // A step whose loss is still on the device, and what it takes to run it again.
  struct Pending {
    Position at;
    PhiloxKey random;
    double lr;
  };
  void report(const std::string& warning) const;
  void on_bad_step(const Pending& p, int64_t step, float loss, float norm);
  // Where a step or an evaluation began, until it is done.
  struct Begun {
    Position at;
    PhiloxKey random;
    int64_t schedule_epoch;
    size_t pending;
    bool is_evaluation = false;
  };
  void end_trace();
  // The most memory that the run had, beside what --validate foretells.
  void log_memory();

  const RunConfig& config_;
  const data::Splits& data_;
  const Communicator ranks_;
  const bool is_first_;
  const fs::path dir_;
  Observer* const observer_;
  Batches loader_;
  DataLoader test_loader_;
  const RunLength length_;
  RunState state_;
  TrainingState training_;
  Step step_;
  Log log_;
  Tensor window_;  // [kWindow, 2]: losses and norms that are not read yet
  std::vector<Pending> pending_;
  std::optional<Begun> begun_;
  int64_t missing_lines_ = 0;  // of metrics.jsonl, for steps that were taken
  bool is_saving_ = false;
  int64_t saved_step_ = -1, meeting_ = 0;
  std::stop_token stop_;
  Clock::time_point flushed_{}, saved_{};
  std::optional<Profiler> profiler_;
};

}  // namespace taper::v0::runner
