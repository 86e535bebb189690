// The state of a run that a checkpoint stores: weights and optimizer (model.safetensors,
// optimizer.safetensors) as TrainingState, and the progress (state.json) as RunState.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/run/batches.h"
#include "apps/runner/run/checkpoint.h"
#include "apps/runner/run/evaluate.h"
#include "apps/runner/settings/run_config.h"
#include "framework/factory/generator.h"
#include "modules/module.h"
#include "optim/ema.h"
#include "optim/grad_scaler.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "optim/state_shards.h"

namespace taper::v0::runner {

// The length of a run in steps.
struct RunLength {
  int64_t steps = 0, per_epoch = 0;
};
RunLength length_of(const TrainConfig& config, int64_t batches_per_epoch);

// The model of a run and everything that updates it.
struct TrainingState {
  // Initializes the weights from the config's seed. The rates of the schedule are multiplied by
  // `lr_scale`, which may change later and must outlive the object. Throws the errors of
  // check_batches() if the model does not accept a batch size.
  TrainingState(const RunConfig& config, const DataInfo& data, RunLength length,
                const RunSizes& sizes, const distributed::Communicator& ranks,
                const double& lr_scale);
  TrainingState& operator=(TrainingState&&) = delete;  // neither copied nor moved

  // Loads the file of model.init into the model of a run that begins, and logs what was loaded.
  void load_init(const RunConfig& config);

  // Sets the learning rates of the step after `steps_done` steps.
  void step_schedule(int64_t steps_done);
  // Restores the learning rates that the schedule had when last_epoch() was `epoch`.
  void return_schedule_to(int64_t epoch);

  // Adds model.safetensors and optimizer.safetensors to a checkpoint. has_begun: a step was taken,
  // so that averages exist. is_snapshot: the tensors are copies on the host, so that later steps do
  // not change them. Copies of a GPU's tensors are asynchronous, in page-locked memory; the first
  // access to one waits for it. If the optimizer's state is sharded, every rank calls it.
  void save(Checkpoint& out, bool has_begun, bool is_snapshot = false);
  // Restores the state that save() has added. With a plateau schedule, the loaded learning rates
  // are multiplied by `lr_factor`.
  void load(const Checkpoint& checkpoint, bool has_begun, double lr_factor);

  std::unique_ptr<Module> model;
  Thawing thawing;  // of model
  std::vector<Tensor> params;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::optional<optim::StateShards> shards;  // distributed.shard_optimizer, on several ranks
  std::optional<optim::LRScheduler> schedule;
  std::optional<optim::ReduceLROnPlateau> plateau;
  std::optional<optim::GradScaler> scaler;  // with precision fp16
  std::optional<optim::EMA> ema;

 private:
  void add_ema(const TrainConfig& config);
  void add_schedule(const RunConfig& config, RunLength length, const double& lr_scale);

  const int64_t warmup_;  // steps
};

// A position in the training batches.
struct Position {
  int64_t epoch = 1, batch = 0;  // batches of this epoch that are done
  bool operator==(const Position&) const = default;
};

// The best value of a metric so far, the step of its evaluation, and the number of evaluations
// after it.
struct Best {
  std::optional<double> value{};
  int64_t step = 0, misses = 0;
};

// The progress of a run: state.json of a checkpoint.
struct RunState {
  int64_t step = 0;
  Position at{};
  PhiloxKey random{};
  uint64_t metrics_bytes = 0;             // size of metrics.jsonl
  std::optional<uint32_t> metrics_crc{};  // CRC-32 of these bytes
  Best best{};
  std::vector<Best> stopping{};  // of each goal of early stopping; the first one's `misses` is the
                                 // number of evaluations in which none has improved
  int64_t evaluations = 0;       // that early stopping has seen
  Metrics metrics{};             // of the last evaluation
  int64_t evaluated_step = 0;    // the step of the last evaluation; 0: there was none, or it is not
                                 // known
  double lr_scale = 1;           // halved by every rollback to a checkpoint
  int64_t rollbacks = 0, skipped = 0;
  std::string reason{};   // why the run ended before its last step; empty: it did not
  bool is_extra = false;  // a rollback uses the checkpoint only if all others are extra, too
  // The step is done, but not the evaluation and the other actions that follow it. A run that
  // continues from this state begins with these.
  bool is_unfinished = false;

  // Compares the last evaluation with the best one so far. If it is better, stores it in `so_far`
  // and returns true. Otherwise, or if the value is NaN, counts an evaluation without improvement.
  bool update_best(Best& so_far, const GoalConfig& goal) const;
  // Compares the last evaluation with the best ones for early stopping. Returns whether it is time
  // to stop.
  bool update_stopping(const EarlyStoppingConfig& config);
};

inline constexpr const char* kState = "state.json";

std::string to_json(const RunState& state);
// Parses the text that to_json() has written. Throws InputError for any other text, and for a
// position beyond the batches of an epoch.
RunState state_from_json(const std::string& text, int64_t batches_per_epoch);

}  // namespace taper::v0::runner
