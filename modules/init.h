// Initial values of parameters (https://pytorch.org/docs/stable/nn.init.html), under PyTorch's
// names in taper::init: init::kaiming_normal_(layer.weight, {.mode = "fan_out", .nonlinearity =
// "relu"}). Each changes the tensor in place, outside the tape, and returns it. Numbers come from
// the generator given, else from the default one: the same bits on every device.
#pragma once

#include <optional>
#include <string>

#include "framework/factory/generator.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::init {

Tensor uniform_(const Tensor& x, double a = 0, double b = 1, Generator* generator = nullptr);
Tensor normal_(const Tensor& x, double mean = 0, double std = 1, Generator* generator = nullptr);
Tensor constant_(const Tensor& x, double value);
Tensor ones_(const Tensor& x);
Tensor zeros_(const Tensor& x);
// A matrix with ones on its diagonal.
Tensor eye_(const Tensor& x);

// The standard deviation by which a nonlinearity ("linear", "conv2d", "sigmoid", "tanh", "relu",
// "leaky_relu" with its slope, "selu") keeps the variance of what it is given.
double calculate_gain(const std::string& nonlinearity, std::optional<double> param = std::nullopt);

// Inputs and outputs of one element of y, for a weight [out, in, ...].
struct Fans {
  double in, out;
};
Fans calculate_fan_in_and_fan_out(const Tensor& x);

// Glorot and Bengio, 2010: variance gain^2 * 2 / (fan_in + fan_out).
Tensor xavier_uniform_(const Tensor& x, double gain = 1, Generator* generator = nullptr);
Tensor xavier_normal_(const Tensor& x, double gain = 1, Generator* generator = nullptr);

struct KaimingOptions {
  double a = 0;  // leaky_relu's slope
  std::string mode = "fan_in";
  std::string nonlinearity = "leaky_relu";
  Generator* generator = nullptr;
};
// He et al., 2015: variance gain^2 / fan.
Tensor kaiming_uniform_(const Tensor& x, const KaimingOptions& options = {});
Tensor kaiming_normal_(const Tensor& x, const KaimingOptions& options = {});

// N(mean, std^2) within [a, b], by the inverse of its distribution function; computed in double on
// the host and copied.
Tensor trunc_normal_(const Tensor& x, double mean = 0, double std = 1, double a = -2, double b = 2,
                     Generator* generator = nullptr);
// gain times a matrix [x.size(0), rest] with orthonormal rows or columns, whichever are fewer
// (Saxe et al., 2013): the Q of normals' QR with a positive diagonal of R. Computed in double on
// the host and copied.
Tensor orthogonal_(const Tensor& x, double gain = 1, Generator* generator = nullptr);

}  // namespace taper::v0::init

namespace taper::v0 {

// What a constructor was given, where that holds; else throws an E with the text.
template <class E = ValueError, class T, class... Text>
const T& checked(const T& given, bool holds, const Text&... text) {
  require<E>(holds, text...);
  return given;
}
// float32, from U(-bound, bound).
Tensor uniform_within(double bound, const Shape& shape, Device device);
// The weight [out, in, ...] or bias [out] of Linear and the convolutions: from U(-b, b) with
// b = 1 / sqrt(the weight's fan_in), which is kaiming_uniform_(a = sqrt(5)).
Tensor fan_in_uniform(const Shape& weight, const Shape& shape, Device device);

}  // namespace taper::v0
