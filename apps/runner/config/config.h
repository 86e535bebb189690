// What one YAML file says of a training run, with its defaults. The key names, their ranges and
// their meaning stand in the descriptions (config*.cpp), which name an enum's
// values in their order.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/config/tables.h"
#include "apps/runner/config/yaml.h"
#include "data/loader.h"

namespace taper::runner {

struct DataConfig : Component {
  std::filesystem::path base{};  // not of the file: where relative paths begin, if there
  int64_t workers = 0;           // threads that prefetch; 0: none
  data::OnDevice on_device = data::OnDevice::kAuto;
};
// Where they come from, with the paths that are there below `base` found there.
std::unique_ptr<data::Source> source_of(const DataConfig& config);
data::Task task_of(const DataConfig& config);

struct OptimizerConfig : Component {
  bool no_decay = false;  // biases and norms without weight decay
};

struct ScheduleConfig : Component {
  // The rate climbs along a line from lr / (warmup + 1), at step 0, to lr at step `warmup`, where
  // the schedule begins.
  int64_t warmup = 0;
};

enum class Precision { kFp32, kTf32, kBf16, kFp16 };
enum class OnNan { kStop, kSkip, kRollback };
enum class Graph { kAuto, kOn, kOff };
enum class Mode { kAuto, kMin, kMax };  // kAuto: by the metric

// A metric of evaluations, or "loss", and which way it is better.
struct GoalConfig {
  std::string metric = "loss";
  Mode mode = Mode::kAuto;
  bool is_max() const;
};

struct EarlyStoppingConfig : GoalConfig {
  int64_t patience = 5;  // evaluations without a better value
};

struct EmaConfig {
  double decay = 0.999;
};

// The steps from the first to the last of these are traced, from 1.
struct ProfileConfig {
  std::array<int64_t, 2> steps = {10, 15};
};

struct TrainConfig {
  std::optional<int64_t> epochs, steps;  // exactly one is given
  int64_t batch_size = 128;
  bool shuffle = true;
  int64_t accumulate = 1;  // batches a step
  std::optional<double> clip_norm, clip_value;
  Precision precision = Precision::kFp32;
  std::optional<EmaConfig> ema;
  int64_t log_every = 1;     // steps
  int64_t eval_every = 0;    // steps; 0: each epoch
  int64_t eval_batches = 0;  // 0: the whole split; else so many random batches of it
  int64_t eval_batch_size = 1024;
  std::optional<EarlyStoppingConfig> early_stopping;
  GoalConfig best;
  std::optional<std::string> time_limit;  // seconds_of() reads it
  OnNan on_nan = OnNan::kStop;
  Graph graph = Graph::kAuto;
  std::optional<ProfileConfig> profile;
  bool tensorboard = false;
};

struct CheckpointConfig {
  std::optional<int64_t> every;  // steps; 0: each epoch; absent: by the clock
  std::string interval = "10m";  // seconds_of() reads it; means nothing when `every` is given
  int64_t keep = 2;
};

struct RunConfig {
  std::string name;
  uint64_t seed = 0;
  std::string device = "auto";                   // or what Device reads: "cpu", "cuda", "cuda:1"
  std::optional<std::string> visible_devices{};  // CUDA_VISIBLE_DEVICES: "0", "1,2"
  int64_t threads = 0;                           // 0: all that the process may use
  std::vector<std::string> include;              // empty once they are read
  DataConfig data{data_types().first()};
  Component model = models().first();
  Component loss = losses().first();
  OptimizerConfig optimizer{optimizers().first()};
  ScheduleConfig schedule{schedules().first()};
  TrainConfig train;
  CheckpointConfig checkpoint;
  std::vector<std::string> metrics;  // empty: those usual for the task

  // Where each value that is not a default was written, by path ("train.epochs").
  std::map<std::string, Place> places;
};

// What a run may aim at: the loss, and the metrics that are a number.
std::vector<std::string> goals();

// The metrics that evaluations measure: those given, else those usual for the task.
std::vector<std::string> metrics_of(const RunConfig& config);

// "90", "30m", "1.5h", "2d" in seconds; nothing for another text or a time that is not positive.
std::optional<double> seconds_of(const std::string& time);

// Reads the file and those that it includes, then applies the overrides "a.b=v" in turn (v is YAML;
// a number in the path picks a list's entry; the last of two wins). `name` defaults to the file's
// stem. Throws ConfigError with every problem found, each with its place and its source line.
RunConfig load_config(const std::filesystem::path& path, const std::vector<std::string>& overrides);

// The description that everything above follows from, bound to `config`.
Schema describe(RunConfig& config);

// Every value in effect, defaults too; load_config of this text gives the same bytes again.
std::string to_yaml(const RunConfig& config);

// The same, each value with a comment where it comes from: "default" or its place.
std::string to_yaml_with_origins(const RunConfig& config);

// JSON Schema (draft 2020-12) of the file, for editors; and docs/configuration.md.
std::string json_schema();
std::string config_reference();

}  // namespace taper::runner
