// What one YAML file says of a training run, with its defaults. The key names, their ranges and
// their meaning stand in the descriptions (config*.cpp), which name an enum's
// values in their order.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/config/yaml.h"
#include "apps/runner/data/csv.h"
#include "autograd/ops/pool.h"
#include "optim/optimizers.h"
#include "optim/schedule.h"

namespace taper::runner {

struct Schema;

enum class DataType { kDigits, kMnist, kIdx, kCsv, kText };
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

struct IdxConfig {
  std::string train_images, train_labels, test_images, test_labels;
};

struct CsvConfig : CsvOptions {
  std::string path;
  std::optional<std::string> test_path;
  double test_fraction = 0.2;  // means nothing when test_path is given
  bool standardize = true;
  bool scale_target = false;  // regression: learns (y - mean) / deviation, reports y
};

enum class TokenizerType { kChars, kBytes, kGpt2 };

struct TextConfig {
  std::string path;  // a file, a directory (all texts below it) or a pattern such as "src/*.cpp"
  TokenizerType tokenizer = TokenizerType::kChars;
  std::optional<std::string> vocabulary;  // kGpt2: the directory of encoder.json and vocab.bpe
  int64_t block_size = 256;
  double validation_fraction = 0.1;  // the last part
  bool lines = false;                // each line is a sequence of its own
};

enum class OnDevice { kAuto, kAlways, kNever };

// Only the member that `type` names has a meaning; so in all structs with a type below.
struct DataConfig {
  DataType type = DataType::kDigits;
  DigitsConfig digits;
  MnistConfig mnist;
  IdxConfig idx;
  CsvConfig csv;
  TextConfig text;
  std::filesystem::path base{};          // not of the file: where relative paths begin, if there
  int64_t workers = 0;                   // threads that prefetch; 0: none
  OnDevice on_device = OnDevice::kAuto;  // kAuto: where the whole set fits
};
Task task_of(const DataConfig& config);

// By the names of PyTorch's classes. Activations come first.
// clang-format off
enum class LayerType {
  kRelu, kGelu, kTanh, kSigmoid, kSilu, kLeakyRelu, kRelu6, kElu, kHardtanh, kSoftplus,
  kSoftmax, kLogSoftmax, kIdentity, kLinear, kConv1d, kConv2d, kMaxPool1d, kMaxPool2d,
  kAvgPool1d, kAvgPool2d, kAdaptiveAvgPool1d, kAdaptiveAvgPool2d, kBatchNorm1d, kBatchNorm2d,
  kGroupNorm, kLayerNorm, kRmsNorm, kDropout, kDropout2d, kFlatten, kUnflatten, kUpsample,
  kEmbedding, kLstm, kGru, kTransformerEncoderLayer
};
// clang-format on

// The options of all layers: those of one name mean the same everywhere. Which layer has which
// stands in config_model.cpp; what a layer takes from its input (in_features) is inferred.
struct LayerConfig {
  LayerType type = LayerType::kRelu;
  int64_t out_features = 1, out_channels = 1;        // linear; convolutions
  Pair kernel_size = 1;                              // convolutions, pools; 1d takes its w
  std::optional<Pair> stride{};                      // convolutions: 1, pools: kernel_size
  Pair padding = 0, dilation = 1;                    // convolutions, pools
  bool same_padding = false;                         // convolutions: `padding: same`
  int64_t groups = 1;                                // convolutions
  bool ceil_mode = false, count_include_pad = true;  // pools
  Pair output_size = 1;                              // adaptive pools
  bool bias = true;                                  // linear, convolutions, layer_norm, lstm, gru
  std::optional<double> eps{};                       // norms: 1e-5, rms_norm: the dtype's
  double momentum = 0.1;                             // batch norms
  bool affine = true;                                // norms; elementwise_affine too
  bool track_running_stats = true;                   // batch norms
  int64_t num_groups = 1;                            // group_norm
  std::vector<int64_t> normalized_shape{};           // empty: the last dimension
  double p = 0.5;                                    // dropouts
  double negative_slope = 0.01, alpha = 1;           // leaky_relu; elu
  double min_val = -1, max_val = 1;                  // hardtanh
  double beta = 1, threshold = 20;                   // softplus
  bool approximate_tanh = false;                     // gelu: `approximate: tanh`
  int64_t dim = -1;                                  // softmaxes
  int64_t start_dim = 1, end_dim = -1;               // flatten; unflatten's dim is start_dim
  std::vector<int64_t> unflattened_size{};           // unflatten
  std::optional<double> scale_factor{};              // upsample: this or `size`
  std::optional<Pair> size{};                        // upsample
  Interpolation mode{};                              // upsample
  std::optional<int64_t> num_embeddings{};           // embedding: the data's vocabulary
  int64_t embedding_dim = 1;                         // embedding
  std::optional<int64_t> padding_idx{};              // embedding
  int64_t hidden_size = 1, num_layers = 1;           // lstm, gru
  bool bidirectional = false, last_step = false;     // lstm, gru; [B, T, C] becomes [B, C]
  double dropout = 0;                                // lstm, gru: between layers; the encoder's
  int64_t nhead = 1, dim_feedforward = 2048;         // transformer_encoder_layer
  bool norm_first = false;                           // transformer_encoder_layer
  Place place{};  // of its entry, for located(): shapes are known only when the model is built
};

struct MlpConfig {
  std::vector<int64_t> hidden = {512, 512};
  LayerType activation = LayerType::kRelu;
  double dropout = 0;  // after every activation
};

struct SequentialConfig {
  std::vector<LayerConfig> layers;
};

// The network of PyTorch's MNIST example: two convolutions of 3 x 3, a pool of 2, two linear
// layers.
struct CnnConfig {
  std::array<int64_t, 2> channels = {32, 64};
  int64_t hidden = 128;
  std::array<double, 2> dropout = {0.25, 0.5};  // after the pool; after the hidden layer
};

struct ResNet18Config {
  int64_t width = 64;
};

struct GptConfig {
  int64_t n_layer = 12, n_head = 12, n_embd = 768;
  double dropout = 0;
  bool bias = true;
};

struct LstmClassifierConfig {
  int64_t embedding_dim = 128, hidden_size = 256, num_layers = 1;
  double dropout = 0;
};

// A model that the user's program has registered.
struct CustomConfig {
  std::string name;
  std::map<std::string, std::string> options;  // as written
};

enum class ModelType { kMlp, kSequential, kCnn, kResNet18, kGpt, kLstmClassifier, kCustom };

struct ModelConfig {
  ModelType type = ModelType::kMlp;
  MlpConfig mlp;
  SequentialConfig sequential;
  CnnConfig cnn;
  ResNet18Config resnet18;
  GptConfig gpt;
  LstmClassifierConfig lstm_classifier;
  CustomConfig custom;
  Place place;
};

// kAuto: cross entropy, or the squared error for regression.
enum class LossType { kAuto, kCrossEntropy, kMse, kL1, kHuber, kBceWithLogits };

struct LossConfig {
  LossType type = LossType::kAuto;
  double label_smoothing = 0;  // kCrossEntropy
  double delta = 1;            // kHuber
};

enum class OptimizerType { kSgd, kAdam, kAdamW, kAdagrad, kAdadelta, kRmsProp, kLion, kMuon };

struct OptimizerConfig {
  OptimizerType type = OptimizerType::kSgd;
  optim::SGDOptions sgd;
  optim::AdamOptions adam;
  optim::AdamWOptions adamw;
  optim::AdagradOptions adagrad;
  optim::AdadeltaOptions adadelta;
  optim::RMSpropOptions rmsprop;
  optim::LionOptions lion;
  optim::MuonOptions muon;
  bool no_decay = false;  // biases and norms without weight decay
};

// clang-format off
enum class ScheduleType {
  kConstant, kLinear, kStep, kMultiStep, kExponential, kCosine, kCosineRestarts, kOneCycle,
  kPolynomial, kPlateau
};
// clang-format on
enum class Per { kStep, kEpoch };

// What all numbers of steps below are counted in stands in `per`; but warmup counts steps.
struct ScheduleConfig {
  ScheduleType type = ScheduleType::kConstant;
  // The rate climbs along a line from lr / (warmup + 1), at step 0, to lr at step `warmup`, where
  // the schedule begins.
  int64_t warmup = 0;
  Per per = Per::kStep;
  std::optional<int64_t> total_iters;            // kLinear, kCosine, kPolynomial, kOneCycle: absent
                                                 // is what warmup leaves of the run
  double start_factor = 1, end_factor = 0;       // kLinear
  double min_lr = 0;                             // kCosine, kCosineRestarts, kPlateau
  double power = 1;                              // kPolynomial
  int64_t step_size = 1;                         // kStep
  std::vector<int64_t> milestones;               // kMultiStep
  double gamma = 0.1;                            // kStep, kMultiStep, kExponential
  int64_t t_0 = 1, t_mult = 1;                   // kCosineRestarts
  std::optional<double> max_lr;                  // kOneCycle: absent is the optimizer's lr
  optim::schedule::OneCycleOptions one_cycle{};  // without max_lr and total_steps
  std::string metric = "loss";                   // kPlateau, of evaluations
  optim::PlateauOptions plateau{};               // without mode and min_lr
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
  DataConfig data;
  ModelConfig model;
  LossConfig loss;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  TrainConfig train;
  CheckpointConfig checkpoint;
  std::vector<std::string> metrics;  // empty: those usual for the task

  // Where each value that is not a default was written, by path ("train.epochs").
  std::map<std::string, Place> places;
};

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
