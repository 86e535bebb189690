#include "apps/runner/model.h"

#include "apps/runner/errors.h"
#include "modules/activation.h"
#include "modules/linear.h"
#include "optim/adam.h"
#include "optim/sgd.h"

namespace taper::runner {
namespace {

std::unique_ptr<Module> make_activation(Activation activation) {
  switch (activation) {
    case Activation::kGelu: return std::make_unique<GELU>();
    case Activation::kTanh: return std::make_unique<Tanh>();
    case Activation::kSigmoid: return std::make_unique<Sigmoid>();
    case Activation::kSilu: return std::make_unique<SiLU>();
    case Activation::kLeakyRelu: return std::make_unique<LeakyReLU>();
    default: return std::make_unique<ReLU>();
  }
}

std::unique_ptr<Sequential> build_mlp(const MlpConfig& config, const Shape& input_shape,
                                      int64_t outputs, Device device) {
  auto model = std::make_unique<Sequential>();
  if (input_shape.size() > 1) model->add(std::make_unique<Flatten>());
  int64_t width = input_shape.numel();
  for (const int64_t hidden : config.hidden) {
    model->add(std::make_unique<Linear>(width, hidden, LinearOptions{.device = device}));
    model->add(make_activation(config.activation));
    if (config.dropout > 0) model->add(std::make_unique<Dropout>(config.dropout));
    width = hidden;
  }
  model->add(std::make_unique<Linear>(width, outputs, LinearOptions{.device = device}));
  return model;
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
    case LayerType::kGelu: return make_activation(Activation::kGelu);
    case LayerType::kTanh: return make_activation(Activation::kTanh);
    case LayerType::kSigmoid: return make_activation(Activation::kSigmoid);
    case LayerType::kSilu: return make_activation(Activation::kSilu);
    default: return make_activation(Activation::kRelu);
  }
}

std::unique_ptr<Sequential> build_sequential(const ModelConfig& config, const Shape& input_shape,
                                             int64_t outputs, Device device) {
  auto model = std::make_unique<Sequential>();
  Shape shape = input_shape;
  for (const LayerConfig& layer : config.sequential.layers) {
    model->add(make_layer(layer, shape, device));
  }
  if (shape != Shape{outputs}) {
    const std::vector<LayerConfig>& layers = config.sequential.layers;
    throw ConfigError(
        located(layers.empty() ? config.place : layers.back().place,
                cat("the model's last layer gives shape ", shape, ", but the data need [", outputs,
                    "]: end with `linear: ", outputs, "`")));
  }
  return model;
}

}  // namespace

std::unique_ptr<Sequential> build_model(const ModelConfig& config, const Shape& input_shape,
                                        int64_t outputs, Device device) {
  if (config.type == ModelType::kMlp) return build_mlp(config.mlp, input_shape, outputs, device);
  return build_sequential(config, input_shape, outputs, device);
}

std::unique_ptr<optim::Optimizer> build_optimizer(const OptimizerConfig& config,
                                                  const Module& model) {
  const std::vector<Tensor> params = model.parameters();
  if (params.empty()) throw ConfigError("the model has no parameters to train");
  if (config.type == OptimizerType::kSgd) {
    const SgdConfig& c = config.sgd;
    return std::make_unique<optim::SGD>(
        params, optim::SGDOptions{c.lr, c.momentum, c.weight_decay, c.nesterov});
  }
  if (config.type == OptimizerType::kAdam) {
    const AdamConfig& c = config.adam;
    return std::make_unique<optim::Adam>(
        params, optim::AdamOptions{c.lr, c.betas[0], c.betas[1], c.eps, c.weight_decay});
  }
  const AdamConfig& c = config.adamw;
  return std::make_unique<optim::AdamW>(
      params, optim::AdamWOptions{c.lr, c.betas[0], c.betas[1], c.eps, c.weight_decay});
}

}  // namespace taper::runner
