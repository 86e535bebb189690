// The config of a training run: the keys of a YAML file with their defaults, ranges and
// descriptions.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/components/model_config.h"
#include "apps/runner/components/tables.h"
#include "apps/runner/config/yaml.h"
#include "apps/runner/settings/config_choices.h"
#include "data/loader.h"
#include "data/threshold.h"
#include "framework/base/log.h"
#include "framework/host/thread_pool.h"

namespace taper::v0::runner {

using data::Batch;
using data::DataLoader;

// Returns the seconds in "90", "30m", "1.5h" or "2d"; std::nullopt for other texts and for times
// that are not positive.
std::optional<double> seconds_of(const std::string& time);
inline bool is_time(const std::string& text) { return seconds_of(text).has_value(); }
inline constexpr const char* kTime = "a time such as 90 (seconds), \"30m\" or \"1.5h\"";

struct DataConfig : Component {
  // The folder against which relative paths are resolved. A path that does not exist there is
  // relative to the current directory. Not a key of the YAML file.
  std::filesystem::path base{};
  int64_t workers = 0;  // threads that prefetch; 0: none
  data::OnDevice on_device = data::OnDevice::kAuto;
  std::vector<Component> transforms{};

  template <class V> void describe(V& v) {
    v("workers", workers, {0, kMaxThreads},
      "threads that prepare batches ahead; the order of samples does not change");
    v("on_device", on_device, "keep the whole set on the GPU; auto: if it fits");
    v("transforms", transforms, image_transforms(),
      "random transforms of the training images, in this order");
  }
};
// Returns the data source. Relative paths are resolved against `base` if the files exist there.
std::unique_ptr<data::Source> source_of(const DataConfig& config);
// Returns the task; std::nullopt if only the data tell.
std::optional<data::Task> task_of(const DataConfig& config);

struct OptimizerConfig : Component {
  bool no_decay = false;
  // Learning rates by patterns of parameters. The short form is a map as the value of `lr`.
  std::map<std::string, std::string> lr_by_part{};

  template <class V> void describe(V& v) {
    v("no_decay", no_decay, "no weight decay for parameters of one dimension (biases and norms)");
    v("lr_by_part", lr_by_part,
      "learning rates by patterns of parameters, such as \"fc.*\"; the longest one applies, and lr "
      "to all others; short: a map as lr, in which \"*\" is for all others")
        .of_form("a number above 0", is_rate)
        .with_short_form("lr");
  }
};
// Returns the arguments with which the config's optimizer is built for the model.
OptimizerSite optimizer_site(const OptimizerConfig& config, Module& model);
// Returns the learning rate of the parameters that no part names, as the schedule gets it.
double base_lr(const optim::Optimizer& optimizer, const OptimizerConfig& config);
// Returns one line with the learning rates if parts have their own, and otherwise "".
std::string rates_text(const OptimizerConfig& config);

struct ScheduleConfig : Component {
  // During the warmup, the rate increases linearly from lr / (warmup + 1) at step 0 to lr at step
  // `warmup`, where the schedule begins.
  int64_t warmup = 0;

  template <class V> void describe(V& v) {
    v("warmup", warmup, kCountOrNone, "steps of a linear rise to lr; the schedule starts after it");
  }
};

// The metric (or "loss") by which evaluations are compared, and whether smaller or larger values
// are better.
struct GoalConfig {
  std::string metric = "loss";
  Mode mode = Mode::kAuto;
  bool is_max() const;

  template <class V> void describe(V& v) {
    v("metric", metric, goals(), "metric of the evaluations: loss, or one of metrics");
    v("mode", mode, "whether a smaller or a larger value is better; auto: by the metric");
  }
};

struct EarlyStoppingConfig : GoalConfig {
  std::vector<std::string> also{};
  int64_t patience = 5, start_after = 0;

  template <class V> void describe(V& v) {
    GoalConfig::describe(v);
    v("also", also, goals(),
      "other metrics: the run stops if none of them improves, nor `metric`, which alone chooses "
      "the weights to save");
    v("patience", patience, kCount, "evaluations without improvement that are tolerated");
    v("start_after", start_after, kCountOrNone, "first evaluations that do not count");
  }
  // Returns the goals of `metric` and of `also`.
  std::vector<GoalConfig> goals_to_watch() const;
};

struct EmaConfig {
  double decay = 0.999;

  template <class V> void describe(V& v) {
    v("decay", decay, kBelowOne, "decay of the average in each step");
  }
};

// Traces the steps from steps[0] to steps[1], counted from 1, both included.
struct ProfileConfig {
  std::array<int64_t, 2> steps = {10, 15};

  template <class V> void describe(V& v) { v("steps", steps, kCount, "first and last step"); }
  template <class V> void rules(V& v) {
    v("steps", "the first step must not come after the last",
      [this] { return steps[0] <= steps[1]; });
  }
};

struct TrainConfig {
  std::optional<int64_t> epochs, steps;  // exactly one of them is given
  int64_t batch_size = 128;              // chosen when the run begins if is_batch_size_auto
  bool is_batch_size_auto = false;
  bool shuffle = true, drop_last = false;
  int64_t accumulate = 1;
  std::optional<int64_t> shards;
  std::optional<double> clip_norm, clip_value;
  Precision precision = Precision::kFp32;
  std::optional<EmaConfig> ema;
  int64_t log_every = 1;
  int64_t eval_every = 0;
  int64_t eval_batches = 0, sample_every = 0;
  std::optional<int64_t> eval_batch_size;  // always set in the config of a run that has started
  std::optional<EarlyStoppingConfig> early_stopping;
  std::optional<GoalConfig> best;
  std::optional<std::string> time_limit;  // in the form that seconds_of() reads
  OnNan on_nan = OnNan::kStop;
  Graph graph = Graph::kAuto;
  Recompute recompute = Recompute::kNone;
  std::optional<ProfileConfig> profile;
  bool tensorboard = false;

  template <class V> void describe(V& v) {
    constexpr Range kSamples{1, 10'000'000};
    v("epochs", epochs, kCount, "passes over the training set; give this or steps");
    v("steps", steps, kCount, "number of training steps; give this or epochs");
    v("batch_size", batch_size, kSamples,
      "samples in a batch, of all ranks together; auto: the largest power of two that fits")
        .or_word("auto", is_batch_size_auto);
    v("shuffle", shuffle, "shuffle the samples in every epoch");
    v("drop_last", drop_last, "leave out an epoch's last batch if it is not full");
    v("accumulate", accumulate, {1, 1 << 20}, "batches whose gradients are averaged for one step");
    v("shards", shards, {1, 1 << 16},
      "number of separately computed parts of each batch, a power of two; the results are "
      "identical for every number of ranks up to it");
    v("clip_norm", clip_norm, kPositive, "clip the norm of all gradients to this value");
    v("clip_value", clip_value, kPositive, "clip the elements of gradients to this absolute value");
    v("precision", precision, "precision of matrix products; weights stay float32");
    v("ema", ema, "evaluate and save a moving average of the weights");
    v("log_every", log_every, kCount, "steps between two lines of metrics.jsonl");
    v("eval_every", eval_every, kCountOrNone, "steps between two evaluations; 0: after each epoch");
    v("eval_batches", eval_batches, kCountOrNone,
      "number of random batches in an evaluation; 0: the whole split");
    v("sample_every", sample_every, kCountOrNone, "text: steps between generated samples; 0: none");
    v("eval_batch_size", eval_batch_size, kSamples,
      "samples in a batch of an evaluation; default: batch_size for text, otherwise the largest "
      "power of two up to 1024 that fits in half of the device's memory");
    v("early_stopping", early_stopping,
      "stop if evaluations do not improve; model.safetensors has the weights of the best one");
    v("best", best, "save the best evaluation's weights in model.safetensors, not the last ones");
    v("time_limit", time_limit, "save and stop after this time").of_form(kTime, is_time);
    v("on_nan", on_nan, "what to do if a loss or gradient is not finite");
    v("graph", graph,
      "replay steps as a CUDA graph; auto: on a GPU, unless your program registered the model; its "
      "forward must do the same in each step");
    v("recompute", recompute,
      "block: save memory by keeping only the inputs of a gpt's blocks for the backward pass, "
      "which computes the blocks again");
    v("profile", profile,
      "trace some steps, without a CUDA graph, into trace.json for ui.perfetto.dev");
    v("tensorboard", tensorboard, "also write an event file for TensorBoard");
  }
  template <class V> void rules(V& v) {
    v("steps",
      "give either epochs or steps, not both; 'epochs: null' (train.epochs=null) removes a value",
      [this] { return !(epochs && steps); });
    v("epochs", "give the run's length: 'epochs: 5' or 'steps: 1000'",
      [this] { return epochs || steps; });
    v("shards", "must be a power of two that divides batch_size", [this] {
      const bool divides = is_batch_size_auto || batch_size % shards.value_or(1) == 0;
      return !shards || ((*shards & (*shards - 1)) == 0 && divides);
    });
    v("accumulate", "must be 1 with train.shards, which already computes a batch in parts",
      [this] { return !shards || accumulate == 1; });
    v("clip_value", "give either clip_norm or clip_value, not both",
      [this] { return !(clip_norm && clip_value); });
  }
};

// The rule by which `threshold` decides between two classes: a given probability of class 1, or the
// probability with the best score on the validation part.
struct ThresholdRule {
  std::optional<double> probability{};
  data::DecisionScore score = data::DecisionScore::kF1;  // unless a probability is given

  // Returns std::nullopt for a text that is no rule.
  static std::optional<ThresholdRule> from(const std::string& text);
};

// Returns the goal by which the best evaluation is chosen: train.best, else train.early_stopping,
// else the smallest loss.
GoalConfig best_goal(const TrainConfig& config);

// Options of runs with several ranks (docs/distributed.md).
struct DistributedConfig {
  double timeout = 600;
  int64_t bucket_mb = 25;
  Reduce reduce = Reduce::kFp32;
  bool shard_optimizer = false, sync_batch_norm = false;

  template <class V> void describe(V& v) {
    v("timeout", timeout, {1, 1e6}, "seconds to wait for a rank before the run ends");
    v("bucket_mb", bucket_mb, {1, 1 << 16}, "MiB of gradients in one all_reduce");
    v("reduce", reduce,
      "dtype in which gradients are exchanged; their averages are computed in float32");
    v("shard_optimizer", shard_optimizer,
      "each rank stores the optimizer's state for its part of the weights only (ZeRO stage 1)");
    v("sync_batch_norm", sync_batch_norm,
      "batch norm uses the statistics of the batch of all ranks; not with train.shards");
  }
};

// When checkpoints are saved, by steps or by time, how many are kept, and how they are written.
struct CheckpointConfig {
  std::optional<int64_t> every;
  std::string interval = "10m";  // in the form that seconds_of() reads; unused if `every` is given
  int64_t keep = 2;
  Background background = Background::kAuto;

  template <class V> void describe(V& v) {
    v("every", every, kCountOrNone,
      "steps between two checkpoints; 0: after each epoch; default: by interval, or after each "
      "epoch if train.on_nan is rollback");
    v("interval", interval,
      "time between two checkpoints; the best and the last state are always saved")
        .of_form(kTime, is_time)
        .idle_when("every is given", [this] { return every.has_value(); });
    v("keep", keep, {1, 100'000}, "number of recent checkpoints to keep");
    v("background", background,
      "write checkpoints while training goes on, from a copy of the state in host memory; auto: "
      "on a GPU");
  }
  // on_gpu: whether a device of the run is a GPU.
  bool is_in_background(bool on_gpu) const {
    return background == Background::kAuto ? on_gpu : background == Background::kOn;
  }
};

// Returns whether a log file may have this name. It must be a plain file name that is not the name
// of another file of a run.
bool is_log_file_name(const std::string& text);

// Which log messages of a run are written, and where. Does not affect the numbers of the run.
struct LogConfig {
  LogLevel level = LogLevel::kInfo;
  bool console = true;
  std::optional<std::string> file = "log.txt";
  LogFormat format = LogFormat::kText;

  template <class V> void describe(V& v) {
    v("level", level, "lowest level of messages, on stderr and in the file");
    v("console", console, "print messages to stderr");
    v("file", file, "log file in the run's directory; null: none")
        .of_form("a plain file name that no other file of a run has", is_log_file_name)
        .written_as_null();
    v("format", format,
      "format of the file; json: one object per line, with time, level, rank and message");
  }
};

// The whole config, as load_config() reads it.
struct RunConfig {
  std::string name;
  uint64_t seed = 0;
  std::string device = "auto";  // "auto", or a name for Device: "cpu", "cuda", "cuda:1"
  std::optional<std::string> visible_devices{};  // value of CUDA_VISIBLE_DEVICES: "0", "1,2"
  int64_t threads = 0;                           // 0: all CPUs available to the process
  std::vector<std::string> include;              // empty after the files were read
  DataConfig data{data_types().first()};
  ModelConfig model{models().first()};
  Component loss = losses().first();
  OptimizerConfig optimizer{optimizers().first()};
  ScheduleConfig schedule{schedules().first()};
  TrainConfig train;
  CheckpointConfig checkpoint;
  LogConfig log;
  DistributedConfig distributed;
  std::vector<std::string> metrics;  // empty: the default metrics of the task
  // Two classes: a number in the form of ThresholdRule, or the score that chooses it.
  std::optional<std::string> threshold{};
  std::vector<Component> callbacks;  // registered by the user's program

  // The position in the source of each value that is not a default, by its path ("train.epochs").
  std::map<std::string, Place> places;
};

// Returns the position in the source of the value at `path` ("train.batch_size"). If the value has
// none, returns that of its section. Returns an empty Place for a default.
Place place_of(const RunConfig& config, std::string path);

// Returns the metrics that evaluations measure: those of the config, or the default ones of the
// task.
std::vector<std::string> metrics_of(const RunConfig& config, data::Task task);
// Throws ConfigError if the loss, a metric or a goal does not fit the task, which the data may have
// decided, or if the data have weights of classes and the loss takes none.
void require_fit(const RunConfig& config, const data::DataInfo& data);

// Reads the file and the files that it includes, then applies the overrides "a.b=v" in order; later
// ones win. The value v is YAML. A number in the path selects a list entry. `name` defaults to the
// file name without its extension. Throws ConfigError with all problems, each with its place and
// source line.
RunConfig load_config(const std::filesystem::path& path,
                      const std::vector<std::string>& overrides = {});
// Like load_config(), for the text of a config file. `name` defaults to "run", and messages call
// the text "config text". Files that it includes are relative to the current directory.
//
//   const RunConfig config = load_config_text("{data: {type: digits}, train: {epochs: 1}}");
RunConfig load_config_text(const std::string& yaml, const std::vector<std::string>& overrides = {});

// Checks a config that was built or changed in C++ by the rules for YAML. Throws ConfigError with
// all problems, each with the path of its field, such as "train.epochs: expected an integer, at
// least 1 and at most 1000000000, got '0'". An empty name is accepted. train() and validate() call
// this.
void check_config(const RunConfig& config);

// The batch sizes in the YAML of a run's config; std::nullopt for one that is absent or no number.
struct RecordedBatchSizes {
  std::optional<int64_t> train{}, eval{};
};
RecordedBatchSizes recorded_batch_sizes(const std::string& yaml);
// Sets the batch sizes that the config leaves to the run to the recorded ones.
void keep_batch_sizes(RunConfig& config, const RecordedBatchSizes& recorded);

// Returns the schema bound to `config`. The functions in this file that read, write or describe
// configs are derived from it.
Schema describe(RunConfig& config);

// Returns all values, including defaults, as YAML. load_config() of this text gives the same bytes
// again.
std::string to_yaml(const RunConfig& config);

// Completes a text that to_yaml() of an earlier version wrote: replaces names that keys had then,
// and adds the keys that this version has in addition, with their default values. Returns the text
// unchanged if it is not a config of this program.
std::string with_defaults(const std::string& yaml);

// Like to_yaml(), with a comment after each value that says "default" or where the value was set.
std::string to_yaml_with_origins(const RunConfig& config);
// Returns YAML with the values that a file or override gives. All others are left out, so that they
// have their defaults when it is loaded.
std::string to_short_yaml(const RunConfig& config);

// Returns the JSON Schema (draft 2020-12) of config files, for editors.
std::string json_schema();
std::string config_reference();

}  // namespace taper::v0::runner
