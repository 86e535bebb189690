// The loop of a training run and its state, which checkpoints save and restore bit by bit.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/data/data_info.h"
#include "apps/runner/report/tensorboard.h"
#include "apps/runner/run/checkpoint.h"
#include "apps/runner/run/files.h"
#include "apps/runner/train/evaluate.h"
#include "apps/runner/train/model.h"
#include "apps/runner/train/optimizer.h"
#include "apps/runner/train/progress.h"
#include "apps/runner/train/schedule.h"
#include "apps/runner/train/train.h"
#include "autograd/step_graph.h"
#include "framework/profiler.h"
#include "framework/random.h"
#include "optim/ema.h"
#include "optim/grad_scaler.h"

namespace taper::runner {

class Trainer {
 public:
  // The files are those of `dir`; config and data are to outlive it.
  Trainer(const RunConfig& config, const data::Splits& data, Device device,
          std::filesystem::path dir, Observer* observer = nullptr);

  // The state of a whole checkpoint; run() then goes on from there.
  void load(const Checkpoint& checkpoint) { load(checkpoint, std::nullopt); }
  // Until the end, an early stop, the time limit, or a signal, which throws Interrupted.
  TrainResult run();

  // run() saves and ends after this step too, as at a signal.
  void stop_at(int64_t step) { stop_at_ = step; }
  double lr() const { return optimizer_->lr(); }

  // The parts of run().
  void open_files();
  void train_step();
  // Reads and logs the steps since the last call. False: the run was rolled back.
  bool flush();
  Metrics evaluate();
  Checkpoint checkpoint();
  int64_t step() const { return step_; }

 private:
  using Clock = std::chrono::steady_clock;
  // A step whose loss is still on the device, and what it takes to run it again.
  struct Pending {
    int64_t epoch, batch;  // its first one, from 0
    PhiloxKey random;
    double lr;
  };
  // The best value of a metric so far, and the evaluations since.
  struct Best {
    std::optional<double> value{};
    int64_t step = 0, misses = 0;
  };

  // Losses stay on the device; so many at a time are read together.
  static constexpr int64_t kWindow = 64;

  // --- trainer.cpp: the loop ---
  void after_step();
  bool save_is_due(bool epoch_ends) const;
  void time_epoch();
  // Since the start of the run, without what evaluations and checkpoints took.
  double training_seconds() const;
  Standing standing() const;
  // Throws Diverged where every step was skipped.
  void check_learned() const;
  // Begins and ends the trace of the steps that the config names.
  void begin_trace();
  void end_trace();
  // The most memory that the run had, beside what --validate foretells.
  void log_memory();
  // Whether it is the best so far.
  bool evaluate_and_log();
  void log_evaluation();
  bool is_late() const;
  // Gives the step whose weights they are.
  int64_t save_model();

  // --- trainer_step.cpp: one step ---
  // To the next batch, of the next epoch where this one is over.
  void place_loader();
  using NextBatch = std::function<Batch()>;
  Batch next_batch();
  // All of a step that the device does; the loss and the norm of the gradients are in row_ then.
  void compute_step(const NextBatch& next);
  // The same as a CUDA graph.
  void replay_step();
  // Steps are captured anew, or not, as why_eager() says.
  void reset_graph();
  std::string why_eager() const;
  // The mean loss of a step with these batches, gradients in the parameters.
  Tensor forward_and_backward(int64_t first_batch, const NextBatch& next);
  int64_t batches_from(int64_t first_batch) const;
  int64_t samples_from(int64_t first_batch) const;
  Tensor clip_gradients();
  Tensor found_inf() const;
  std::vector<Tensor> buffers_to_keep() const;
  void keep_buffers(const std::vector<Tensor>& old, const Tensor& found) const;
  void log_step(const Pending& p, int64_t step, float loss, float norm);
  void on_bad_step(const Pending& p, int64_t step, float loss, float norm);
  std::string first_bad_of(const Pending& p);

  // --- trainer_state.cpp: checkpoints ---
  // An extra one, of a signal or at the time limit, is none to go back to: the run that is not
  // ended does not have it.
  void save(bool is_best = false, bool is_extra = false);
  void load(const Checkpoint& checkpoint, std::optional<double> lr_scale);
  void roll_back();
  std::string state_json() const;
  void read_state(const std::string& json);

  const RunConfig& config_;
  const data::Splits& data_;
  const Device device_;
  const std::filesystem::path dir_;
  Observer* const observer_;
  DataLoader loader_, test_loader_;
  const int64_t batches_per_epoch_, total_steps_;

  std::unique_ptr<Module> model_;
  std::vector<Tensor> params_;
  Loss loss_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::LRScheduler> schedule_;
  std::optional<optim::ReduceLROnPlateau> plateau_;
  std::optional<optim::GradScaler> scaler_;
  std::optional<optim::EMA> ema_;

  // What state.json says.
  int64_t step_ = 0, epoch_ = 1, batch_ = 0;  // batches of this epoch that are done
  uint64_t metrics_bytes_ = 0;
  std::optional<uint32_t> metrics_crc_;  // of them
  Best best_, stopping_;
  Metrics last_metrics_;
  double lr_scale_ = 1;  // halved with every return to a checkpoint
  int64_t rollbacks_ = 0, skipped_ = 0;
  std::string reason_;  // of an end before the last step

  Tensor row_;        // [2]: loss and gradient norm of the last step
  Tensor window_;     // [kWindow, 2]: those that are not read yet
  Tensor one_, bad_;  // 0-dim: 1; how many of these void the next step
  std::vector<Pending> pending_;
  std::unique_ptr<StepGraph> graph_;  // none: steps run as they are
  size_t graphs_logged_ = 0;
  bool is_placed_ = false;  // the loader is at the next batch
  int64_t saved_step_ = -1, stop_at_ = -1;
  bool is_extra_ = false;  // the checkpoint that is made
  std::optional<float> last_loss_;
  double loss_sum_ = 0;  // of the steps since the last evaluation's line
  int64_t loss_count_ = 0;
  Clock::time_point start_{}, flushed_{}, saved_{};
  Spent evaluating_, saving_;
  int64_t steps_here_ = 0, samples_here_ = 0;  // of this process
  int64_t epoch_first_batch_ = 0;
  double epoch_start_ = 0;   // of training_seconds()
  double data_seconds_ = 0;  // of this epoch, spent on waiting for batches
  std::optional<Profiler> profiler_;
  JsonLines metrics_, timing_;
  Progress progress_;
  std::unique_ptr<EventWriter> events_;
};

}  // namespace taper::runner
