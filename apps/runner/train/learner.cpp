#include "apps/runner/train/learner.h"

#include "apps/runner/train/model.h"
#include "apps/runner/train/optimizer.h"
#include "apps/runner/train/schedule.h"
#include "framework/random.h"

namespace taper::runner {
namespace {

constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";

using Tensors = std::vector<NamedTensor>;

void add(Tensors& all, const std::string& prefix, const Tensors& part) {
  for (const auto& [name, tensor] : part) all.push_back({prefix + name, tensor});
}
Tensors part_of(const Tensors& all, const std::string& prefix) {
  Tensors part;
  for (const auto& [name, tensor] : all) {
    if (name.starts_with(prefix)) part.push_back({name.substr(prefix.size()), tensor});
  }
  return part;
}

// What has a state of its own, with its prefix in the file.
template <class F> void each_part(Learner& l, F f) {
  f("optimizer.", *l.optimizer);
  f("schedule.", *l.schedule);
  if (l.plateau) f("plateau.", *l.plateau);
  if (l.scaler) f("scaler.", *l.scaler);
}

}  // namespace

RunLength length_of(const TrainConfig& c, int64_t batches_per_epoch) {
  const int64_t per_epoch = (batches_per_epoch + c.accumulate - 1) / c.accumulate;
  return {c.steps ? *c.steps : *c.epochs * per_epoch, per_epoch};
}

Learner::Learner(const RunConfig& config, const DataInfo& data, Device device, RunLength length,
                 const double& lr_scale) {
  manual_seed(config.seed);
  model = build_model(config.model, data, device);
  params = model->parameters();
  optimizer = build_optimizer(config.optimizer, *model);
  const optim::Schedule given =
      build_schedule(config.schedule, optimizer->lr(), length.steps, length.per_epoch);
  const auto scaled = [&lr_scale, given](int64_t t, double base) {
    return lr_scale * given.lr(t, base);
  };
  schedule.emplace(*optimizer, optim::Schedule{scaled, given.base_lrs});
  if (const auto options = plateau_of(config.schedule)) plateau.emplace(*optimizer, *options);
  if (config.train.precision == Precision::kFp16) scaler.emplace();
  if (config.train.ema) {
    ema.emplace(model->named_parameters(), optim::EMAOptions{.decay = config.train.ema->decay});
  }
}

void Learner::save(Checkpoint& out, bool has_begun) {
  Tensors& rest = out.tensors[kOptimizer];
  each_part(*this, [&](const char* prefix, auto& part) { add(rest, prefix, part.state_dict()); });
  Tensors& weights = out.tensors[kModel];
  weights = model->state_dict();
  if (!ema || !has_begun) return;
  // The file of the model holds what is evaluated, the averages.
  add(rest, "ema.", ema->state_dict());
  for (auto& [name, x] : weights) rest.push_back({"weights." + name, x.clone()});
  const optim::EMA::Scope averaged(*ema);
  for (auto& [name, x] : weights) x = x.clone();
}

void Learner::load(const Checkpoint& checkpoint, bool has_begun, double lr_factor) {
  const Tensors& rest = checkpoint.tensors.at(kOptimizer);
  const Tensors weights = part_of(rest, "weights.");
  model->load_state_dict(weights.empty() ? checkpoint.tensors.at(kModel) : weights);
  each_part(*this,
            [&](const char* prefix, auto& part) { part.load_state_dict(part_of(rest, prefix)); });
  for (size_t g = 0; plateau && g < optimizer->num_groups(); ++g) {
    optimizer->set_lr(g, optimizer->lr(g) * lr_factor);
  }
  if (ema && has_begun) ema->load_state_dict(part_of(rest, "ema."));
}

}  // namespace taper::runner
