#include "apps/runner/config/config.h"

#include <algorithm>
#include <ranges>

#include "apps/runner/config/schema.h"
#include "apps/runner/run/errors.h"
#include "apps/runner/run/text.h"
#include "apps/runner/train/evaluate.h"
#include "framework/cuda.h"
#include "framework/device.h"
#include "framework/threads.h"

namespace taper::runner {

using data::Task;

namespace {

constexpr double kMaxSamples = 10'000'000;
constexpr Range kSamples{1, kMaxSamples};
constexpr Range kThreads{0, kMaxThreads};

// For a text of any form but none.
bool is_given(const std::string& text) { return !text.empty(); }

Schema describe(GoalConfig& c) {
  Schema s;
  s.field("metric", &c.metric, "of the evaluations: loss or one of metrics").one_of(goals());
  s.field("mode", choice(c.mode, {"auto", "min", "max"}), "what is better; auto knows");
  return s;
}

Schema describe(EarlyStoppingConfig& c) {
  Schema s = describe(static_cast<GoalConfig&>(c));
  s.field("patience", &c.patience, "evaluations that may pass without a better value", kCount);
  return s;
}

Schema describe(EmaConfig& c) {
  Schema s;
  s.field("decay", &c.decay, "part of the average that is kept each step", kBelowOne);
  return s;
}

Schema describe(ProfileConfig& c) {
  Schema s;
  s.field("steps", std::span<int64_t>(c.steps), "the first and the last step", kCount);
  s.rules = {
      {"steps", "the first comes after the last", [&c] { return c.steps[0] <= c.steps[1]; }}};
  return s;
}

bool is_time(const std::string& text) { return seconds_of(text).has_value(); }
constexpr const char* kTime = "a time such as 90 (seconds), \"30m\" or \"1.5h\"";

Schema describe(TrainConfig& c) {
  Schema s;
  s.field("epochs", &c.epochs, "passes over the training set; this or steps", kCount);
  s.field("steps", &c.steps, "steps after which the run ends; this or epochs", kCount);
  s.field("batch_size", &c.batch_size, "samples a batch", kSamples);
  s.field("shuffle", &c.shuffle, "a new order of the samples in every epoch");
  s.field("accumulate", &c.accumulate, "batches a step", {1, 1 << 20});
  s.field("clip_norm", &c.clip_norm, "largest norm of all gradients together", kPositive);
  s.field("clip_value", &c.clip_value, "largest size of each gradient's elements", kPositive);
  s.field("precision", choice(c.precision, {"fp32", "tf32", "bf16", "fp16"}),
          "of the matrix products; weights stay float32");
  s.field("ema", optional_section(c.ema, describe),
          "evaluate and save a moving average of the weights");
  s.field("log_every", &c.log_every, "steps between two lines of metrics", kCount);
  s.field("eval_every", &c.eval_every, "steps between two evaluations; 0: each epoch",
          kCountOrNone);
  s.field("eval_batches", &c.eval_batches, "random batches an evaluation; 0: the whole split",
          kCountOrNone);
  s.field("eval_batch_size", &c.eval_batch_size, "samples a batch of evaluation", kSamples);
  s.field("early_stopping", optional_section(c.early_stopping, describe),
          "end when nothing gets better");
  s.field("best", describe(c.best), "which evaluation's weights are kept as best");
  s.field("time_limit", &c.time_limit, "save and end after this time").of_form(kTime, is_time);
  s.field("on_nan", choice(c.on_nan, {"stop", "skip", "rollback"}),
          "what to do when a loss or gradient is not finite");
  s.field("graph", choice(c.graph, {"auto", "on", "off"}),
          "on a GPU, capture the step once and replay it; auto: but for custom models, whose "
          "forward must do the same each time");
  s.field("profile", optional_section(c.profile, describe),
          "trace some steps into trace.json, for ui.perfetto.dev; they run without a graph");
  s.field("tensorboard", &c.tensorboard, "write TensorBoard's event file too");
  s.rules = {
      {"steps",
       "give either epochs or steps, not both; 'epochs: null' (train.epochs=null) takes it back",
       [&c] { return !(c.epochs && c.steps); }},
      {"epochs", "give the run's length: 'epochs: 5' or 'steps: 1000'",
       [&c] { return c.epochs || c.steps; }},
      {"clip_value", "clip either clip_norm or clip_value, not both",
       [&c] { return !(c.clip_norm && c.clip_value); }}};
  return s;
}

Schema describe(CheckpointConfig& c) {
  Schema s;
  s.field("every", &c.every,
          "steps between two checkpoints; 0: each epoch; without it the interval says when, or "
          "each epoch where train.on_nan is rollback",
          kCountOrNone);
  s.field("interval", &c.interval, "time between two checkpoints; best and end are saved anyway")
      .of_form(kTime, is_time)
      .idle_when("every is given", [&c] { return c.every.has_value(); });
  s.field("keep", &c.keep, "how many of the newest are kept", {1, 100'000});
  return s;
}

bool is_file_name(const std::string& text) {
  return !text.empty() && text != "." && text != ".." && text.size() <= 100 &&
         text.find('/') == std::string::npos;
}

bool is_device(const std::string& text) try {
  return text == "auto" || !to_string(Device(text)).empty();
} catch (const Error&) {
  return false;
}

}  // namespace

std::vector<std::string> goals() {
  std::vector<std::string> names = metric_types().names();
  std::ranges::replace(names, "confusion", "loss");
  return names;
}

Task task_of(const DataConfig& config) { return data_types().make(config)->learns(); }

std::vector<std::string> metrics_of(const RunConfig& config) {
  if (!config.metrics.empty()) return config.metrics;
  switch (task_of(config.data)) {
    case Task::kClassification: return {"accuracy"};
    case Task::kRegression: return {"mae", "rmse", "r2"};
    default: return {"perplexity"};
  }
}

bool GoalConfig::is_max() const {
  if (mode != Mode::kAuto) return mode == Mode::kMax;
  return metric != "loss" && runner::metric(metric).grows;
}

std::optional<double> seconds_of(const std::string& time) {
  const std::size_t unit = std::string_view("smhd").find(time.empty() ? ' ' : time.back());
  const bool has_unit = unit != std::string::npos;
  double number = 0;
  const std::string_view digits = std::string_view(time).substr(0, time.size() - has_unit);
  if (parse_number(digits, number) != std::errc() || !(number > 0 && number < 1e9)) return {};
  return number * std::array{1, 60, 3600, 86400}[has_unit ? unit : 0];
}

Schema describe(RunConfig& c) {
  Schema s;
  s.field("name", &c.name, "names the run and its directory")
      .of_form("a name fit for a directory, without '/'", is_file_name);
  s.field("seed", &c.seed, "what initial weights, orders and dropout are drawn from");
  s.field("device", &c.device, "auto, cpu, cuda or cuda:N")
      .of_form(cat("auto, cpu, cuda or cuda:N with N from 0 to ", Device::kMaxIndex), is_device);
  s.field("visible_devices", &c.visible_devices, "GPUs that the run may see, as \"0\" or \"1,2\"")
      .of_form(
          "GPU numbers joined by commas, such as \"0\" or \"1,2\", each once and without spaces",
          cuda::is_visible_devices);
  s.field("threads", &c.threads, "CPU threads; 0 takes all", kThreads);
  s.field("include", &c.include, "files that this one builds on; it says the last word")
      .of_form(kPathWords, is_given);
  Schema data_all;
  data_all.field("workers", &c.data.workers, "threads that prepare batches ahead; the order stays",
                 kThreads);
  data_all.field("on_device", choice(c.data.on_device, {"auto", "always", "never"}),
                 "keep the whole set on the GPU; auto: when it fits");
  s.field("data", union_of(data_types(), c.data, data_all), "what is learned from").required();
  s.field("model", union_of(models(), c.model), "what learns").required();
  s.field("loss", union_of(losses(), c.loss), "what is made small");
  Schema optimizers_all;
  optimizers_all.field("no_decay", &c.optimizer.no_decay,
                       "biases and norms, of one dimension, without weight_decay");
  s.field("optimizer", union_of(optimizers(), c.optimizer, optimizers_all), "how it learns")
      .required();
  Schema schedules_all;
  schedules_all.field("warmup", &c.schedule.warmup,
                      "steps of a climb to lr; the schedule begins after it", kCountOrNone);
  s.field("schedule", union_of(schedules(), c.schedule, schedules_all),
          "the learning rate over the run");
  s.field("train", describe(c.train), "how long it learns, and how").required();
  s.field("checkpoint", describe(c.checkpoint), "what is saved meanwhile");
  s.field("metrics", &c.metrics, "what evaluations measure; without it, the usual for the task")
      .one_of(metric_types().names());
  const auto is_measured = [&c](const std::string& metric) {
    return metric == "loss" || std::ranges::count(metrics_of(c), metric) > 0;
  };
  constexpr const char* kMeasured = "is not measured: name it in 'metrics' too";
  s.rules = {
      {"loss.type",
       "does not fit the data: cross_entropy is for classes and text, bce_with_logits for classes, "
       "the others for 'task: regression'",
       [&c] { return fits(c.loss, task_of(c.data)); }},
      {"metrics",
       "not all fit the data: accuracy and top5 are for classes and text, confusion for classes, "
       "mae, rmse and r2 for 'task: regression', perplexity and bpc for text",
       [&c] {
         return std::ranges::all_of(c.metrics, [task = task_of(c.data)](const std::string& name) {
           return std::ranges::count(metric(name).tasks, task) > 0;
         });
       }},
      {"train.best.metric", kMeasured, [=, &c] { return is_measured(c.train.best.metric); }},
      {"train.early_stopping.metric", kMeasured,
       [=, &c] { return !c.train.early_stopping || is_measured(c.train.early_stopping->metric); }},
      {"schedule.metric", kMeasured,
       [=, &c] { return is_measured(metric_of(c.schedule).value_or("loss")); }}};
  return s;
}

}  // namespace taper::runner
