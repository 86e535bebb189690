// Convolutions (https://pytorch.org/docs/stable/generated/torch.nn.Conv2d.html).
#pragma once

#include "autograd/ops/nn/conv_ops.h"
#include "autograd/ops/nn/image.h"
#include "framework/base/text_enum.h"
#include "modules/members.h"

namespace taper::v0 {

// What surrounds the image, in the order of PadMode.
struct PaddingModeValues {
  enum class Value : uint8_t { kZeros, kReflect, kReplicate, kCircular };
  static constexpr Value kZeros = Value::kZeros, kReflect = Value::kReflect,
                         kReplicate = Value::kReplicate, kCircular = Value::kCircular;
  static constexpr const char* kOption = "padding_mode";
  static constexpr const char* kWords[] = {"zeros", "reflect", "replicate", "circular"};
};
using PaddingMode = TextEnum<PaddingModeValues>;

struct ConvOptions {
  Pair stride = 1;
  ConvPadding padding = 0;
  Pair dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  PaddingMode padding_mode = PaddingMode::kZeros;
  Device device = DeviceType::kCpu;
};

struct ConvTransposeOptions {
  Pair stride = 1, padding = 0, output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
  Pair dilation = 1;
  Device device = DeviceType::kCpu;
};

// The part that Conv and ConvTranspose share. In one dimension, the second number (w) of each pair
// is used. Throws ValueError for sizes that are not positive, and for groups that do not divide the
// channels.
template <class LayerOptions> class ConvBase : public Module {
 public:
  using Options = LayerOptions;

  Tensor forward(const Tensor& x) override { return convolve(x, Activation::kNone); }
  std::string type_name() const override;
  std::string extra_repr() const override;

  int64_t in_channels, out_channels;
  Pair kernel_size;
  Options options;
  Parameter weight, bias;

 protected:
  ConvBase(int dims, IntArg in_channels, IntArg out_channels, Pair kernel_size, const Options& o);
  Tensor convolve(const Tensor& x, Activation activation) const;

 private:
  int dims_;  // number of spatial dimensions
};

// Maps x [N, in_channels, L] or [N, in_channels, H, W] to [N, out_channels, ...] in channels-last
// memory; x may lack the batch dimension N. weight [out, in / groups, kernel...] and bias [out] are
// drawn from U(-1/sqrt(n), 1/sqrt(n)), where n = in / groups * number of kernel elements.
template <int kDims> class Conv : public Cloneable<Conv<kDims>, ConvBase<ConvOptions>> {
 public:
  Conv(IntArg in, IntArg out, Pair kernel, const ConvOptions& o = {})
      : Conv::Cloneable(kDims, in, out, kernel, o) {}
  using Module::operator();
  // Returns activation(y), computed in one pass. Conv2d only.
  Tensor operator()(const Tensor& x, Activation activation) requires(kDims == 2) {
    return this->call_with_hooks([this](const auto&... a) { return this->convolve(a...); }, x,
                                 activation);
  }
};
using Conv1d = Conv<1>;
using Conv2d = Conv<2>;

// The transpose of a convolution by Conv (conv_transpose2d). weight [in, out / groups, kernel...]
// and bias are drawn from U(-1/sqrt(n), 1/sqrt(n)), where n = out / groups * number of kernel
// elements.
template <int kDims>
class ConvTranspose : public Cloneable<ConvTranspose<kDims>, ConvBase<ConvTransposeOptions>> {
 public:
  ConvTranspose(IntArg in, IntArg out, Pair kernel, const ConvTransposeOptions& o = {})
      : ConvTranspose::Cloneable(kDims, in, out, kernel, o) {}
};
using ConvTranspose1d = ConvTranspose<1>;
using ConvTranspose2d = ConvTranspose<2>;

}  // namespace taper::v0
