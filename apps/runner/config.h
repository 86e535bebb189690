// What one YAML file says of a training run, with its defaults. The key names, their ranges and
// their meaning stand in config.cpp's descriptions, which name an enum's values in their order.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/data/csv.h"
#include "apps/runner/yaml.h"

namespace taper::runner {

struct Schema;

enum class DataType { kDigits, kMnist, kCsv };
using CsvHeader = CsvOptions::Header;

// Images drawn by the program itself.
struct DigitsConfig {
  int64_t train_size = 20000;
  int64_t test_size = 4000;
  uint64_t seed = 1;
};

struct MnistConfig {
  std::string root;  // relative to the working directory, as all paths
};

struct CsvConfig : CsvOptions {
  std::string path;
  std::optional<std::string> test_path;
  double test_fraction = 0.2;  // means nothing when test_path is given
  bool standardize = true;
};

// Only the member that `type` names has a meaning; so in all structs with a type below.
struct DataConfig {
  DataType type = DataType::kDigits;
  DigitsConfig digits;
  MnistConfig mnist;
  CsvConfig csv;
};

// kRelu to kLeakyRelu are activations.
enum class LayerType {
  kLinear,
  kRelu,
  kGelu,
  kTanh,
  kSigmoid,
  kSilu,
  kLeakyRelu,
  kDropout,
  kFlatten
};

struct MlpConfig {
  std::vector<int64_t> hidden = {512, 512};
  LayerType activation = LayerType::kRelu;
  double dropout = 0;  // after every activation
};

struct LinearConfig {
  int64_t out_features = 1;
  bool bias = true;
};
struct LeakyReluConfig {
  double negative_slope = 0.01;
};
struct DropoutConfig {
  double p = 0.5;
};

struct LayerConfig {
  LayerType type = LayerType::kRelu;
  LinearConfig linear{};
  LeakyReluConfig leaky_relu{};
  DropoutConfig dropout{};
  Place place{};  // of its entry, for located(): shapes are known only when the model is built
};

enum class ModelType { kMlp, kSequential };

struct SequentialConfig {
  std::vector<LayerConfig> layers;
};

struct ModelConfig {
  ModelType type = ModelType::kMlp;
  MlpConfig mlp;
  SequentialConfig sequential;
  Place place;
};

enum class OptimizerType { kSgd, kAdam, kAdamW };

struct SgdConfig {
  double lr = 0.1;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
};

struct AdamConfig {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
};

struct OptimizerConfig {
  OptimizerType type = OptimizerType::kSgd;
  SgdConfig sgd;
  AdamConfig adam;
  AdamConfig adamw = {.weight_decay = 0.01};
};

// The learning rate over the run: as given, or falling to 0 along a line or half a cosine.
enum class Schedule { kConstant, kLinear, kCosine };

struct TrainConfig {
  int64_t epochs = 5;
  int64_t batch_size = 128;
  Schedule schedule = Schedule::kConstant;
  bool shuffle = true;
  int64_t log_every = 1;  // steps
  int64_t eval_batch_size = 1024;
};

struct RunConfig {
  std::string name;
  uint64_t seed = 0;
  std::string device = "auto";                   // or what Device reads: "cpu", "cuda", "cuda:1"
  std::optional<std::string> visible_devices{};  // CUDA_VISIBLE_DEVICES: "0", "1,2"
  int64_t threads = 0;                           // 0: all that the process may use
  DataConfig data;
  ModelConfig model;
  OptimizerConfig optimizer;
  TrainConfig train;

  // Where each value that is not a default was written, by path ("train.epochs").
  std::map<std::string, Place> places;
};

// Reads the file, then applies the overrides "a.b=v" in turn (v is YAML; a number in the path
// picks a list's entry; the last of two wins). `name` defaults to the file's stem.
// Throws ConfigError with every problem found, each with its place and its source line.
RunConfig load_config(const std::filesystem::path& path, const std::vector<std::string>& overrides);

// The description that everything above follows from, bound to `config`.
Schema describe(RunConfig& config);

// Every value in effect, defaults too; load_config of this text gives the same bytes again.
std::string to_yaml(const RunConfig& config);

// The same, each value with a comment where it comes from: "default" or its place.
std::string to_yaml_with_origins(const RunConfig& config);

}  // namespace taper::runner
