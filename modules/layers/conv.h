// Convolutions (https://pytorch.org/docs/stable/generated/torch.nn.Conv2d.html).
#pragma once

#include "autograd/ops/nn/conv.h"
#include "autograd/ops/nn/image.h"
#include "modules/module.h"

namespace taper::inline v0 {

struct ConvOptions {
  Pair stride = 1;
  ConvPadding padding = 0;
  Pair dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  PadMode padding_mode = PadMode::zeros;
  Device device = DeviceType::cpu;
};

// x [N, in_channels, L] or [N, in_channels, H, W] to [N, out_channels, ...], in channels-last
// memory; without N where x has no batch. weight [out, in / groups, kernel...] and bias [out] are
// drawn from U(-1/sqrt(n), 1/sqrt(n)) with n = in / groups * kernel's numel. Of pairs one dimension
// takes the w. Throws ValueError for sizes that are not positive and for groups that do not divide
// the channels.
template <int kDims> class Conv : public Cloneable<Conv<kDims>> {
 public:
  using Options = ConvOptions;

  Conv(int64_t in_channels, int64_t out_channels, Pair kernel_size,
       const ConvOptions& options = {});

  Tensor forward(const Tensor& x) override { return convolve(x, Activation::none); }
  using Module::operator();
  // activation(y), in one pass; of Conv2d.
  Tensor operator()(const Tensor& x, Activation activation) requires(kDims == 2) {
    return this->within([this](const auto&... a) { return convolve(a...); }, x, activation);
  }
  std::string type_name() const override { return cat("Conv", kDims, "d"); }
  std::string extra_repr() const override;

  const int64_t in_channels, out_channels;
  const Pair kernel_size;
  const ConvOptions options;
  Parameter weight;
  Parameter bias;

 private:
  Tensor convolve(const Tensor& x, Activation activation);
};
using Conv1d = Conv<1>;
using Conv2d = Conv<2>;

struct ConvTransposeOptions {
  Pair stride = 1, padding = 0, output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
  Pair dilation = 1;
  Device device = DeviceType::cpu;
};

// The transpose of such a convolution (conv_transpose2d), weight [in, out / groups, kernel...]:
// drawn as above, with n = out / groups * kernel's numel.
template <int kDims> class ConvTranspose : public Cloneable<ConvTranspose<kDims>> {
 public:
  using Options = ConvTransposeOptions;

  ConvTranspose(int64_t in_channels, int64_t out_channels, Pair kernel_size,
                const ConvTransposeOptions& options = {});

  Tensor forward(const Tensor& x) override;
  std::string type_name() const override { return cat("ConvTranspose", kDims, "d"); }
  std::string extra_repr() const override;

  const int64_t in_channels, out_channels;
  const Pair kernel_size;
  const ConvTransposeOptions options;
  Parameter weight;
  Parameter bias;
};
using ConvTranspose1d = ConvTranspose<1>;
using ConvTranspose2d = ConvTranspose<2>;

}  // namespace taper::inline v0
