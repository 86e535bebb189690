// What a run trains, and what moves its weights; in a checkpoint, model.safetensors and
// optimizer.safetensors.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "apps/runner/config/config.h"
#include "apps/runner/run/checkpoint.h"
#include "modules/module.h"
#include "optim/ema.h"
#include "optim/grad_scaler.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace taper::runner {

// In steps.
struct RunLength {
  int64_t steps = 0, per_epoch = 0;
};
RunLength length_of(const TrainConfig& config, int64_t batches_per_epoch);

struct Learner {
  // Draws the weights from the config's seed. `lr_scale` is a factor of the schedule's rates, which
  // may change meanwhile.
  Learner(const RunConfig& config, const DataInfo& data, Device device, RunLength length,
          const double& lr_scale);
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  // has_begun: a step was taken, so that there are averages.
  void save(Checkpoint& out, bool has_begun);
  // `lr_factor` is one of the rates that a plateau has reached.
  void load(const Checkpoint& checkpoint, bool has_begun, double lr_factor);

  std::unique_ptr<Module> model;
  std::vector<Tensor> params;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::optional<optim::LRScheduler> schedule;
  std::optional<optim::ReduceLROnPlateau> plateau;
  std::optional<optim::GradScaler> scaler;
  std::optional<optim::EMA> ema;
};

}  // namespace taper::runner
