// Residual networks (https://arxiv.org/abs/1512.03385) with torchvision's structure and state-dict
// keys (https://pytorch.org/vision/stable/models/resnet.html).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "framework/base/text_enum.h"
#include "modules/layers/containers.h"
#include "modules/layers/conv_layers.h"
#include "modules/layers/linear.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/stateless.h"

namespace taper::v0 {

struct ResNetOptions {
  int64_t num_classes = 1000;
  int64_t in_channels = 3;
  int64_t width = 64;  // channels of the first stage; they double with each further stage
  Device device = DeviceType::kCpu;

  // Describes the fields except those that the data determine.
  template <class V> void describe(V& v) {
    v("width", width, {1, 1 << 16}, "channels of the first stage; each later stage doubles them");
  }
};

// A residual block, which adds two convolutions of x to x. If the shape changes, x passes through
// `downsample`, a convolution with kernel size 1. Maps [N, in, H, W] to [N, out, H / stride, W /
// stride].
class BasicBlock : public Cloneable<BasicBlock> {
 public:
  BasicBlock(int64_t in, int64_t out, int64_t stride, Device device);

  Tensor forward(const Tensor& x) override;

  Child<Conv2d> conv1;
  Child<BatchNorm2d> bn1;
  Child<ReLU> relu;
  Child<Conv2d> conv2;
  Child<BatchNorm2d> bn2;
  std::optional<Child<Sequential>> downsample;
};

// A residual block of larger networks: a convolution with kernel size 3 between two with kernel
// size 1, which reduce the channels to `width` and raise them to kExpansion * width. Maps [N, in,
// H, W] to [N, kExpansion * width, H / stride, W / stride].
class Bottleneck : public Cloneable<Bottleneck> {
 public:
  static constexpr int64_t kExpansion = 4;

  Bottleneck(int64_t in, int64_t width, int64_t stride, Device device);

  Tensor forward(const Tensor& x) override;

  Child<Conv2d> conv1;
  Child<BatchNorm2d> bn1;
  Child<Conv2d> conv2;
  Child<BatchNorm2d> bn2;
  Child<Conv2d> conv3;
  Child<BatchNorm2d> bn3;
  Child<ReLU> relu;
  std::optional<Child<Sequential>> downsample;
};

// The block of a ResNet's stages: BasicBlock or Bottleneck.
struct ResNetBlockValues {
  enum class Value : uint8_t { kBasic, kBottleneck };
  static constexpr Value kBasic = Value::kBasic, kBottleneck = Value::kBottleneck;
  static constexpr const char* kOption = "block";
  static constexpr const char* kWords[] = {"basic", "bottleneck"};
};
using ResNetBlock = TextEnum<ResNetBlockValues>;

// Maps x [N, in_channels, H, W] to logits [N, num_classes]. The image size is halved five times
// before the average over all pixels is computed. Convolutions are drawn by kaiming_normal_ with
// mode fan_out.
class ResNet : public Cloneable<ResNet> {
 public:
  // blocks: the number of blocks in each of the four stages.
  explicit ResNet(const std::array<int64_t, 4>& blocks, ResNetOptions options = {},
                  ResNetBlock block = ResNetBlock::kBasic);

  Tensor forward(const Tensor& x) override;
  CallStyle call_style() const override { return CallStyle::kPassesOn; }

  Child<Conv2d> conv1;
  Child<BatchNorm2d> bn1;
  Child<ReLU> relu;
  Child<MaxPool2d> maxpool;
  Child<Sequential> layer1, layer2, layer3, layer4;
  Child<AdaptiveAvgPool2d> avgpool;
  Child<Linear> fc;
};

ResNet resnet18(ResNetOptions options = {});
ResNet resnet34(ResNetOptions options = {});
ResNet resnet50(ResNetOptions options = {});
ResNet resnet101(ResNetOptions options = {});
ResNet resnet152(ResNetOptions options = {});

}  // namespace taper::v0
