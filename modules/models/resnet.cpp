#include "modules/models/resnet.h"

#include <array>
#include <memory>
#include <type_traits>

#include "autograd/ops/binary_ops.h"
#include "modules/init.h"

namespace taper::v0 {
namespace {

// Creates a stage of blocks that output `out` channels. Only its first block changes the size.
template <class Block>
Sequential stage(int64_t in, int64_t out, int64_t blocks, int64_t stride, Device device) {
  int64_t width = out;
  if constexpr (std::is_same_v<Block, Bottleneck>) width /= Bottleneck::kExpansion;
  Sequential layer;
  for (int64_t i = 0; i < blocks; ++i) {
    layer.add(std::make_unique<Block>(i == 0 ? in : out, width, i == 0 ? stride : 1, device));
  }
  return layer;
}

// Creates stage i of 0 to 3, of which each doubles the channels of the previous one.
Sequential stage(int i, int64_t blocks, const ResNetOptions& o, ResNetBlock kind) {
  const int64_t stride = i == 0 ? 1 : 2, width = o.width << i;
  if (kind == ResNetBlock::kBasic) {
    return stage<BasicBlock>(i == 0 ? o.width : width / 2, width, blocks, stride, o.device);
  }
  const int64_t out = Bottleneck::kExpansion * width;
  return stage<Bottleneck>(i == 0 ? o.width : out / 2, out, blocks, stride, o.device);
}

BatchNormOptions on(Device device) { return {.device = device}; }
ConvOptions padded(int64_t stride, Device device) {
  return {.stride = stride, .padding = 1, .bias = false, .device = device};
}
ConvOptions pointwise(int64_t stride, Device device) {
  return {.stride = stride, .bias = false, .device = device};
}
// Returns the layers that change the shape of x as a block does.
Sequential shortcut(int64_t in, int64_t out, int64_t stride, Device device) {
  return Sequential(Conv2d(in, out, 1, pointwise(stride, device)), BatchNorm2d(out, on(device)));
}

}  // namespace

BasicBlock::BasicBlock(int64_t in, int64_t out, int64_t stride, Device device)
    : conv1(*this, "conv1", in, out, 3, padded(stride, device)),
      bn1(*this, "bn1", out, on(device)),
      relu(*this, "relu"),
      conv2(*this, "conv2", out, out, 3, padded(1, device)),
      bn2(*this, "bn2", out, on(device)) {
  if (stride == 1 && in == out) return;
  downsample.emplace(*this, "downsample", shortcut(in, out, stride, device));
}

Tensor BasicBlock::forward(const Tensor& x) {
  const Tensor y = conv2(activated(*bn1, *relu, conv1(x)));
  return activated(*bn2, *relu, y, downsample ? (*downsample)(x) : x);
}

Bottleneck::Bottleneck(int64_t in, int64_t width, int64_t stride, Device device)
    : conv1(*this, "conv1", in, width, 1, pointwise(1, device)),
      bn1(*this, "bn1", width, on(device)),
      conv2(*this, "conv2", width, width, 3, padded(stride, device)),
      bn2(*this, "bn2", width, on(device)),
      conv3(*this, "conv3", width, kExpansion * width, 1, pointwise(1, device)),
      bn3(*this, "bn3", kExpansion * width, on(device)),
      relu(*this, "relu") {
  const int64_t out = kExpansion * width;
  if (stride == 1 && in == out) return;
  downsample.emplace(*this, "downsample", shortcut(in, out, stride, device));
}

Tensor Bottleneck::forward(const Tensor& x) {
  const Tensor first = activated(*bn1, *relu, conv1(x));
  const Tensor y = conv3(activated(*bn2, *relu, conv2(first)));
  return activated(*bn3, *relu, y, downsample ? (*downsample)(x) : x);
}

ResNet::ResNet(const std::array<int64_t, 4>& blocks, ResNetOptions o, ResNetBlock block)
    : conv1(*this, "conv1", o.in_channels, o.width, 7,
            ConvOptions{.stride = 2, .padding = 3, .bias = false, .device = o.device}),
      bn1(*this, "bn1", o.width, on(o.device)),
      relu(*this, "relu"),
      maxpool(*this, "maxpool", 3, MaxPoolOptions{.stride = 2, .padding = 1}),
      layer1(*this, "layer1", stage(0, blocks[0], o, block)),
      layer2(*this, "layer2", stage(1, blocks[1], o, block)),
      layer3(*this, "layer3", stage(2, blocks[2], o, block)),
      layer4(*this, "layer4", stage(3, blocks[3], o, block)),
      avgpool(*this, "avgpool", 1),
      fc(*this, "fc", 8 * o.width * (block == ResNetBlock::kBasic ? 1 : Bottleneck::kExpansion),
         o.num_classes, LinearOptions{.device = o.device}) {
  for (const auto& [name, p] : named_parameters()) {
    if (p.dim() == 4) init::kaiming_normal_(p, {.mode = "fan_out", .nonlinearity = "relu"});
  }
}

Tensor ResNet::forward(const Tensor& x) {
  const Tensor stem = maxpool(activated(*bn1, *relu, conv1(x)));
  return fc(avgpool(layer4(layer3(layer2(layer1(stem))))).flatten(1));
}

ResNet resnet18(ResNetOptions options) { return ResNet({2, 2, 2, 2}, options); }
ResNet resnet34(ResNetOptions options) { return ResNet({3, 4, 6, 3}, options); }
ResNet resnet50(ResNetOptions options) {
  return ResNet({3, 4, 6, 3}, options, ResNetBlock::kBottleneck);
}
ResNet resnet101(ResNetOptions options) {
  return ResNet({3, 4, 23, 3}, options, ResNetBlock::kBottleneck);
}
ResNet resnet152(ResNetOptions options) {
  return ResNet({3, 8, 36, 3}, options, ResNetBlock::kBottleneck);
}

}  // namespace taper::v0
