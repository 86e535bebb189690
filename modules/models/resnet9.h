// The small residual network of public speed runs on CIFAR-10 (D. Page, "How to Train Your ResNet",
// https://github.com/davidcpage/cifar10-fast).
#pragma once

#include "framework/base/describe.h"
#include "modules/layers/containers.h"
#include "modules/layers/linear.h"

namespace taper::v0 {

struct ResNet9Options {
  int64_t num_classes = 10;
  int64_t in_channels = 3;
  int64_t width = 64;    // channels at the full size; they double with each halving
  double scale = 0.125;  // factor of the logits
  Device device = DeviceType::kCpu;

  // Describes the fields except those that the data determine.
  template <class V> void describe(V& v) {
    v("width", width, {1, 1 << 16}, "channels at the full size; each halving doubles them");
    v("scale", scale, kPositive, "factor of the outputs");
  }
};

// Maps x [N, in_channels, H, W] to scale * logits [N, num_classes]. Eight convolutions with kernel
// size 3, each followed by batch norm and ReLU, halve the image three times; two pairs of them are
// added to their input. The largest values of each channel are the input of the last layer, which
// has no bias. H and W must be at least 8.
class ResNet9 : public Cloneable<ResNet9> {
 public:
  explicit ResNet9(const ResNet9Options& options = {});

  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

  Child<Sequential> prep, layer1, residual1, layer2, layer3, residual3;
  Child<Linear> fc;

 private:
  double scale_;
};

}  // namespace taper::v0
