#include "modules/init.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/inplace.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"

namespace taper::v0::init {
namespace {

double variance_of_glorot(const Tensor& x) {
  const Fans fans = calculate_fan_in_and_fan_out(x);
  return 2 / (fans.in + fans.out);
}

// Returns 0 for a tensor without elements, whose fans may be 0.
double he_deviation(const Tensor& x, const KaimingOptions& o) {
  if (x.numel() == 0) return 0;
  const Fans fans = calculate_fan_in_and_fan_out(x);
  return calculate_gain(o.nonlinearity, o.a) /
         std::sqrt(o.mode == FanMode::kFanIn ? fans.in : fans.out);
}

// Returns the number x with erf(x) = y, by Winitzki's approximation, refined by Halley's method.
double inverse_erf(double y) {
  if (std::abs(y) >= 1) return std::copysign(std::numeric_limits<double>::infinity(), y);
  constexpr double kA = 0.147;
  const double log = std::log1p(-y * y), t = 2 / (std::numbers::pi * kA) + log / 2;
  double x = std::copysign(std::sqrt(std::sqrt(t * t - log / kA) - t), y);
  for (int step = 0; step < 3; ++step) {
    const double slope = 2 * std::numbers::inv_sqrtpi * std::exp(-x * x);
    const double newton = (std::erf(x) - y) / slope;
    x -= newton / (1 + x * newton);
  }
  return x;
}

double normal_cdf(double x) { return (1 + std::erf(x / std::numbers::sqrt2)) / 2; }

// Orthonormalizes the rows of v [m, n], m <= n, in place by the Gram-Schmidt process, in blocks by
// matrix products. It runs twice, because one pass leaves rounding errors that grow with the
// condition number.
void orthonormalise(const Tensor& v) {
  constexpr int64_t kBlock = 128;
  const auto remove = [](const Tensor& from, const Tensor& rows) {
    if (rows.size(0) > 0) from.sub_(matmul(matmul(from, rows.t()), rows));
  };
  for (int64_t at = 0; at < v.size(0); at += kBlock) {
    const Tensor block = v.narrow(0, at, std::min(kBlock, v.size(0) - at));
    for (int pass = 0; pass < 2; ++pass) {
      remove(block, v.narrow(0, 0, at));
      for (int64_t i = 0; i < block.size(0); ++i) {
        const Tensor row = block.narrow(0, i, 1);
        remove(row, block.narrow(0, 0, i));
        row.div_(norm(row));
      }
    }
  }
}

}  // namespace

Tensor uniform_(const Tensor& x, double a, double b, Generator* generator) {
  const NoGradGuard no_grad;
  return taper::uniform_(x, a, b, generator);
}
Tensor normal_(const Tensor& x, double mean, double std, Generator* generator) {
  const NoGradGuard no_grad;
  return taper::normal_(x, mean, std, generator);
}
Tensor constant_(const Tensor& x, double value) {
  const NoGradGuard no_grad;
  return x.fill_(value);
}
Tensor ones_(const Tensor& x) { return constant_(x, 1); }
Tensor zeros_(const Tensor& x) { return constant_(x, 0); }

Tensor eye_(const Tensor& x) {
  if (x.dim() != 2) throw ValueError("Only tensors with 2 dimensions are supported");
  const NoGradGuard no_grad;
  const auto count = [&](int dim) { return arange(x.size(dim), {.device = x.device()}); };
  return x.copy_(eq(count(0).unsqueeze(1), count(1)));
}

double calculate_gain(Nonlinearity nonlinearity, std::optional<double> param) {
  switch (nonlinearity) {
    case Nonlinearity::kTanh: return 5.0 / 3;
    case Nonlinearity::kRelu: return std::numbers::sqrt2;
    case Nonlinearity::kSelu: return 3.0 / 4;
    case Nonlinearity::kLeakyRelu: return std::sqrt(2 / (1 + std::pow(param.value_or(0.01), 2)));
    default: return 1;
  }
}

Fans calculate_fan_in_and_fan_out(const Tensor& x) {
  require<ValueError>(
      x.dim() >= 2,
      "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions");
  double field = 1;
  for (int d = 2; d < x.dim(); ++d) field *= double(x.size(d));
  return {double(x.size(1)) * field, double(x.size(0)) * field};
}

Tensor xavier_uniform_(const Tensor& x, double gain, Generator* generator) {
  const double a = gain * std::sqrt(3 * variance_of_glorot(x));
  return init::uniform_(x, -a, a, generator);
}
Tensor xavier_normal_(const Tensor& x, double gain, Generator* generator) {
  return init::normal_(x, 0, gain * std::sqrt(variance_of_glorot(x)), generator);
}

Tensor kaiming_uniform_(const Tensor& x, const KaimingOptions& o) {
  const double bound = std::sqrt(3.0) * he_deviation(x, o);
  return init::uniform_(x, -bound, bound, o.generator);
}
Tensor kaiming_normal_(const Tensor& x, const KaimingOptions& o) {
  return init::normal_(x, 0, he_deviation(x, o), o.generator);
}

Tensor trunc_normal_(const Tensor& x, double mean, double std, double a, double b,
                     Generator* generator) {
  const NoGradGuard no_grad;
  const Tensor values = rand(x.shape(), {.dtype = kFloat64}, generator);
  const double low = normal_cdf((a - mean) / std), high = normal_cdf((b - mean) / std);
  for (double& v : values.span<double>()) {
    const double z = std::numbers::sqrt2 * inverse_erf(2 * (low + v * (high - low)) - 1);
    v = std::clamp(mean + std * z, a, b);
  }
  return x.copy_(values);
}

Tensor trunc_normal_(const Tensor& x, const TruncNormalOptions& options) {
  return trunc_normal_(x, options.mean, options.std, options.a, options.b, options.generator);
}

Tensor orthogonal_(const Tensor& x, double gain, Generator* generator) {
  if (x.dim() < 2) throw ValueError("Only tensors with 2 or more dimensions are supported");
  if (x.numel() == 0) return x;
  const NoGradGuard no_grad;
  const Tensor drawn = randn({x.size(0), x.numel() / x.size(0)}, {.dtype = kFloat64}, generator);
  const bool wide = drawn.size(0) < drawn.size(1);
  // No signs need to be corrected, because the R of the Gram-Schmidt process has a positive
  // diagonal.
  const Tensor q = wide ? drawn : drawn.t().contiguous();
  orthonormalise(q);
  return x.copy_((wide ? q : q.t()).mul_(gain).reshape(x.shape()));
}

}  // namespace taper::v0::init

namespace taper::v0 {

Tensor uniform_within(double bound, const Shape& shape, Device device) {
  return empty(shape, {.device = device}).uniform_(-bound, bound);
}

Tensor fan_in_uniform(const Shape& weight, const Shape& shape, Device device) {
  const double fan_in = double(weight.numel()) / double(weight[0]);
  return uniform_within(1 / std::sqrt(fan_in), shape, device);
}

}  // namespace taper::v0
