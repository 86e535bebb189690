#include "apps/runner/train/model.h"

#include <map>

#include "apps/runner/run/errors.h"
#include "autograd/node.h"
#include "autograd/ops/shape.h"
#include "framework/factories.h"
#include "modules/activation.h"
#include "modules/conv.h"
#include "modules/dropout.h"
#include "modules/embedding.h"
#include "modules/linear.h"
#include "modules/models/gpt.h"
#include "modules/models/resnet.h"
#include "modules/models/text_classifiers.h"
#include "modules/norm.h"
#include "modules/pool.h"
#include "modules/rnn.h"
#include "modules/shape.h"
#include "modules/transformer.h"

namespace taper::runner {
namespace {

using ModulePtr = std::unique_ptr<Module>;

// What a layer is made for: its input without the batch, which has at least one dimension.
struct Site {
  Shape in;
  int64_t vocab_size;
  Device device;
};
using LayerFactory = ModulePtr (*)(const LayerConfig& c, const Site& at);

// M made of these options, in this order.
template <class M, auto... kOptions> ModulePtr made(const LayerConfig& c, const Site&) {
  return std::make_unique<M>((c.*kOptions)...);
}
template <class M> ModulePtr conv(const LayerConfig& c, const Site& at) {
  ConvOptions o{c.stride.value_or(1), c.padding, c.dilation, c.groups, c.bias};
  o.device = at.device;
  if (c.same_padding) o.padding = "same";
  return std::make_unique<M>(at.in[0], c.out_channels, c.kernel_size, o);
}
// Of one dimension: the width alone.
struct Size {
  Pair both;
  operator Pair() const { return both; }
  operator int64_t() const { return both.w; }
};
template <class M> ModulePtr max_pool(const LayerConfig& c, const Site&) {
  return std::make_unique<M>(Size{c.kernel_size},
                             MaxPoolOptions{c.stride, c.padding, c.dilation, c.ceil_mode});
}
template <class M> ModulePtr avg_pool(const LayerConfig& c, const Site&) {
  return std::make_unique<M>(Size{c.kernel_size},
                             AvgPoolOptions{c.stride, c.padding, c.ceil_mode, c.count_include_pad});
}
template <class M> ModulePtr adaptive_pool(const LayerConfig& c, const Site&) {
  return std::make_unique<M>(Size{c.output_size});
}
double eps(const LayerConfig& c) { return c.eps.value_or(1e-5); }
template <class M> ModulePtr batch_norm(const LayerConfig& c, const Site& at) {
  return std::make_unique<M>(
      at.in[0], BatchNormOptions{eps(c), c.momentum, c.affine, c.track_running_stats, at.device});
}
Shape normalized(const LayerConfig& c, const Site& at) {
  return c.normalized_shape.empty() ? Shape{at.in.back()} : Shape(c.normalized_shape);
}
// PyTorch's gives all steps; `last_step: true` the last one alone.
template <class M> struct LastStep : M {
  using M::M;
  Tensor forward(const Tensor& x) override { return M::forward(x).select(1, -1); }
};
template <class M> ModulePtr recurrent(const LayerConfig& c, const Site& at) {
  const RnnOptions o{c.num_layers, c.bias, true, c.dropout, c.bidirectional, at.device};
  if (c.last_step) return std::make_unique<LastStep<M>>(at.in.back(), c.hidden_size, o);
  return std::make_unique<M>(at.in.back(), c.hidden_size, o);
}

// In the order of LayerType.
using Config = LayerConfig;
constexpr LayerFactory kLayers[] = {
    made<ReLU>,
    [](const Config& c, const Site&) -> ModulePtr {
      return std::make_unique<GELU>(c.approximate_tanh ? "tanh" : "none");
    },
    made<Tanh>,
    made<Sigmoid>,
    made<SiLU>,
    made<LeakyReLU, &Config::negative_slope>,
    made<ReLU6>,
    made<ELU, &Config::alpha>,
    made<Hardtanh, &Config::min_val, &Config::max_val>,
    made<Softplus, &Config::beta, &Config::threshold>,
    made<Softmax, &Config::dim>,
    made<LogSoftmax, &Config::dim>,
    made<Identity>,
    [](const Config& c, const Site& at) -> ModulePtr {
      return std::make_unique<Linear>(at.in.back(), c.out_features,
                                      LinearOptions{c.bias, at.device});
    },
    conv<Conv1d>,
    conv<Conv2d>,
    max_pool<MaxPool1d>,
    max_pool<MaxPool2d>,
    avg_pool<AvgPool1d>,
    avg_pool<AvgPool2d>,
    adaptive_pool<AdaptiveAvgPool1d>,
    adaptive_pool<AdaptiveAvgPool2d>,
    batch_norm<BatchNorm1d>,
    batch_norm<BatchNorm2d>,
    [](const Config& c, const Site& at) -> ModulePtr {
      return std::make_unique<GroupNorm>(c.num_groups, at.in[0],
                                         GroupNormOptions{eps(c), c.affine, at.device});
    },
    [](const Config& c, const Site& at) -> ModulePtr {
      return std::make_unique<LayerNorm>(normalized(c, at),
                                         LayerNormOptions{eps(c), c.affine, c.bias, at.device});
    },
    [](const Config& c, const Site& at) -> ModulePtr {
      return std::make_unique<RMSNorm>(normalized(c, at),
                                       RMSNormOptions{c.eps, c.affine, at.device});
    },
    made<Dropout, &Config::p>,
    made<Dropout2d, &Config::p>,
    made<Flatten, &Config::start_dim, &Config::end_dim>,
    [](const Config& c, const Site&) -> ModulePtr {
      return std::make_unique<Unflatten>(c.start_dim, Shape(c.unflattened_size));
    },
    [](const Config& c, const Site&) -> ModulePtr {
      return std::make_unique<Upsample>(InterpolateOptions{c.size, c.scale_factor, c.mode, {}});
    },
    [](const Config& c, const Site& at) -> ModulePtr {
      return std::make_unique<Embedding>(c.num_embeddings.value_or(at.vocab_size), c.embedding_dim,
                                         EmbeddingOptions{c.padding_idx, at.device});
    },
    recurrent<LSTM>,
    recurrent<GRU>,
    [](const Config& c, const Site& at) -> ModulePtr {
      const TransformerEncoderLayerOptions o{c.dim_feedforward, c.dropout, "relu",   eps(c), true,
                                             c.norm_first,      c.bias,    at.device};
      return std::make_unique<TransformerEncoderLayer>(at.in.back(), c.nhead, o);
    },
};
static_assert(std::size(kLayers) == size_t(LayerType::kTransformerEncoderLayer) + 1);

Shape without_batch(const Tensor& x) {
  Shape shape = x.shape();
  shape.erase(0);
  return shape;
}

// The layers one after the other. Each is called once, on zeros, so that the next one knows its
// input: there is no second account of what layers do to shapes.
ModulePtr build_sequential(const std::vector<LayerConfig>& layers, const DataInfo& data,
                           Device device, const Place& model_place) {
  const NoGradGuard no_grad;
  auto model = std::make_unique<Sequential>();
  Place place = model_place;
  Tensor x = sample_batch(data, 1, device);
  for (const LayerConfig& layer : layers) {
    if (layer.place.source) place = layer.place;
    const Shape in = without_batch(x);
    try {
      if (in.empty()) throw ValueError("there is no dimension left");
      ModulePtr made = kLayers[size_t(layer.type)](layer, {in, data.vocab_size(), device});
      x = made->eval()(x);
      made->train();
      model->add(std::move(made));
    } catch (const Error& error) {
      if (dynamic_cast<const OutOfMemoryError*>(&error) ||
          dynamic_cast<const AcceleratorError*>(&error)) {
        throw;
      }
      throw ConfigError(located(
          place, cat("does not fit its input of shape ", in, " (a sample's): ", error.what())));
    }
  }
  const Shape out = without_batch(x);
  if (out == data.output_shape()) return model;
  throw ConfigError(located(
      place,
      cat("the model's last layer gives shape ", out, ", but the data need ", data.output_shape(),
          out.size() > data.output_shape().size() ? ": put a flatten layer before it" : "",
          out.size() == data.output_shape().size() ? cat(": end with `linear: ", data.outputs, "`")
                                                   : "")));
}

LayerConfig linear(int64_t width) { return {.type = LayerType::kLinear, .out_features = width}; }
void add_dropout(std::vector<LayerConfig>& layers, double p) {
  if (p > 0) layers.push_back({.type = LayerType::kDropout, .p = p});
}

// The layers that an mlp is short for.
std::vector<LayerConfig> layers_of(const MlpConfig& c, const DataInfo& data) {
  std::vector<LayerConfig> layers;
  if (data.input_shape.size() > 1) layers.push_back({.type = LayerType::kFlatten});
  for (const int64_t width : c.hidden) {
    layers.push_back(linear(width));
    layers.push_back({.type = c.activation});
    add_dropout(layers, c.dropout);
  }
  layers.push_back(linear(data.outputs));
  return layers;
}

std::vector<LayerConfig> layers_of(const CnnConfig& c, const DataInfo& data) {
  std::vector<LayerConfig> layers;
  for (const int64_t channels : c.channels) {
    layers.push_back({.type = LayerType::kConv2d, .out_channels = channels, .kernel_size = 3});
    layers.push_back({.type = LayerType::kRelu});
  }
  layers.push_back({.type = LayerType::kMaxPool2d, .kernel_size = 2});
  add_dropout(layers, c.dropout[0]);
  layers.push_back({.type = LayerType::kFlatten});
  layers.push_back(linear(c.hidden));
  layers.push_back({.type = LayerType::kRelu});
  add_dropout(layers, c.dropout[1]);
  layers.push_back(linear(data.outputs));
  return layers;
}

std::map<std::string, ModelFactory>& registry() {
  static std::map<std::string, ModelFactory> models;
  return models;
}

ModulePtr build_custom(const ModelConfig& config, const DataInfo& data, Device device) {
  const std::string& name = config.custom.name;
  if (const auto found = registry().find(name); found != registry().end()) {
    return found->second(config.custom.options, data, device);
  }
  std::string names;
  for (const auto& [known, factory] : registry()) names += cat(names.empty() ? "" : ", ", known);
  throw ConfigError(located(
      config.place,
      cat("no model '", name, "' is registered",
          names.empty() ? "; the program that registers it is to be run in place of this one"
                        : cat("; there are ", names))));
}

// What a ready-made model takes.
void require(bool fits, const ModelConfig& config, const DataInfo& data, const char* takes) {
  if (fits) return;
  throw ConfigError(
      located(config.place, cat("this model takes ", takes, ", but the data have samples of shape ",
                                data.input_shape, data.vocab_size() > 0 ? " (tokens)" : "",
                                " and targets that need ", data.output_shape())));
}

}  // namespace

Tensor sample_batch(const DataInfo& data, int64_t count, Device device) {
  Shape shape = data.input_shape;
  shape.insert(0, count);
  return zeros(shape, {.dtype = data.vocab_size() > 0 ? kInt64 : kFloat32, .device = device});
}

ModulePtr build_model(const ModelConfig& config, const DataInfo& data, Device device) {
  const Shape in = data.input_shape, out = data.output_shape();
  const bool tokens = data.vocab_size() > 0 && in.size() == 1;
  switch (config.type) {
    case ModelType::kMlp:
      require(data.vocab_size() == 0, config, data, "numbers");
      return build_sequential(layers_of(config.mlp, data), data, device, config.place);
    case ModelType::kCnn:
      require(in.size() == 3, config, data, "images");
      return build_sequential(layers_of(config.cnn, data), data, device, config.place);
    case ModelType::kResNet18:
      require(in.size() == 3 && out.size() == 1, config, data, "images");
      return std::make_unique<ResNet>(resnet18({.num_classes = out[0],
                                                .in_channels = in[0],
                                                .width = config.resnet18.width,
                                                .device = device}));
    case ModelType::kGpt: {
      const GptConfig& c = config.gpt;
      require(tokens && out == Shape{in[0], data.vocab_size()}, config, data, "text");
      return std::make_unique<GPT>(GPTOptions{.vocab_size = data.vocab_size(),
                                              .block_size = in[0],
                                              .n_layer = c.n_layer,
                                              .n_head = c.n_head,
                                              .n_embd = c.n_embd,
                                              .dropout = c.dropout,
                                              .bias = c.bias,
                                              .device = device});
    }
    case ModelType::kLstmClassifier: {
      const LstmClassifierConfig& c = config.lstm_classifier;
      require(tokens && out.size() == 1, config, data, "tokens with a class for each text");
      return std::make_unique<LSTMClassifier>(
          LSTMClassifierOptions{data.vocab_size(), out[0], c.embedding_dim, c.hidden_size,
                                c.num_layers, c.dropout, device});
    }
    case ModelType::kCustom: return build_custom(config, data, device);
    default: return build_sequential(config.sequential.layers, data, device, config.place);
  }
}

void register_model(const std::string& name, ModelFactory factory) {
  if (!registry().emplace(name, std::move(factory)).second) {
    throw ValueError(cat("register_model: there is a model '", name, "' already"));
  }
}

}  // namespace taper::runner
