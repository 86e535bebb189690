#include "apps/runner/model.h"

#include "apps/runner/errors.h"
#include "modules/activation.h"
#include "modules/dropout.h"
#include "modules/linear.h"
#include "modules/shape.h"
#include "optim/adam.h"
#include "optim/sgd.h"

namespace taper::runner {
namespace {

// The layers that an mlp is short for.
std::vector<LayerConfig> layers_of(const MlpConfig& config, const Shape& input_shape,
                                   int64_t outputs) {
  std::vector<LayerConfig> layers;
  const auto add_linear = [&](int64_t width) {
    layers.push_back({.type = LayerType::kLinear, .linear = {.out_features = width}});
  };
  if (input_shape.size() > 1) layers.push_back({.type = LayerType::kFlatten});
  for (const int64_t hidden : config.hidden) {
    add_linear(hidden);
    layers.push_back({.type = config.activation});
    if (config.dropout > 0) {
      layers.push_back({.type = LayerType::kDropout, .dropout = {.p = config.dropout}});
    }
  }
  add_linear(outputs);
  return layers;
}

// One layer for inputs of `shape` (without the batch); `shape` becomes that of its outputs.
std::unique_ptr<Module> make_layer(const LayerConfig& layer, Shape& shape, Device device) {
  switch (layer.type) {
    case LayerType::kLinear: {
      if (shape.size() != 1) {
        throw ConfigError(
            located(layer.place, cat("linear takes one dimension of features, but its "
                                     "input has shape ",
                                     shape, ": put a flatten layer before it")));
      }
      const int64_t in = shape[0], out = layer.linear.out_features;
      shape = {out};
      return std::make_unique<Linear>(in, out,
                                      LinearOptions{.bias = layer.linear.bias, .device = device});
    }
    case LayerType::kFlatten: shape = {shape.numel()}; return std::make_unique<Flatten>();
    case LayerType::kDropout: return std::make_unique<Dropout>(layer.dropout.p);
    case LayerType::kLeakyRelu: return std::make_unique<LeakyReLU>(layer.leaky_relu.negative_slope);
    case LayerType::kGelu: return std::make_unique<GELU>();
    case LayerType::kTanh: return std::make_unique<Tanh>();
    case LayerType::kSigmoid: return std::make_unique<Sigmoid>();
    case LayerType::kSilu: return std::make_unique<SiLU>();
    default: return std::make_unique<ReLU>();
  }
}

template <class Options> Options options_of(const AdamConfig& c) {
  return {c.lr, c.betas[0], c.betas[1], c.eps, c.weight_decay};
}

}  // namespace

std::unique_ptr<Sequential> build_model(const ModelConfig& config, const Shape& input_shape,
                                        int64_t outputs, Device device) {
  const std::vector<LayerConfig> layers = config.type == ModelType::kMlp
                                              ? layers_of(config.mlp, input_shape, outputs)
                                              : config.sequential.layers;
  auto model = std::make_unique<Sequential>();
  Shape shape = input_shape;
  for (const LayerConfig& layer : layers) model->add(make_layer(layer, shape, device));
  if (shape == Shape{outputs}) return model;
  throw ConfigError(
      located(layers.empty() ? config.place : layers.back().place,
              cat("the model's last layer gives shape ", shape, ", but the data need [", outputs,
                  "]: end with `linear: ", outputs, "`")));
}

std::unique_ptr<optim::Optimizer> build_optimizer(const OptimizerConfig& config,
                                                  const Module& model) {
  const std::vector<Tensor> params = model.parameters();
  if (params.empty()) throw ConfigError("the model has no parameters to train");
  if (config.type == OptimizerType::kSgd) {
    const SgdConfig& c = config.sgd;
    return std::make_unique<optim::SGD>(
        params, optim::SGDOptions{c.lr, c.momentum, 0, c.weight_decay, c.nesterov});
  }
  if (config.type == OptimizerType::kAdam) {
    return std::make_unique<optim::Adam>(params, options_of<optim::AdamOptions>(config.adam));
  }
  return std::make_unique<optim::AdamW>(params, options_of<optim::AdamWOptions>(config.adamw));
}

}  // namespace taper::runner
