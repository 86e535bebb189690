#include "apps/runner/config/config.h"

#include <algorithm>
#include <cctype>
#include <ranges>

#include "apps/runner/config/schema.h"
#include "apps/runner/run/errors.h"
#include "apps/runner/run/text.h"
#include "framework/cuda.h"
#include "framework/device.h"
#include "framework/threads.h"

namespace taper::runner {

using data::Task;

namespace {

constexpr double kMaxSamples = 10'000'000;
constexpr Range kSamples{1, kMaxSamples};
constexpr Range kThreads{0, kMaxThreads};

Schema describe(data::Digits& c) {
  Schema s;
  s.field("train_size", &c.train_size, "number of training images", kSamples);
  s.field("test_size", &c.test_size, "number of test images", kSamples);
  s.field("seed", &c.seed, "what the images are drawn from; not the run's seed");
  return s;
}

// For a text of any form but none.
bool is_given(const std::string& text) { return !text.empty(); }
constexpr const char* kPath = "a path that is not empty";

Schema describe(data::Mnist& c) {
  Schema s;
  s.field("root", &c.root, "directory of the four IDX files").required().of_form(kPath, is_given);
  return s;
}

bool is_delimiter(const std::string& text) {
  return text.size() == 1 && !std::isalnum(static_cast<unsigned char>(text[0])) &&
         std::string_view("\"\n\r.+-_").find(text) == std::string_view::npos;
}

Schema describe(data::Idx& c) {
  Schema s;
  const auto file = [&s](const char* name, std::string& path, const char* doc) {
    s.field(name, &path, doc).required().of_form(kPath, is_given);
  };
  file("train_images", c.train_images, "IDX file, plain or .gz");
  file("train_labels", c.train_labels, "its labels");
  file("test_images", c.test_images, "the same for the test");
  file("test_labels", c.test_labels, "its labels");
  return s;
}

Schema describe(data::Csv& c) {
  Schema s;
  s.field("path", &c.path, "file with the rows").required().of_form(kPath, is_given);
  s.field("test_path", &c.test_path, "file with the test rows").of_form(kPath, is_given);
  s.field("test_fraction", &c.test_fraction, "part of the rows that is kept for the test",
          kBetweenZeroAndOne)
      .idle_when("test_path is given", [&c] { return c.test_path.has_value(); });
  s.field("label", &c.label, "name or index of the column to predict; -1 is the last")
      .of_form("a column", is_given);
  s.field("header", choice(c.header, {"auto", "present", "absent"}),
          "whether the first line holds names");
  s.field("delimiter", &c.delimiter, "what stands between two cells")
      .of_form("one character such as ',' or ';' or \"\\t\"", is_delimiter);
  s.field("standardize", &c.standardize, "scale features to mean 0 and deviation 1");
  s.field("task", choice(c.task, {"classification", "regression"}), "what the label column is");
  s.field("scale_target", &c.scale_target,
          "regression: learn targets of mean 0 and deviation 1; results stay in the data's units");
  s.field("missing", choice(c.missing, {"refuse", "mean"}),
          "empty cells: an error, or the training rows' mean");
  s.field("categories", choice(c.categories, {"refuse", "one_hot"}),
          "columns of words: an error, or a feature for each word");
  s.rules = {{"scale_target", "is for 'task: regression' only",
              [&c] { return !c.scale_target || c.task == Task::kRegression; }}};
  return s;
}

Schema describe(data::Text& c) {
  Schema s;
  const auto has_vocabulary = [&c] { return c.tokenizer == data::Text::Tokens::kGpt2; };
  s.field("path", &c.path, "a file, a directory or a pattern such as \"src/*.cpp\"")
      .required()
      .of_form(kPath, is_given);
  s.field("tokenizer", choice(c.tokenizer, {"chars", "bytes", "gpt2"}), "what a token is");
  s.field("vocabulary", &c.vocabulary, "gpt2: directory of encoder.json and vocab.bpe")
      .of_form(kPath, is_given)
      .idle_when("the tokenizer is not gpt2", [=] { return !has_vocabulary(); });
  s.field("block_size", &c.block_size, "tokens that the model sees at a time", {1, kWidth.high});
  s.field("validation_fraction", &c.validation_fraction, "last part, kept for evaluation",
          kBetweenZeroAndOne);
  s.field("lines", &c.lines, "each line is a sequence of its own, as a list of names");
  s.rules = {{"tokenizer", "needs a 'vocabulary': the directory of encoder.json and vocab.bpe",
              [=, &c] { return !has_vocabulary() || c.vocabulary; }}};
  return s;
}

std::vector<Schema> each_with(std::vector<Schema> all, const Schema& more) {
  for (Schema& s : all) s.fields.insert(s.fields.end(), more.fields.begin(), more.fields.end());
  return all;
}

Union describe(DataConfig& c) {
  Schema common;
  common.field("workers", &c.workers, "threads that prepare batches ahead; the order stays",
               kThreads);
  common.field("on_device", choice(c.on_device, {"auto", "always", "never"}),
               "keep the whole set on the GPU; auto: when it fits");
  return {.tag = choice(c.type, {"digits", "mnist", "idx", "csv", "text"}),
          .alternatives = each_with({describe(c.digits), describe(c.mnist), describe(c.idx),
                                     describe(c.csv), describe(c.text)},
                                    common)};
}

const std::vector<std::string> kMetrics = {"accuracy", "top5", "confusion",  "mae",
                                           "rmse",     "r2",   "perplexity", "bpc"};

bool suits(const std::string& metric, Task task) {
  if (metric == "mae" || metric == "rmse" || metric == "r2") return task == Task::kRegression;
  if (metric == "perplexity" || metric == "bpc") return task == Task::kLanguage;
  return task == Task::kClassification || (task == Task::kLanguage && metric != "confusion");
}

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
  std::vector<std::string> names = kMetrics;
  std::ranges::replace(names, "confusion", "loss");
  return names;
}

Task task_of(const DataConfig& config) { return source_of(config)->targets(); }

std::vector<std::string> metrics_of(const RunConfig& config) {
  if (!config.metrics.empty()) return config.metrics;
  switch (task_of(config.data)) {
    case Task::kClassification: return {"accuracy"};
    case Task::kRegression: return {"mae", "rmse", "r2"};
    default: return {"perplexity"};
  }
}

bool GoalConfig::is_max() const {
  const bool grows = metric == "accuracy" || metric == "top5" || metric == "r2";
  return mode == Mode::kAuto ? grows : mode == Mode::kMax;
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
      .of_form(kPath, is_given);
  s.field("data", describe(c.data), "what is learned from").required();
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
      .one_of(kMetrics);
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
         const auto fits = [&c](const std::string& m) { return suits(m, task_of(c.data)); };
         return std::ranges::all_of(c.metrics, fits);
       }},
      {"train.best.metric", kMeasured, [=, &c] { return is_measured(c.train.best.metric); }},
      {"train.early_stopping.metric", kMeasured,
       [=, &c] { return !c.train.early_stopping || is_measured(c.train.early_stopping->metric); }},
      {"schedule.metric", kMeasured,
       [=, &c] { return is_measured(metric_of(c.schedule).value_or("loss")); }}};
  return s;
}

}  // namespace taper::runner
