#include "apps/runner/settings/run_config.h"

#include <algorithm>
#include <functional>
#include <ranges>
#include <system_error>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/components/components.h"
#include "apps/runner/components/normalized_source.h"
#include "framework/cuda/cuda.h"

namespace taper::v0::runner {

namespace {

bool is_threshold(const std::string& text) { return ThresholdRule::from(text).has_value(); }

bool is_file_name(const std::string& text) {
  return !text.empty() && text != "." && text != ".." && text.size() <= 100 &&
         std::ranges::none_of(text, [](char c) { return c == '/' || is_control(c); });
}

bool is_device(const std::string& text) { return text == "auto" || is_device_name(text); }

}  // namespace

std::unique_ptr<data::Source> source_of(const DataConfig& config) {
  return with_normalization(build_source(config, config.base), config.transforms);
}

std::optional<Task> task_of(const DataConfig& config) {
  return data_types().make(config)->learns();
}

OptimizerSite optimizer_site(const OptimizerConfig& config, Module& model) {
  OptimizerSite site{model, config.no_decay};
  for (const auto& [pattern, text] : config.lr_by_part) {
    double lr = 0;
    (void)parse_number(text, lr);
    site.lr_by_part[pattern] = lr;
  }
  return site;
}

double base_lr(const optim::Optimizer& optimizer, const OptimizerConfig& config) {
  return config.lr_by_part.empty() ? optimizer.lr() : lr_of(config);
}

std::string rates_text(const OptimizerConfig& config) {
  if (config.lr_by_part.empty()) return "";
  std::string out = "learning rates: ";
  for (const auto& [pattern, text] : config.lr_by_part) {
    double rate = 0;
    (void)parse_number(text, rate);
    out += concat_to_string(rate, " for ", pattern, ", ");
  }
  return concat_to_string(out, lr_of(config), " for all others");
}

Place place_of(const RunConfig& config, std::string path) {
  while (true) {
    const auto found = config.places.find(path);
    if (found != config.places.end()) return found->second;
    const size_t dot = path.rfind('.');
    if (dot == path.npos) return {};
    path.erase(dot);
  }
}

std::vector<std::string> metrics_of(const RunConfig& config, Task task) {
  if (!config.metrics.empty()) return config.metrics;
  if (config.data.type == "series") return {"mae", "smape", "mase"};
  switch (task) {
    case Task::kClassification: return {"accuracy"};
    case Task::kRegression: return {"mae", "rmse", "r2"};
    default: return {"perplexity"};
  }
}

bool GoalConfig::is_max() const {
  if (mode != Mode::kAuto) return mode == Mode::kMax;
  return is_better_when_greater(metric);
}

std::vector<GoalConfig> EarlyStoppingConfig::goals_to_watch() const {
  std::vector<GoalConfig> out = {*this};
  for (const std::string& name : also) out.push_back({.metric = name});
  return out;
}

GoalConfig best_goal(const TrainConfig& c) {
  if (c.best) return *c.best;
  return c.early_stopping ? GoalConfig(*c.early_stopping) : GoalConfig();
}

std::optional<ThresholdRule> ThresholdRule::from(const std::string& text) {
  const auto& words = data::DecisionScore::kWords;
  if (std::ranges::find(words, text) != std::end(words)) return ThresholdRule{.score = text};
  double value = 0;
  const bool is_number = parse_number(text, value) == std::errc() && value >= 0 && value <= 1;
  return is_number ? std::optional(ThresholdRule{.probability = value}) : std::nullopt;
}

std::optional<double> seconds_of(const std::string& time) {
  const std::size_t unit = std::string_view("smhd").find(time.empty() ? ' ' : time.back());
  const bool has_unit = unit != std::string::npos;
  double number = 0;
  const std::string_view digits = std::string_view(time).substr(0, time.size() - has_unit);
  if (parse_number(digits, number) != std::errc() || !(number > 0 && number < 1e9)) return {};
  return number * std::array{1, 60, 3600, 86400}[has_unit ? unit : 0];
}

bool is_log_file_name(const std::string& text) {
  static constexpr std::string_view kTaken[] = {
      "CRC32",        "checkpoints",     "config.yaml",       "data.json",
      "env.json",     "evaluation.json", "exit.json",         "history.json",
      "lr_find.json", "metrics.jsonl",   "model.safetensors", "run.lock",
      "samples.txt",  "timing.jsonl",    "trace.json"};
  return is_file_name(text) && std::ranges::count(kTaken, text) == 0;
}

using Names = std::vector<std::string>;

static EarlyStoppingConfig stopping_of(const RunConfig& c) {
  return c.train.early_stopping.value_or(EarlyStoppingConfig());
}

// Returns the rules about parts that fit some tasks only. They hold while the task is unknown.
// `task` is called when a rule is checked.
static std::vector<Rule> fit_rules(const RunConfig& c,
                                   const std::function<std::optional<Task>()>& task) {
  const auto fits_task = [task](const std::function<bool(Task)>& fits) {
    return [task, fits] {
      const std::optional<Task> known = task();
      return !known || fits(*known);
    };
  };
  const auto are_measured = [&c, fits_task](const std::function<Names()>& goals) {
    return fits_task([&c, goals](Task known) {
      const Names all = metrics_of(c, known);
      return std::ranges::all_of(goals(), [&](const std::string& metric) {
        return metric == "loss" || std::ranges::count(all, metric) > 0;
      });
    });
  };
  constexpr const char* kMeasured = "is not measured; add it to 'metrics'";
  return {
      {"loss.type",
       "does not fit the data: cross_entropy is for classes and text; bce, bce_with_logits, "
       "multi_margin and soft_margin are for classes; multilabel_margin and "
       "multilabel_soft_margin are for several labels; mse, l1, huber and poisson_nll are for "
       "'task: regression'",
       fits_task([&c](Task known) { return fits(c.loss, known) || fits(c.loss, known, true); })},
      {"metrics",
       "not all fit the data: accuracy, top3 and top5 are for classes and text; mae, rmse, r2, "
       "mape, smape and mase for values ('task: regression'); perplexity and bpc for text; all "
       "others for classes",
       fits_task([&c](Task known) {
         return std::ranges::all_of(c.metrics, [known](const std::string& name) {
           return std::ranges::count(metric(name).tasks, known) > 0;
         });
       })},
      {"train.best.metric", kMeasured,
       are_measured([&c] { return Names{c.train.best.value_or(GoalConfig()).metric}; })},
      {"train.early_stopping.metric", kMeasured,
       are_measured([&c] { return Names{stopping_of(c).metric}; })},
      {"train.early_stopping.also", kMeasured, are_measured([&c] { return stopping_of(c).also; })},
      {"schedule.metric", kMeasured,
       are_measured([&c] { return Names{metric_of(c.schedule).value_or("loss")}; })}};
}

// Throws ConfigError if the loss or a metric is not for several labels.
static void require_labels_fit(const RunConfig& config) {
  constexpr std::string_view kOfOneTarget[] = {
      "confusion", "top3", "top5", "precision_weighted", "recall_weighted", "f1_weighted"};
  for (const std::string& name : config.metrics) {
    if (std::ranges::count(kOfOneTarget, name) == 0) continue;
    throw ConfigError(located(place_of(config, "metrics"),
                              concat_to_string("metrics: ", name,
                                               " is for one target; others, such as f1, are "
                                               "measured for each label")));
  }
  if (fits(config.loss, Task::kClassification, true)) return;
  throw ConfigError(located(place_of(config, "loss.type"),
                            concat_to_string("loss.type: ", config.loss.type,
                                             " is for one target; several labels take "
                                             "bce_with_logits, bce, soft_margin, multilabel_margin "
                                             "or multilabel_soft_margin")));
}

// Throws ConfigError if the loss is for several labels only.
static void require_one_target_fits(const RunConfig& config) {
  constexpr Task kTask = Task::kClassification;
  if (fits(config.loss, kTask) || !fits(config.loss, kTask, true)) return;
  throw ConfigError(located(place_of(config, "loss.type"),
                            concat_to_string("loss.type: ", config.loss.type,
                                             " is for several labels; one target takes "
                                             "cross_entropy, multi_margin or soft_margin")));
}

void require_fit(const RunConfig& config, const data::DataInfo& data) {
  constexpr std::string_view kWeighted[] = {"auto", "cross_entropy", "multi_margin"};
  const bool takes_weights = std::ranges::count(kWeighted, config.loss.type) > 0;
  if (!data.class_weights.empty() && !takes_weights) {
    throw ConfigError(located(
        place_of(config, "loss.type"),
        concat_to_string("loss.type: ", config.loss.type,
                         " takes no weights of classes; use cross_entropy or multi_margin, or "
                         "`balance: oversample`")));
  }
  if (!data.labels.empty()) {
    require_labels_fit(config);
  } else if (data.task == Task::kClassification) {
    require_one_target_fits(config);
  }
  if (config.train.sample_every > 0 && data.task != data::Task::kLanguage) {
    throw ConfigError(located(place_of(config, "train.sample_every"),
                              "train.sample_every: only language models generate text"));
  }
  if (data.series == nullptr && std::ranges::count(config.metrics, "mase") > 0) {
    throw ConfigError(located(place_of(config, "metrics"),
                              "metrics: mase is for series, whose errors it compares with those of "
                              "a naive forecast"));
  }
  for (const Rule& rule : fit_rules(config, [&] { return std::optional(data.task); })) {
    if (rule.holds()) continue;
    throw ConfigError(
        located(place_of(config, rule.key), concat_to_string(rule.key, ": ", rule.requirement)));
  }
}

static void add_model_rules(Schema& v, const RunConfig& c) {
  v.rules.push_back({"model.map", "renames the tensors of a file: give model.init, too",
                     [&c] { return c.model.map.empty() || c.model.init; }});
  v.rules.push_back({"model.unfreeze", "needs model.freeze, which names what is frozen at first",
                     [&c] { return c.model.unfreeze.empty() || !c.model.freeze.empty(); }});
  v("model.placement",
    "cannot be used with train.shards, which computes the parts of a batch on one device",
    [&c] { return c.model.placement.empty() || !c.train.shards; });
}

Schema describe(RunConfig& c) {
  Schema v;
  v("name", c.name, "name of the run and of its directory")
      .of_form("a name fit for a directory, without '/' and control characters", is_file_name);
  v("seed", c.seed, "seed of initial weights, sample order and dropout");
  v("device", c.device, "device to train on; auto: a GPU if there is one")
      .of_form(concat_to_string("auto, cpu, cuda or cuda:N with N from 0 to ", Device::kMaxIndex),
               is_device);
  v("visible_devices", c.visible_devices, "GPUs that the run may use, such as \"0\" or \"1,2\"")
      .of_form(
          "GPU numbers joined by commas, such as \"0\" or \"1,2\", each once and without spaces",
          cuda::is_visible_devices);
  v("threads", c.threads, {0, kMaxThreads}, "CPU threads; 0: all");
  v("include", c.include, kPath, "base files; values in this file override theirs");
  v("data", c.data, data_types(), "training and test data").required().implied_by_path();
  v("model", c.model, models(),
    "model to train; default: gpt for text, tabular for tables, forecaster for series, convnet for "
    "image files, cnn for other images, otherwise mlp");
  v("loss", c.loss, losses(), "training objective");
  v("optimizer", c.optimizer, optimizers(), "optimizer; default: adamw");
  v("schedule", c.schedule, schedules(), "learning rate schedule");
  v("train", c.train, "length and options of training").required();
  v("checkpoint", c.checkpoint, "when checkpoints are saved");
  v("log", c.log, "log messages");
  v("distributed", c.distributed, "options for several ranks");
  v("metrics", c.metrics, metric_types().names(),
    "metrics of evaluations; default: the usual ones for the task");
  v("threshold", c.threshold,
    "two classes: probability of the second class from which on it is the prediction; f1, accuracy "
    "and balanced_accuracy choose the best one on the validation part; default: 0.5")
      .of_form("f1, accuracy, balanced_accuracy or a number from 0 to 1", is_threshold);
  if (!callbacks().rows().empty()) v("callbacks", c.callbacks, callbacks(), "callbacks of the run");
  v.rules = fit_rules(c, [&c] { return task_of(c.data); });
  add_model_rules(v, c);
  return v;
}

}  // namespace taper::v0::runner
