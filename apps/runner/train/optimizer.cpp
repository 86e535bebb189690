#include "apps/runner/train/optimizer.h"

#include <algorithm>

#include <spdlog/spdlog.h>

#include "apps/runner/run/errors.h"

namespace taper::runner {
namespace {

using Rules = std::vector<optim::GroupRule>;

// Those of `no_decay: true`, where there is something that they match.
Rules rules_for(bool no_decay, const std::vector<NamedTensor>& params) {
  const auto is_vector = [](const NamedTensor& p) { return p.tensor.dim() < 2; };
  return no_decay && std::ranges::any_of(params, is_vector) ? Rules{optim::no_decay()} : Rules{};
}

// Names of the weights that Muon is for: matrices of linear layers but the last.
std::vector<std::string> hidden_weights(Module& model) {
  std::vector<std::string> names;
  for (const auto& [path, module] : model.named_modules()) {
    if (module->type_name() == "Linear")
      names.push_back(cat(path, path.empty() ? "" : ".", "weight"));
  }
  if (!names.empty()) names.pop_back();
  return names;
}

std::unique_ptr<optim::Optimizer> build_muon(const OptimizerConfig& config, Module& model) {
  const std::vector<std::string> names = hidden_weights(model);
  std::vector<NamedTensor> hidden, rest;
  for (const NamedTensor& p : model.named_parameters()) {
    (std::ranges::count(names, p.name) > 0 ? hidden : rest).push_back(p);
  }
  if (hidden.empty()) {
    throw ConfigError(
        "optimizer 'muon' is for the weights of linear layers but the last, of which "
        "this model has none: take adamw");
  }
  const optim::MuonOptions& o = config.muon;
  auto muon = std::make_unique<optim::Muon>(hidden, o);
  const optim::AdamWOptions adamw{
      .lr = o.lr, .weight_decay = o.weight_decay, .master_weights = o.master_weights};
  if (!rest.empty()) muon->add_param_group(rest, adamw, rules_for(config.no_decay, rest));
  return muon;
}

}  // namespace

std::unique_ptr<optim::Optimizer> build_optimizer(const OptimizerConfig& config, Module& model) {
  const std::vector<NamedTensor> params = model.named_parameters();
  if (params.empty()) throw ConfigError("the model has no parameters to train");
  const Rules rules = rules_for(config.no_decay, params);
  switch (config.type) {
    case OptimizerType::kAdam: return std::make_unique<optim::Adam>(params, config.adam, rules);
    case OptimizerType::kAdamW: return std::make_unique<optim::AdamW>(params, config.adamw, rules);
    case OptimizerType::kAdagrad:
      return std::make_unique<optim::Adagrad>(params, config.adagrad, rules);
    case OptimizerType::kAdadelta:
      return std::make_unique<optim::Adadelta>(params, config.adadelta, rules);
    case OptimizerType::kRmsProp:
      return std::make_unique<optim::RMSprop>(params, config.rmsprop, rules);
    case OptimizerType::kLion: return std::make_unique<optim::Lion>(params, config.lion, rules);
    case OptimizerType::kMuon: return build_muon(config, model);
    default: return std::make_unique<optim::SGD>(params, config.sgd, rules);
  }
}

namespace {

// What the config says, in its own units (steps or epochs) and without the warm-up; `rest` is what
// that leaves of the run.
optim::Schedule without_warmup(const ScheduleConfig& c, double lr, int64_t rest) {
  namespace schedule = optim::schedule;
  const int64_t total = c.total_iters.value_or(rest);
  switch (c.type) {
    case ScheduleType::kLinear:
      return {[total, from = c.start_factor, to = c.end_factor](int64_t t, double base) {
        return base * (from + (to - from) * double(std::min(t, total)) / double(total));
      }};
    case ScheduleType::kStep: return schedule::step(c.step_size, c.gamma);
    case ScheduleType::kMultiStep: return schedule::multi_step(c.milestones, c.gamma);
    case ScheduleType::kExponential: return schedule::exponential(c.gamma);
    case ScheduleType::kPolynomial: return schedule::polynomial(total, c.power);
    case ScheduleType::kCosineRestarts:
      return schedule::cosine_annealing_warm_restarts(c.t_0, c.t_mult, c.min_lr);
    case ScheduleType::kCosine: {
      // Stays at the end, where PyTorch's would rise again.
      const optim::Schedule cosine = schedule::cosine_annealing(total, c.min_lr);
      return {[=](int64_t t, double base) { return cosine.lr(std::min(t, total), base); }};
    }
    case ScheduleType::kOneCycle: {
      optim::schedule::OneCycleOptions o = c.one_cycle;
      o.max_lr = {c.max_lr.value_or(lr)};
      o.total_steps = total;
      optim::Schedule cycle = schedule::one_cycle(o);
      return {[=](int64_t t, double base) { return cycle.lr(std::min(t, total - 1), base); },
              cycle.base_lrs};
    }
    default: return schedule::constant(1);
  }
}

}  // namespace

optim::Schedule build_schedule(const ScheduleConfig& config, double lr, int64_t total_steps,
                               int64_t steps_per_epoch) {
  const int64_t unit = config.per == Per::kEpoch ? std::max<int64_t>(steps_per_epoch, 1) : 1;
  if (config.warmup >= total_steps && config.warmup > 0) {
    spdlog::warn("schedule.warmup has {} steps and the run {}: the learning rate never reaches {}",
                 config.warmup, total_steps, lr);
  }
  const int64_t rest = std::max<int64_t>(total_steps - config.warmup, 1);
  const optim::Schedule inner = without_warmup(config, lr, (rest + unit - 1) / unit);
  const optim::Schedule in_steps{[=](int64_t t, double base) { return inner.lr(t / unit, base); },
                                 inner.base_lrs};
  if (config.warmup == 0) return in_steps;
  return optim::schedule::warm_up(config.warmup, in_steps, 1 / double(config.warmup + 1));
}

std::optional<optim::PlateauOptions> plateau_of(const ScheduleConfig& config) {
  if (config.type != ScheduleType::kPlateau) return std::nullopt;
  optim::PlateauOptions o = config.plateau;
  o.min_lr = {config.min_lr};
  if (GoalConfig{config.metric}.is_max()) o.mode = optim::PlateauOptions::Mode::max;
  return o;
}

}  // namespace taper::runner
