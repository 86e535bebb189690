// Convolutions (https://pytorch.org/docs/stable/nn.functional.html#convolution-functions). Results
// have channels-last memory format; contiguous() converts to row-major. Operands have the same
// floating dtype and device, and sizes must match; otherwise the functions throw Error. All are
// differentiable as often as needed and do not synchronize.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include "framework/base/text_enum.h"
#include "framework/kernels/elementwise/activation.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

// kValid is no padding.
struct ConvPaddingModeValues {
  enum class Value : uint8_t { kValid, kSame };
  static constexpr Value kValid = Value::kValid, kSame = Value::kSame;
  static constexpr const char* kOption = "padding";
  static constexpr const char* kWords[] = {"valid", "same"};
};
using ConvPaddingMode = TextEnum<ConvPaddingModeValues>;

// A padding: .padding = 1, {1, 2}, "valid" (none) or "same". "same" gives the output the size of
// the input and requires stride 1. If the padding cannot be symmetric, the extra element is at the
// end. Sizes is Pair, or Triple for three spatial dimensions.
template <class Sizes> struct ConvPaddingOf : Sizes {
  using Sizes::Sizes;
  ConvPaddingOf(Sizes sizes) : Sizes(sizes) {}
  template <std::convertible_to<ConvPaddingMode> T> ConvPaddingOf(const T& word) : mode(word) {}

  bool is_same() const { return mode == ConvPaddingMode(ConvPaddingMode::kSame); }

  std::optional<ConvPaddingMode> mode = {};  // set if a word was given
};
using ConvPadding = ConvPaddingOf<Pair>;
using ConvPadding3d = ConvPaddingOf<Triple>;

struct Conv1dOptions {
  int64_t stride = 1;
  ConvPadding padding = 0;  // uses its width
  int64_t dilation = 1, groups = 1;
};
// A single number applies to both dimensions: {.stride = 2, .padding = {0, 1}}.
struct Conv2dOptions {
  Pair stride = 1;
  ConvPadding padding = 0;
  Pair dilation = 1;
  int64_t groups = 1;
};
// A single number applies to all three dimensions: {.stride = {1, 2, 2}, .padding = 1}.
struct Conv3dOptions {
  Triple stride = 1;
  ConvPadding3d padding = 0;
  Triple dilation = 1;
  int64_t groups = 1;
};

// Computes a convolution in one dimension. x is [N, C, L] or [C, L], weight [O, C / groups, k],
// bias [O]. Returns [N, O, L'] or [O, L'].
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv1dOptions& options = {});
// Computes a convolution in two dimensions. x is [N, C, H, W] or [C, H, W], weight [O, C / groups,
// kh, kw], bias [O]. Applies `activation` to the result; relu is part of the same kernel if the
// device has a fused one.
//
//   conv2d(x, weight, bias, {.stride = 2, .padding = 1});
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {}, Activation activation = Activation::kNone);
// Computes a convolution in three dimensions. x is [N, C, D, H, W] or [C, D, H, W], weight [O, C /
// groups, kd, kh, kw], bias [O]. Applies `activation` as conv2d does.
//
//   conv3d(x, weight, bias, {.stride = {1, 2, 2}, .padding = 1});
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv3dOptions& options = {}, Activation activation = Activation::kNone);

struct ConvTranspose1dOptions {
  int64_t stride = 1, padding = 0, output_padding = 0, groups = 1, dilation = 1;
};
struct ConvTranspose2dOptions {
  Pair stride = 1, padding = 0;
  Pair output_padding = 0;  // added at the end of the result; less than stride or dilation
  int64_t groups = 1;
  Pair dilation = 1;
};
struct ConvTranspose3dOptions {
  Triple stride = 1, padding = 0;
  Triple output_padding = 0;  // added at the end of the result; less than stride or dilation
  int64_t groups = 1;
  Triple dilation = 1;
};
// Computes a transposed convolution in one dimension, which is the gradient of conv1d with respect
// to its input. x is [N, C, L] or [C, L], weight [C, O / groups, k], bias [O]. Returns [N, O, (L -
// 1) * stride - 2 * padding + dilation * (k - 1) + output_padding + 1].
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose1dOptions& options = {});
// Computes a transposed convolution in two dimensions. x is [N, C, H, W] or [C, H, W], weight [C, O
// / groups, kh, kw], bias [O].
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});
// Computes a transposed convolution in three dimensions. x is [N, C, D, H, W] or [C, D, H, W],
// weight [C, O / groups, kd, kh, kw], bias [O].
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose3dOptions& options = {});

}  // namespace taper::v0
