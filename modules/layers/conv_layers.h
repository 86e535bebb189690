// Convolutions (https://pytorch.org/docs/stable/generated/torch.nn.Conv2d.html).
#pragma once

#include <type_traits>

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

// Options of a convolution with one or two spatial dimensions (Sizes is Pair) or three (Triple),
// also named Conv1d::Options, Conv2d::Options and Conv3d::Options.
template <class SizesType> struct ConvOptionsOf {
  using Sizes = SizesType;

  Sizes stride = 1;
  ConvPaddingOf<Sizes> padding = 0;
  Sizes dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  PaddingMode padding_mode = PaddingMode::kZeros;
  Device device = DeviceType::kCpu;
};
using ConvOptions = ConvOptionsOf<Pair>;

template <class SizesType> struct ConvTransposeOptionsOf {
  using Sizes = SizesType;

  Sizes stride = 1, padding = 0, output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
  Sizes dilation = 1;
  Device device = DeviceType::kCpu;
};
using ConvTransposeOptions = ConvTransposeOptionsOf<Pair>;

// The part that Conv and ConvTranspose share. In one dimension, the second number (w) of each Pair
// is used. Throws ValueError for sizes that are not positive, and for groups that do not divide the
// channels.
template <class LayerOptions> class ConvBase : public Module {
 public:
  using Options = LayerOptions;
  using Sizes = typename Options::Sizes;

  Tensor forward(const Tensor& x) override { return convolve(x, Activation::kNone); }
  std::string type_name() const override;
  std::string extra_repr() const override;

  int64_t in_channels, out_channels;
  Sizes kernel_size;
  Options options;
  Parameter weight, bias;

 protected:
  ConvBase(int dims, IntArg in_channels, IntArg out_channels, const Sizes& kernel_size,
           const Options& o);
  Tensor convolve(const Tensor& x, Activation activation) const;

 private:
  int dims_;  // number of spatial dimensions
};

template <int kDims>
using ConvBaseOf = ConvBase<ConvOptionsOf<std::conditional_t<kDims == 3, Triple, Pair>>>;
template <int kDims>
using ConvTransposeBaseOf =
    ConvBase<ConvTransposeOptionsOf<std::conditional_t<kDims == 3, Triple, Pair>>>;

// Maps x [N, in_channels, L], [N, in_channels, H, W] or [N, in_channels, D, H, W] to [N,
// out_channels, ...] in channels-last memory; x may lack the batch dimension N. weight [out, in /
// groups, kernel...] and bias [out] are drawn from U(-1/sqrt(n), 1/sqrt(n)), where n = in / groups
// * number of kernel elements.
template <int kDims> class Conv : public Cloneable<Conv<kDims>, ConvBaseOf<kDims>> {
  using Base = ConvBaseOf<kDims>;

 public:
  Conv(IntArg in, IntArg out, const typename Base::Sizes& kernel,
       const typename Base::Options& o = {})
      : Conv::Cloneable(kDims, in, out, kernel, o) {}
  using Module::operator();
  // Returns activation(y), computed in one pass. Conv2d and Conv3d only.
  Tensor operator()(const Tensor& x, Activation activation) requires(kDims >= 2) {
    return this->call_with_hooks([this](const auto&... a) { return this->convolve(a...); }, x,
                                 activation);
  }
};
using Conv1d = Conv<1>;
using Conv2d = Conv<2>;
using Conv3d = Conv<3>;

// The transpose of a convolution by Conv (conv_transpose2d). weight [in, out / groups, kernel...]
// and bias are drawn from U(-1/sqrt(n), 1/sqrt(n)), where n = out / groups * number of kernel
// elements.
template <int kDims>
class ConvTranspose : public Cloneable<ConvTranspose<kDims>, ConvTransposeBaseOf<kDims>> {
  using Base = ConvTransposeBaseOf<kDims>;

 public:
  ConvTranspose(IntArg in, IntArg out, const typename Base::Sizes& kernel,
                const typename Base::Options& o = {})
      : ConvTranspose::Cloneable(kDims, in, out, kernel, o) {}
};
using ConvTranspose1d = ConvTranspose<1>;
using ConvTranspose2d = ConvTranspose<2>;
using ConvTranspose3d = ConvTranspose<3>;

}  // namespace taper::v0
