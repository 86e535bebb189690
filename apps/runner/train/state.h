// What a checkpoint holds of a run: what learns (model.safetensors, optimizer.safetensors), and
// where it is (state.json).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/run/checkpoint.h"
#include "apps/runner/settings/run_config.h"
#include "apps/runner/train/batches.h"
#include "apps/runner/train/evaluate.h"
#include "framework/factory/generator.h"
#include "modules/module.h"
#include "optim/ema.h"
#include "optim/grad_scaler.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "optim/state_shards.h"

namespace taper::v0::runner {

// In steps.
struct RunLength {
  int64_t steps = 0, per_epoch = 0;
};
RunLength length_of(const TrainConfig& config, int64_t batches_per_epoch);

// What a run trains, and what moves its weights.
struct Learner {
  // Draws the weights from the config's seed. `lr_scale` is a factor of the schedule's rates, which
  // may change meanwhile. Throws as check_batches does for sizes that the model does not take.
  Learner(const RunConfig& config, const DataInfo& data, RunLength length, const RunSizes& sizes,
          const distributed::Communicator& ranks, const double& lr_scale);
  Learner& operator=(Learner&&) = delete;  // neither copied nor moved

  // has_begun: a step was taken, so that there are averages. Where the state is in shards all ranks
  // call it.
  void save(Checkpoint& out, bool has_begun);
  // `lr_factor` is one of the rates that a plateau has reached.
  void load(const Checkpoint& checkpoint, bool has_begun, double lr_factor);
  // Takes the schedule and the learning rates back to where last_epoch() was `epoch`.
  void return_schedule_to(int64_t epoch);

  std::unique_ptr<Module> model;
  std::vector<Tensor> params;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::optional<optim::StateShards> shards;
  std::optional<optim::LRScheduler> schedule;
  std::optional<optim::ReduceLROnPlateau> plateau;
  std::optional<optim::GradScaler> scaler;
  std::optional<optim::EMA> ema;
};

// Of the batches of training.
struct Position {
  int64_t epoch = 1, batch = 0;  // batches of this epoch that are done
  bool operator==(const Position&) const = default;
};

// The best value of a metric so far, and the evaluations since.
struct Best {
  std::optional<double> value{};
  int64_t step = 0, misses = 0;
};

struct RunState {
  int64_t step = 0;
  Position at{};
  PhiloxKey random{};
  uint64_t metrics_bytes = 0;  // of metrics.jsonl
  std::optional<uint32_t> metrics_crc{};
  Best best{}, stopping{};
  Metrics metrics{};           // of the last evaluation
  int64_t evaluated_step = 0;  // after which that was; 0: there was none, or it is not known
  double lr_scale = 1;         // halved with every return to a checkpoint
  int64_t rollbacks = 0, skipped = 0;
  std::string reason{};   // of an end before the last step
  bool is_extra = false;  // of a checkpoint that is none to go back to
  // The step is done, but the evaluation and whatever else may follow it is not: a run that goes
  // on from here begins with that.
  bool is_unfinished = false;

  // Whether the last evaluation's is the best value so far, which is then kept.
  bool note(Best& so_far, const GoalConfig& goal) const;
};

inline constexpr const char* kState = "state.json";

std::string to_json(const RunState& state);
// InputError: not what to_json() gave, or beyond the batches of an epoch.
RunState state_from_json(const std::string& text, int64_t batches_per_epoch);

}  // namespace taper::v0::runner
