#include "apps/runner/train/state.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/components/components.h"
#include "apps/runner/config/json_reader.h"
#include "apps/runner/passes/preflight.h"
#include "apps/runner/settings/placement.h"
#include "framework/factory/factories.h"
#include "modules/layers/norm_layers.h"

namespace taper::v0::runner {
namespace {

constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";

using NamedTensors = std::vector<NamedTensor>;

std::unique_ptr<Module> seeded_model(const RunConfig& config, const DataInfo& data,
                                     const distributed::Communicator& ranks) {
  manual_seed(config.seed);
  std::unique_ptr<Module> model = build_placed_model(config, data, ranks.device());
  check_placement(config, *model, ranks.size());
  return model;
}

void add(NamedTensors& all, const std::string& prefix, const NamedTensors& part) {
  for (const auto& [name, tensor] : part) all.push_back({prefix + name, tensor});
}
NamedTensors part_of(const NamedTensors& all, const std::string& prefix) {
  NamedTensors part;
  for (const auto& [name, tensor] : all) {
    if (name.starts_with(prefix)) part.push_back({name.substr(prefix.size()), tensor});
  }
  return part;
}

// Returns a copy on the host, because a run may have to be saved after the GPU ran out of memory.
Tensor copy_on_host(const Tensor& x, bool non_blocking) {
  return x.is_cuda() ? x.to(DeviceType::kCpu, {.non_blocking = non_blocking}) : x.clone();
}
void copy_on_host(NamedTensors& all, bool non_blocking) {
  for (auto& [name, x] : all) x = copy_on_host(x, non_blocking);
}

// Calls f(prefix, object) for each object that has a state dict. The prefix precedes its names in
// the file.
template <class F> void each_part(TrainingState& t, F f) {
  if (t.shards) f("optimizer.", *t.shards);
  if (!t.shards) f("optimizer.", *t.optimizer);
  f("schedule.", *t.schedule);
  if (t.plateau) f("plateau.", *t.plateau);
  if (t.scaler) f("scaler.", *t.scaler);
}

using Json = nlohmann::ordered_json;

Json json_of(const Best& b) {
  return {{"value", b.value ? Json(*b.value) : Json()}, {"step", b.step}, {"misses", b.misses}};
}

int64_t count(const Json& in, const char* key, int64_t least = 0, int64_t most = INT64_MAX) {
  const Json& x = in.at(key);
  const bool fits = x.is_number_integer() && (!x.is_number_unsigned() || x <= INT64_MAX);
  if (fits && x >= least && x <= most) return x.get<int64_t>();
  throw InputError(concat_to_string(kState, ": expected '", key, "' from ", least, " to ", most,
                                    ", got ", escaped_for_display(x.dump(), 40)));
}

Best best_of(const Json& json) {
  Best best{{}, count(json, "step"), count(json, "misses")};
  if (!json.at("value").is_null()) best.value = json.at("value").get<double>();
  return best;
}

// Returns the number in `json`. NaN and infinity are written as null.
double number_of(const Json& json) { return json.is_null() ? NAN : json.get<double>(); }

}  // namespace

RunLength length_of(const TrainConfig& c, int64_t batches_per_epoch) {
  const int64_t per_epoch = (batches_per_epoch + c.accumulate - 1) / c.accumulate;
  return {c.steps ? *c.steps : *c.epochs * per_epoch, per_epoch};
}

TrainingState::TrainingState(const RunConfig& config, const DataInfo& data, RunLength length,
                             const RunSizes& sizes, const distributed::Communicator& ranks,
                             const double& lr_scale)
    : model(seeded_model(config, data, ranks)),
      thawing(*model, config.model),
      warmup_(config.schedule.warmup) {
  try_model(*model, config.model, data, ranks.device());
  if (config.distributed.sync_batch_norm) {
    require<ConfigError>(
        !config.train.shards,
        "distributed.sync_batch_norm: with train.shards each part has its own statistics, for any "
        "number of ranks; remove one of the two keys");
  }
  params = model->parameters();
  optimizer = build_optimizer(config.optimizer, optimizer_site(config.optimizer, *model));
  check_batches(*model, config, data, sizes, ranks.device());
  if (config.distributed.sync_batch_norm && ranks.size() > 1) sync_batch_norms(*model, ranks);
  if (config.distributed.shard_optimizer && ranks.size() > 1) shards.emplace(*optimizer, ranks);
  add_schedule(config, length, lr_scale);
  if (config.train.precision == Precision::kFp16) scaler.emplace();
  add_ema(config.train);
  thawing.go_to(1);
}

void TrainingState::add_ema(const TrainConfig& config) {
  if (!config.ema) return;
  ema.emplace(model->named_parameters(), optim::EMAOptions{.decay = config.ema->decay});
}

// The schedule is computed for the base rate. The rate of another group is in proportion to it, so
// that rates in the schedule's options, such as min_lr, are scaled, too.
void TrainingState::add_schedule(const RunConfig& config, RunLength length,
                                 const double& lr_scale) {
  const double base_rate = base_lr(*optimizer, config.optimizer);
  const optim::Schedule given = build_schedule(config.schedule, config.schedule.warmup,
                                               {base_rate, length.steps, length.per_epoch});
  auto plateau_options = plateau_of(config.schedule);
  std::vector<double> min_lrs;
  std::vector<optim::Schedule> schedules;
  for (size_t g = 0; g < optimizer->num_groups(); ++g) {
    const double factor = optimizer->lr(g) / base_rate;
    const auto scaled = [&lr_scale, given, factor](int64_t t, double base) {
      return lr_scale * (factor * given.lr(t, base / factor));
    };
    std::vector<double> base_lrs = given.base_lrs;
    for (double& lr : base_lrs) lr *= factor;
    schedules.push_back({scaled, base_lrs});
    if (plateau_options) min_lrs.push_back(plateau_options->min_lr.at(0) * factor);
  }
  schedule.emplace(*optimizer, std::move(schedules));
  if (!plateau_options) return;
  plateau_options->min_lr = min_lrs;
  plateau.emplace(*optimizer, *plateau_options);
}

void TrainingState::load_init(const RunConfig& config) {
  if (!config.model.init) return;
  runner::load_init(*model, config.model, config.data.base);
  ema.reset();
  add_ema(config.train);
}

void TrainingState::save(Checkpoint& out, bool has_begun, bool is_snapshot) {
  const bool has_averages = ema && has_begun;
  NamedTensors& rest = out.tensors[kOptimizer];
  each_part(*this, [&](const char* prefix, auto& part) { add(rest, prefix, part.state_dict()); });
  if (has_averages) add(rest, "ema.", ema->state_dict());
  if (is_snapshot) copy_on_host(rest, true);
  NamedTensors& weights = out.tensors[kModel];
  weights = model->state_dict();
  if (!has_averages) {
    if (is_snapshot) copy_on_host(weights, true);
    return;
  }
  // model.safetensors contains the weights that evaluations use, which are the averages.
  for (auto& [name, x] : weights) rest.push_back({"weights." + name, copy_on_host(x, is_snapshot)});
  const optim::EMA::Guard averaged(*ema);
  copy_on_host(weights, is_snapshot);
}

// Sets the rates of the schedule. A plateau schedule changes the rates itself once the warmup is
// over.
void TrainingState::step_schedule(int64_t steps_done) {
  if (steps_done > 0 && (!plateau || steps_done <= warmup_)) schedule->step();
}

void TrainingState::return_schedule_to(int64_t epoch) {
  if (schedule->last_epoch() == epoch) return;
  NamedTensors state = schedule->state_dict();
  for (auto& [name, x] : state) {
    if (name == "last_epoch") x = tensor(epoch);
  }
  schedule->load_state_dict(state);
}

void TrainingState::load(const Checkpoint& checkpoint, bool has_begun, double lr_factor) {
  const NamedTensors& rest = checkpoint.tensors.at(kOptimizer);
  const NamedTensors weights = part_of(rest, "weights.");
  model->load_state_dict(weights.empty() ? checkpoint.tensors.at(kModel) : weights);
  each_part(*this,
            [&](const char* prefix, auto& part) { part.load_state_dict(part_of(rest, prefix)); });
  for (size_t g = 0; plateau && g < optimizer->num_groups(); ++g) {
    optimizer->set_lr(g, optimizer->lr(g) * lr_factor);
  }
  if (ema && has_begun) ema->load_state_dict(part_of(rest, "ema."));
}

bool RunState::update_best(Best& so_far, const GoalConfig& goal) const {
  const double x = metrics[goal.metric];
  const bool better = !so_far.value || (goal.is_max() ? x > *so_far.value : x < *so_far.value);
  if (better && !std::isnan(x)) return so_far = {x, step, 0}, true;
  return ++so_far.misses, false;
}

bool RunState::update_stopping(const EarlyStoppingConfig& config) {
  const std::vector<GoalConfig> goals = config.goals_to_watch();
  stopping.resize(goals.size());
  const int64_t misses = stopping[0].misses;
  bool has_improved = false;
  for (size_t i = 0; i < goals.size(); ++i)
    has_improved = update_best(stopping[i], goals[i]) || has_improved;
  const bool counts = ++evaluations > config.start_after && !has_improved;
  stopping[0].misses = counts ? misses + 1 : 0;
  return stopping[0].misses >= config.patience;
}

std::string to_json(const RunState& s) {
  const Best first = s.stopping.empty() ? Best() : s.stopping[0];
  Json also = Json::array();
  for (size_t i = 1; i < s.stopping.size(); ++i) also.push_back(json_of(s.stopping[i]));
  Json metrics = Json::object();
  for (const auto& [name, x] : s.metrics.values) metrics[name] = x;
  return Json{{"step", s.step},
              {"epoch", s.at.epoch},
              {"batch", s.at.batch},
              {"random", {s.random.seed, s.random.stream}},
              {"metrics_bytes", s.metrics_bytes},
              {"metrics_crc32", s.metrics_crc.value_or(0)},
              {"best", json_of(s.best)},
              {"early_stopping", json_of(first)},
              {"early_stopping_also", also},
              {"evaluations", s.evaluations},
              {"metrics", metrics},
              {"confusion", s.metrics.confusion},
              {"lr_scale", s.lr_scale},
              {"rollbacks", s.rollbacks},
              {"skipped", s.skipped},
              {"reason", s.reason},
              {"extra", s.is_extra},
              {"unfinished", s.is_unfinished},
              {"evaluated_step", s.evaluated_step}}
             .dump(2) +
         "\n";
}

RunState state_from_json(const std::string& text, int64_t batches_per_epoch) try {
  const auto json = json_value<Json>(text, kState);
  RunState s;
  s.step = count(json, "step");
  s.at = {count(json, "epoch", 1), count(json, "batch", 0, batches_per_epoch)};
  s.random = {json.at("random").at(0), json.at("random").at(1)};
  s.metrics_bytes = uint64_t(count(json, "metrics_bytes"));
  if (json.contains("metrics_crc32")) {  // older versions do not write it
    s.metrics_crc = uint32_t(count(json, "metrics_crc32", 0, UINT32_MAX));
  }
  s.best = best_of(json.at("best"));
  s.stopping = {best_of(json.at("early_stopping"))};
  for (const Json& each : json.value("early_stopping_also", Json::array()))
    s.stopping.push_back(best_of(each));
  s.evaluations = json.contains("evaluations") ? count(json, "evaluations") : 0;
  for (const auto& [name, x] : json.at("metrics").items()) {
    s.metrics.values.push_back({name, number_of(x)});
  }
  json.at("confusion").get_to(s.metrics.confusion);
  json.at("lr_scale").get_to(s.lr_scale);
  s.rollbacks = count(json, "rollbacks");
  s.skipped = count(json, "skipped");
  json.at("reason").get_to(s.reason);
  s.is_extra = json.value("extra", false);
  s.is_unfinished = json.value("unfinished", false);
  s.evaluated_step = json.contains("evaluated_step") ? count(json, "evaluated_step") : 0;
  return s;
} catch (const Json::exception&) {
  throw InputError(concat_to_string(kState, " was not written by this version"));
}

}  // namespace taper::v0::runner
