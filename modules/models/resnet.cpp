#include "modules/models/resnet.h"

#include <array>
#include <memory>

#include "autograd/ops/binary_ops.h"
#include "modules/init.h"

namespace taper::v0 {
namespace {

// Creates a stage of blocks. Only its first block changes the size.
Sequential stage(int64_t in, int64_t out, int64_t blocks, int64_t stride, Device device) {
  Sequential layer;
  for (int64_t i = 0; i < blocks; ++i) {
    layer.add(std::make_unique<BasicBlock>(i == 0 ? in : out, out, i == 0 ? stride : 1, device));
  }
  return layer;
}

BatchNormOptions on(Device device) { return {.device = device}; }
ConvOptions padded(int64_t stride, Device device) {
  return {.stride = stride, .padding = 1, .bias = false, .device = device};
}

}  // namespace

BasicBlock::BasicBlock(int64_t in, int64_t out, int64_t stride, Device device)
    : conv1(*this, "conv1", in, out, 3, padded(stride, device)),
      bn1(*this, "bn1", out, on(device)),
      relu(*this, "relu"),
      conv2(*this, "conv2", out, out, 3, padded(1, device)),
      bn2(*this, "bn2", out, on(device)) {
  if (stride == 1 && in == out) return;
  downsample.emplace(*this, "downsample",
                     Conv2d(in, out, 1, {.stride = stride, .bias = false, .device = device}),
                     BatchNorm2d(out, on(device)));
}

Tensor BasicBlock::forward(const Tensor& x) {
  const Tensor y = bn2(conv2(relu(bn1(conv1(x)))));
  return relu(y + (downsample ? (*downsample)(x) : x));
}

ResNet::ResNet(const std::array<int64_t, 4>& blocks, ResNetOptions o)
    : conv1(*this, "conv1", o.in_channels, o.width, 7,
            ConvOptions{.stride = 2, .padding = 3, .bias = false, .device = o.device}),
      bn1(*this, "bn1", o.width, on(o.device)),
      relu(*this, "relu"),
      maxpool(*this, "maxpool", 3, MaxPoolOptions{.stride = 2, .padding = 1}),
      layer1(*this, "layer1", stage(o.width, o.width, blocks[0], 1, o.device)),
      layer2(*this, "layer2", stage(o.width, 2 * o.width, blocks[1], 2, o.device)),
      layer3(*this, "layer3", stage(2 * o.width, 4 * o.width, blocks[2], 2, o.device)),
      layer4(*this, "layer4", stage(4 * o.width, 8 * o.width, blocks[3], 2, o.device)),
      avgpool(*this, "avgpool", 1),
      fc(*this, "fc", 8 * o.width, o.num_classes, LinearOptions{.device = o.device}) {
  for (const auto& [name, p] : named_parameters()) {
    if (p.dim() == 4) init::kaiming_normal_(p, {.mode = "fan_out", .nonlinearity = "relu"});
  }
}

Tensor ResNet::forward(const Tensor& x) {
  const Tensor stem = maxpool(relu(bn1(conv1(x))));
  return fc(avgpool(layer4(layer3(layer2(layer1(stem))))).flatten(1));
}

ResNet resnet18(ResNetOptions options) { return ResNet({2, 2, 2, 2}, options); }
ResNet resnet34(ResNetOptions options) { return ResNet({3, 4, 6, 3}, options); }

}  // namespace taper::v0
