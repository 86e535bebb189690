// Initialization of parameters (https://pytorch.org/docs/stable/nn.init.html). The functions have
// PyTorch's names and are in the namespace taper::init: init::kaiming_normal_(layer.weight, {.mode
// = "fan_out", .nonlinearity = "relu"}). Each function changes the tensor in place, outside of the
// tape, and returns it. Random numbers come from the given generator or the default one, with the
// same bits on every device.
#pragma once

#include <optional>
#include <string>

#include "framework/base/text_enum.h"
#include "framework/factory/generator.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::init {

Tensor uniform_(const Tensor& x, double a = 0, double b = 1, Generator* generator = nullptr);
Tensor normal_(const Tensor& x, double mean = 0, double std = 1, Generator* generator = nullptr);
Tensor constant_(const Tensor& x, double value);
Tensor ones_(const Tensor& x);
Tensor zeros_(const Tensor& x);
// Writes ones on the diagonal of a matrix and zeros elsewhere.
Tensor eye_(const Tensor& x);

// What follows a weight. The gain of convolutions and of sigmoid is 1, as that of linear.
struct NonlinearityValues {
  enum class Value : uint8_t {
    kLinear,
    kConv1d,
    kConv2d,
    kConv3d,
    kConvTranspose1d,
    kConvTranspose2d,
    kConvTranspose3d,
    kSigmoid,
    kTanh,
    kRelu,
    kLeakyRelu,
    kSelu
  };
  static constexpr Value kLinear = Value::kLinear, kConv1d = Value::kConv1d,
                         kConv2d = Value::kConv2d, kConv3d = Value::kConv3d,
                         kConvTranspose1d = Value::kConvTranspose1d,
                         kConvTranspose2d = Value::kConvTranspose2d,
                         kConvTranspose3d = Value::kConvTranspose3d, kSigmoid = Value::kSigmoid,
                         kTanh = Value::kTanh, kRelu = Value::kRelu, kLeakyRelu = Value::kLeakyRelu,
                         kSelu = Value::kSelu;
  static constexpr const char* kOption = "nonlinearity";
  static constexpr const char* kWords[] = {
      "linear",           "conv1d",  "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
      "conv_transpose3d", "sigmoid", "tanh",   "relu",   "leaky_relu",       "selu"};
};
using Nonlinearity = TextEnum<NonlinearityValues>;

// Returns the factor of the standard deviation that preserves the variance across a nonlinearity.
// `param` is the slope of leaky_relu.
double calculate_gain(Nonlinearity nonlinearity, std::optional<double> param = std::nullopt);

// The number of inputs and outputs of a layer with the weight [out, in, ...], per element of the
// result.
struct Fans {
  double in, out;
};
Fans calculate_fan_in_and_fan_out(const Tensor& x);

// Draws with the variance gain^2 * 2 / (fan_in + fan_out) (Glorot and Bengio, 2010).
Tensor xavier_uniform_(const Tensor& x, double gain = 1, Generator* generator = nullptr);
Tensor xavier_normal_(const Tensor& x, double gain = 1, Generator* generator = nullptr);

// Whether the variance of the outputs (kFanIn) or of the gradients (kFanOut) is preserved.
struct FanModeValues {
  enum class Value : uint8_t { kFanIn, kFanOut };
  static constexpr Value kFanIn = Value::kFanIn, kFanOut = Value::kFanOut;
  static constexpr const char* kOption = "mode";
  static constexpr const char* kWords[] = {"fan_in", "fan_out"};
};
using FanMode = TextEnum<FanModeValues>;

struct KaimingOptions {
  double a = 0;  // slope of leaky_relu
  FanMode mode = FanMode::kFanIn;
  Nonlinearity nonlinearity = Nonlinearity::kLeakyRelu;
  Generator* generator = nullptr;
};
// Draws with the variance gain^2 / fan (He et al., 2015).
Tensor kaiming_uniform_(const Tensor& x, const KaimingOptions& options = {});
Tensor kaiming_normal_(const Tensor& x, const KaimingOptions& options = {});

struct TruncNormalOptions {
  double mean = 0, std = 1;
  double a = -2, b = 2;
  Generator* generator = nullptr;
};
// Draws from N(mean, std^2) truncated to [a, b], by the inverse of its distribution function.
// Computed in double on the host and copied.
//
//   trunc_normal_(x, {.std = 0.02});
Tensor trunc_normal_(const Tensor& x, const TruncNormalOptions& options);
Tensor trunc_normal_(const Tensor& x, double mean = 0, double std = 1, double a = -2, double b = 2,
                     Generator* generator = nullptr);
// Writes gain times a matrix [x.size(0), rest] whose rows or columns, whichever are fewer, are
// orthonormal (Saxe et al., 2013). It is the Q of the QR decomposition of a normal random matrix,
// with a positive diagonal of R. Computed in double on the host and copied.
Tensor orthogonal_(const Tensor& x, double gain = 1, Generator* generator = nullptr);

}  // namespace taper::v0::init

namespace taper::v0 {

// Checks an argument of a constructor and returns it. Throws an E with the text if the condition
// does not hold.
template <class E = ValueError, class T, class... Text>
const T& checked(const T& given, bool holds, const Text&... text) {
  require<E>(holds, text...);
  return given;
}
// Returns a float32 tensor drawn from U(-bound, bound).
Tensor uniform_within(double bound, const Shape& shape, Device device);
// Returns the weight [out, in, ...] or bias [out] of Linear and of the convolutions. It is drawn
// from U(-b, b) with b = 1 / sqrt(fan_in of the weight), as by kaiming_uniform_ with a = sqrt(5).
Tensor fan_in_uniform(const Shape& weight, const Shape& shape, Device device);

}  // namespace taper::v0
