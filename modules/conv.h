// Convolutions (https://pytorch.org/docs/stable/generated/torch.nn.Conv2d.html).
#pragma once

#include "framework/kernels/conv.h"
#include "modules/module.h"

namespace taper {

struct ConvOptions {
  Pair stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  Device device = DeviceType::cpu;
};

// x [N, in_channels, H, W] to [N, out_channels, H', W'], in channels-last memory. weight
// [out, in / groups, kh, kw] and bias [out] are drawn from U(-1/sqrt(n), 1/sqrt(n)) with
// n = in / groups * kh * kw. Throws ValueError for sizes that are not positive and for groups that
// do not divide the channels.
class Conv2d : public Module {
 public:
  Conv2d(int64_t in_channels, int64_t out_channels, Pair kernel_size, ConvOptions options = {});

  Tensor forward(const Tensor& x) override;
  std::string type_name() const override { return "Conv2d"; }
  std::string extra_repr() const override;

  const int64_t in_channels, out_channels;
  const Pair kernel_size;
  const Conv2dOptions options;
  Parameter weight;
  Parameter bias;
};

}  // namespace taper
