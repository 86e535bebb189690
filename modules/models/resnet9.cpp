#include "modules/models/resnet9.h"

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "modules/layers/conv_layers.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/stateless.h"

namespace taper::v0 {
namespace {

void add_convolution(Sequential& to, int64_t in, int64_t out, Device device) {
  to.add(Conv2d(in, out, 3, {.padding = 1, .bias = false, .device = device}));
  to.add(BatchNorm2d(out, {.device = device}));
  to.add(ReLU());
}

Sequential one_convolution(int64_t in, int64_t out, bool halves, Device device) {
  Sequential layer;
  add_convolution(layer, in, out, device);
  if (halves) layer.add(MaxPool2d(2));
  return layer;
}

Sequential two_convolutions(int64_t channels, Device device) {
  Sequential layer;
  add_convolution(layer, channels, channels, device);
  add_convolution(layer, channels, channels, device);
  return layer;
}

}  // namespace

ResNet9::ResNet9(const ResNet9Options& o)
    : prep(*this, "prep", one_convolution(o.in_channels, o.width, false, o.device)),
      layer1(*this, "layer1", one_convolution(o.width, 2 * o.width, true, o.device)),
      residual1(*this, "residual1", two_convolutions(2 * o.width, o.device)),
      layer2(*this, "layer2", one_convolution(2 * o.width, 4 * o.width, true, o.device)),
      layer3(*this, "layer3", one_convolution(4 * o.width, 8 * o.width, true, o.device)),
      residual3(*this, "residual3", two_convolutions(8 * o.width, o.device)),
      fc(*this, "fc", 8 * o.width, o.num_classes, LinearOptions{.bias = false, .device = o.device}),
      scale_(o.scale) {}

Tensor ResNet9::forward(const Tensor& x) {
  const Tensor a = layer1(prep(x));
  const Tensor b = layer3(layer2(a + residual1(a)));
  return fc(amax(b + residual3(b), {2, 3})) * scale_;
}

std::string ResNet9::extra_repr() const { return concat_to_string("scale=", scale_); }

}  // namespace taper::v0
