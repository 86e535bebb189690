// What a checkpoint holds of a run, and going back to one.
#include <cmath>
#include <cstdint>

#include <nlohmann/json.hpp>

#include "apps/runner/run/errors.h"
#include "apps/runner/run/json.h"
#include "apps/runner/run/text.h"
#include "apps/runner/train/trainer.h"

namespace taper::runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kState = "state.json";

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

// JSON writes nan and infinity as null.
double number_of(const Json& json) { return json.is_null() ? NAN : json.get<double>(); }

}  // namespace

Checkpoint Trainer::checkpoint() {
  Checkpoint out;
  Tensors& rest = out.tensors[kOptimizer];
  add(rest, "optimizer.", optimizer_->state_dict());
  add(rest, "schedule.", schedule_->state_dict());
  if (plateau_) add(rest, "plateau.", plateau_->state_dict());
  if (scaler_) add(rest, "scaler.", scaler_->state_dict());
  Tensors& model = out.tensors[kModel];
  model = model_->state_dict();
  if (ema_ && step_ > 0) {
    // The file of the model holds what is evaluated, the averages.
    add(rest, "ema.", ema_->state_dict());
    for (auto& [name, x] : model) rest.push_back({"weights." + name, x.clone()});
    const optim::EMA::Scope averaged(*ema_);
    for (auto& [name, x] : model) x = x.clone();
  }
  metrics_bytes_ = metrics_.sync();
  out.texts = {{kState, state_json()},
               {"config.yaml", to_yaml(config_) + "\n"},
               {"data.json", to_json(data_)}};
  return out;
}

std::string Trainer::state_json() const {
  const auto json_of = [](const Best& b) {
    return Json{
        {"value", b.value ? Json(*b.value) : Json()}, {"step", b.step}, {"misses", b.misses}};
  };
  const PhiloxKey random = default_generator().state();
  Json metrics = Json::object();
  for (const auto& [name, x] : last_metrics_.values) metrics[name] = x;
  return Json{{"step", step_},
              {"epoch", epoch_},
              {"batch", batch_},
              {"random", {random.seed, random.stream}},
              {"metrics_bytes", metrics_bytes_},
              {"metrics_crc32", metrics_.crc()},
              {"best", json_of(best_)},
              {"early_stopping", json_of(stopping_)},
              {"metrics", metrics},
              {"confusion", last_metrics_.confusion},
              {"lr_scale", lr_scale_},
              {"rollbacks", rollbacks_},
              {"skipped", skipped_},
              {"reason", reason_},
              {"extra", is_extra_}}
             .dump(2) +
         "\n";
}

void Trainer::read_state(const std::string& text) try {
  check_json(text, kState);
  const Json json = Json::parse(text);
  const auto count = [](const Json& in, const char* key, int64_t least, int64_t most) {
    const Json& x = in.at(key);
    const bool fits = x.is_number_integer() && (!x.is_number_unsigned() || x <= INT64_MAX);
    if (fits && x >= least && x <= most) return x.get<int64_t>();
    throw InputError(cat(kState, ": expected '", key, "' from ", least, " to ", most, ", got ",
                         shown(x.dump(), 40)));
  };
  const auto best_of = [&](const Json& b) {
    Best best{{}, count(b, "step", 0, INT64_MAX), count(b, "misses", 0, INT64_MAX)};
    if (!b.at("value").is_null()) best.value = b.at("value").get<double>();
    return best;
  };
  step_ = count(json, "step", 0, INT64_MAX);
  epoch_ = count(json, "epoch", 1, INT64_MAX);
  batch_ = count(json, "batch", 0, batches_per_epoch_);
  default_generator().set_state({json.at("random").at(0), json.at("random").at(1)});
  metrics_bytes_ = uint64_t(count(json, "metrics_bytes", 0, INT64_MAX));
  metrics_crc_.reset();  // of an older version
  if (json.contains("metrics_crc32")) {
    metrics_crc_ = uint32_t(count(json, "metrics_crc32", 0, UINT32_MAX));
  }
  best_ = best_of(json.at("best"));
  stopping_ = best_of(json.at("early_stopping"));
  last_metrics_ = {};
  for (const auto& [name, x] : json.at("metrics").items()) {
    last_metrics_.values.push_back({name, number_of(x)});
  }
  json.at("confusion").get_to(last_metrics_.confusion);
  json.at("lr_scale").get_to(lr_scale_);
  rollbacks_ = count(json, "rollbacks", 0, INT64_MAX);
  skipped_ = count(json, "skipped", 0, INT64_MAX);
  json.at("reason").get_to(reason_);
} catch (const Json::exception&) {
  throw InputError(cat(kState, " is not of this version"));
}

void Trainer::load(const Checkpoint& checkpoint, std::optional<double> lr_scale) try {
  for (const char* name : {kModel, kOptimizer, kState}) {
    if (checkpoint.tensors.contains(name) || checkpoint.texts.contains(name)) continue;
    throw Error(cat("it has no ", name));
  }
  read_state(checkpoint.texts.at(kState));
  const double saved_scale = lr_scale_;
  lr_scale_ = lr_scale.value_or(saved_scale);
  const Tensors& rest = checkpoint.tensors.at(kOptimizer);
  const Tensors weights = part_of(rest, "weights.");
  model_->load_state_dict(weights.empty() ? checkpoint.tensors.at(kModel) : weights);
  optimizer_->load_state_dict(part_of(rest, "optimizer."));
  schedule_->load_state_dict(part_of(rest, "schedule."));
  if (plateau_) plateau_->load_state_dict(part_of(rest, "plateau."));
  for (size_t g = 0; plateau_ && g < optimizer_->num_groups(); ++g) {
    optimizer_->set_lr(g, optimizer_->lr(g) * (lr_scale_ / saved_scale));
  }
  if (scaler_) scaler_->load_state_dict(part_of(rest, "scaler."));
  if (ema_ && step_ > 0) ema_->load_state_dict(part_of(rest, "ema."));
  pending_.clear();
  bad_.zero_();
  reset_graph();
  is_placed_ = false;
  saved_step_ = step_;
} catch (const OutOfMemoryError&) {
  throw;
} catch (const Error& error) {
  throw InputError(
      cat("the checkpoint '", checkpoint.path.string(), "' cannot be used: ", error.what()));
}

void Trainer::save(bool is_best, bool is_extra) {
  const SpentScope spent(saving_);
  progress_.clear();
  is_extra_ = is_extra;
  if (saved_step_ != step_ || is_best) {
    save_checkpoint(dir_, step_, checkpoint(), config_.checkpoint.keep + is_extra, is_best);
  }
  saved_step_ = step_;
  saved_ = Clock::now();
}

void Trainer::roll_back() {
  std::optional<Checkpoint> target;
  for (const std::filesystem::path& path : list_checkpoints(dir_)) {
    if (!damage_of(path).empty()) continue;
    Checkpoint found = load_checkpoint(path);
    const Json state = Json::parse(found.texts[kState], nullptr, false);
    const bool is_extra = state.is_object() && state.contains("extra") && state["extra"] == true;
    if (!target || !is_extra) target = std::move(found);
    if (!is_extra) break;
  }
  if (!target)
    throw InputError(cat("no checkpoint is left in '", dir_.string(), "' to go back to"));
  const int64_t rollbacks = rollbacks_ + 1;
  load(*target, lr_scale_ / 2);
  rollbacks_ = rollbacks;
  metrics_.open(dir_ / "metrics.jsonl", metrics_bytes_, metrics_crc_);
}

}  // namespace taper::runner
