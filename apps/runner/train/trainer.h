// The training loop.
//
// A run, and the file of each part:
//
//   train()                                       train.cpp
//     load: data, checkpoint, model               run/batches.cpp, resume.cpp, state.cpp
//     Trainer::run(), for each step               trainer.cpp
//       batch                                     run/batches.cpp
//       step: forward, loss, backward, update     step.cpp
//         for each micro-batch                    passes/micro_batches.cpp (ranks, shards,
//                                                 accumulation)
//       log                                       log.cpp
//       evaluate                                  run/evaluate.cpp
//       checkpoint                                state.cpp, checkpoint_writer.cpp
//       end, if anything requests it              loop_control.cpp
//     seal: model, exit.json, checksums           saved_model.cpp, train.cpp
//
// How a run ends:
//
//   after its last step, or by end_early()        observer, early stopping, limits of TrainOptions
//   Interrupted, once the step is saved           signal, stop token
//   Diverged                                      bad_step.cpp: a loss or gradient is not finite
//   any other exception                           rescue.cpp saves the last whole step
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/runner/base/errors.h"
#include "apps/runner/train/checkpoint_writer.h"
#include "apps/runner/train/log.h"
#include "apps/runner/train/loop_control.h"
#include "apps/runner/train/step.h"
#include "apps/runner/train/train.h"
#include "framework/profiler/profiler.h"

namespace taper::v0::runner {

// Losses stay on the device and are read together, after kReadSeconds or kWindow steps, whichever
// comes first.
inline constexpr int64_t kWindow = 64;
inline constexpr double kReadSeconds = 0.5;

// The training loop of a run, on one rank.
class Trainer {
 public:
  // Writes the files of a run to `dir`. config and data must outlive the object.
  Trainer(const RunConfig& config, const data::Splits& data, const Communicator& ranks,
          fs::path dir, Observer* observer = nullptr);

  int64_t step() const { return state_.step; }
  std::vector<Device> devices() const;             // of the run, its own first
  int64_t steps() const { return length_.steps; }  // of the whole run
  double lr() const { return training_.optimizer->lr(); }

  // Trains until the last step, or until the run ends early. A signal or TrainOptions::stop throws
  // Interrupted. If run() throws, it first saves the last whole step if possible. A warning names
  // the checkpoint, or the reason why there is none.
  TrainResult run();
  // Sets where run() ends. Throws ConfigError if the loaded checkpoint has more steps.
  void set_options(const TrainOptions& options);

  // --- the parts of run(), for dry_run() ---

  // Loads the file of model.init, if the config has one. Call it for a run that begins, not for one
  // that load() continues.
  void load_init() { training_.load_init(config_); }
  void open_files() {
    on_first([this] { log_.open(state_); });
  }
  void train_step();
  // Reads and logs the losses of the steps since the last call. Returns false if one of them was
  // not finite and the run was rolled back.
  bool read_losses();
  Metrics evaluate();
  // Returns a checkpoint of the current state, as TrainingState::save(). Every rank calls it.
  Checkpoint checkpoint(bool is_snapshot = false);
  // Restores the state of a checkpoint, from which run() then continues. lr_scale: if given,
  // replaces the checkpoint's factor on the schedule's learning rates.
  void load(const Checkpoint& checkpoint, std::optional<double> lr_scale = {});

 private:
  // The actions that the config requires after a step.
  struct Plan {
    bool epoch_ends = false, run_ends = false, evaluates = false, saves = false, samples = false;
    bool stops = false;   // the step is TrainOptions::stop_at
    bool pauses = false;  // the step is the one of stop_after_steps or stop_after_epochs
  };
  // A step whose loss has not been read from the device. The fields hold the state from which the
  // step can be repeated.
  struct Pending {
    Position at;
    PhiloxKey random;
    double lr;
  };
  // The state before the step or evaluation that is in progress. undo() returns to it.
  struct Begun {
    Position at;
    PhiloxKey random;
    int64_t schedule_epoch;
    size_t pending;
    bool is_evaluation;
  };

  // --- the loop ---

  void begin();
  TrainResult end();
  // Begins to train parameters that the config freezes until this epoch.
  void begin_epoch();
  void show_progress();
  Plan plan_after_step() const;
  // Performs the actions that are due after a step: reads losses, logs, evaluates, saves a
  // checkpoint, ends the run.
  void after_step();
  void finish_step(const Plan& plan, const LoopControl& control);
  // Logs the time of the epoch so far, at its end or where the run ends within it.
  void log_epoch();
  void end_if_requested(const Plan& plan, const LoopControl& control);
  // Ends the run after this step. Everything that ends a run early calls this, except for
  // exceptions.
  void end_early(const char* reason) { state_.reason = reason; }
  void evaluate_and_end(const char* reason);
  bool has_ended() const { return !state_.reason.empty(); }
  // Evaluates and logs the metrics. Returns whether this is the best evaluation so far.
  bool evaluate_and_log();
  // Evaluates the model's weights. draw: the epoch of the loader.
  Metrics measure(DataLoader& batches, int64_t draw, const DataInfo& info, bool has_details);
  void note_begin(bool is_evaluation);
  // Calls f on the first rank, which writes the files. If f throws, all ranks throw.
  void on_first(const std::function<void()>& f);

  // --- bad_step.cpp ---

  bool is_overflow(float loss) const;
  // Stops, skips or rolls back, according to train.on_nan.
  void on_bad_step(const Pending& p, int64_t step, float loss, float norm);
  void roll_back();
  void report(const std::string& warning) const;
  void warn_of_long_steps(int64_t steps);

  // --- loop_control.cpp ---

  // Returns the requests. With several ranks, exchanges them so that all ranks act after the same
  // step. They are exchanged about every half a second, and at points where all ranks wait for each
  // other anyway.
  LoopControl loop_control();
  std::string own_signal() const;
  // Returns the function that an evaluation of `total` batches calls after each batch. It draws a
  // bar if the evaluation takes longer than a second. Once a rank has received a signal, it throws
  // Interrupted on all ranks after the same batch.
  std::function<void(int64_t batches)> stop_check(int64_t total);
  bool interval_is_over() const;

  // --- checkpoints ---

  bool save_is_due(bool epoch_ends) const;
  // Saves a checkpoint of the current state. If it is written in the background, which it never is
  // when the run ends, finish_saving() throws the errors. Otherwise it is complete when this
  // returns. Older checkpoints are complete in either case.
  void save(const SaveOptions& options);
  // Waits for the checkpoint that is being written, if there is one, and throws its error.
  void finish_saving();
  void save_ended_by_observer();
  // Returns a checkpoint of this rank's state alone. Not for a sharded optimizer's state.
  Checkpoint checkpoint_of_rank(bool is_snapshot);
  // Writes the checkpoint of the current step, and before it the lines of metrics.jsonl.
  void write(Checkpoint checkpoint, const SaveOptions& options, bool in_background = false);

  // --- saved_model.cpp ---

  // Writes model.safetensors. It gets the best weights if the config asks for them or the data have
  // a validation part, and otherwise the last weights. If averages of the weights exist, the
  // averages are written. Records in the result which weights they are.
  void save_model(TrainResult& result);
  // If the data have a validation part, evaluates the weights in model.safetensors on the test part
  // and logs the result. Nothing before this call has used the test part. Afterwards the model has
  // these weights.
  void test_saved_model(TrainResult& result);
  // Chooses the threshold for the model's weights on the validation part, which is evaluated again
  // with it. Sets the threshold in `info`.
  void choose_threshold(TrainResult& result, DataInfo& info);
  // Writes the details of the saved weights' evaluation to evaluation.json, for the report.
  // Measures them if no evaluation has done so.
  void save_evaluation(const TrainResult& result);
  void load_saved_weights();

  // --- rescue.cpp ---

  // Saves the last whole step, unless it is saved already. Called before the error that ended the
  // run reaches the caller. Never throws.
  void rescue(const std::exception_ptr& cause) noexcept;
  // Calls finish_saving(). Returns the message of its error, or an empty string.
  std::string failure_of_checkpoint();
  void log_epoch_of_failure() noexcept;
  // Returns the reason why the last step cannot be saved after that error, or an empty string if it
  // can be saved.
  std::string why_lost(const std::exception_ptr& cause);
  bool has_bad_step() const;  // among the steps whose losses have not been read yet
  // Reverts the changes of an unfinished step or evaluation. Returns false if that is impossible.
  bool undo();
  void save_last_step(bool is_on_all_ranks);

  // --- trace and memory ---

  void end_trace();
  void log_memory();

  const RunConfig& config_;
  const data::Splits& data_;
  const Communicator ranks_;
  const bool is_first_;
  const fs::path dir_;
  Observer* const observer_;
  Batches loader_;
  DataLoader eval_loader_;
  const RunLength length_;
  RunState state_;
  TrainingState training_;
  Step step_;
  Log log_;
  Tensor window_;                 // [kWindow, 2]: losses and norms of pending_, on the device
  std::vector<Pending> pending_;  // steps since read_losses()
  std::optional<Begun> begun_;
  int64_t missing_lines_ = 0;  // of metrics.jsonl, for steps that were taken
  const bool saves_in_background_;
  bool is_saving_ = false;   // within finish_saving()
  int64_t saved_step_ = -1;  // the step of the newest checkpoint, which writer_ may be writing
  int64_t exchange_at_ = 0;  // the step after which the ranks exchange their requests again
  int64_t stop_at_ = -1, pause_at_ = -1;  // the steps of Plan::stops and Plan::pauses; -1: none
  std::stop_token stop_;
  Clock::time_point read_{}, saved_{};  // when losses were last read and when the last checkpoint
                                        // was written
  double trained_ = 0;                  // seconds of training when losses were last read
  bool has_warned_of_long_steps_ = false;
  bool is_last_evaluation_ = false;  // details are then collected
  int64_t details_step_ = -1;        // the step of the last evaluation with details; -1: none
  std::optional<Profiler> profiler_;
  CheckpointWriter writer_;  // the last member: its thread uses log_
};

}  // namespace taper::v0::runner
