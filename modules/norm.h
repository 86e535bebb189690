// Normalisation layers (https://pytorch.org/docs/stable/nn.html#normalization-layers).
#pragma once

#include "modules/module.h"

namespace taper {

struct BatchNormOptions {
  double eps = 1e-5, momentum = 0.1;
  bool affine = true;
  bool track_running_stats = true;
  Device device = DeviceType::cpu;
};

// x [N, num_features, H, W], normalised over all but the channels: by the batch's own mean and
// variance while training (which then enter the running ones) and where none are tracked, else by
// the running ones.
class BatchNorm2d : public Module {
 public:
  explicit BatchNorm2d(int64_t num_features, BatchNormOptions options = {});

  Tensor forward(const Tensor& x) override;
  std::string type_name() const override { return "BatchNorm2d"; }
  std::string extra_repr() const override;

  const int64_t num_features;
  const BatchNormOptions options;
  Parameter weight, bias;                                 // undefined without affine
  Buffer running_mean, running_var, num_batches_tracked;  // undefined when not tracked
};

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;
  bool bias = true;
  Device device = DeviceType::cpu;
};

// Normalised over the last dimensions, which must be normalized_shape.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const Shape& normalized_shape, LayerNormOptions options = {});

  Tensor forward(const Tensor& x) override;
  std::string type_name() const override { return "LayerNorm"; }
  std::string extra_repr() const override;

  const Shape normalized_shape;
  const LayerNormOptions options;
  Parameter weight, bias;
};

}  // namespace taper
