#include "autograd/ops/random_ops.h"

#include <algorithm>

#include "autograd/ops/op_helpers.h"
#include "framework/base/describe.h"
#include "framework/kernels/index/index.h"
#include "framework/kernels/random/random.h"

namespace taper::v0 {
namespace {

void check_probability(double p) {
  require<ValueError>(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ",
                      p);
}

// Applies dropout. The gradient applies the same mask, which is drawn again from `key`.
Tensor dropped(const Tensor& x, double p, const PhiloxKey& key, DType result) {
  Tensor y = kernels::dropout(x, p, key, result);
  return linear_in(x, "NativeDropoutBackward0", y, [p, key, from = x.dtype()](const Tensor& dy) {
    return dropped(dy, p, key, from);
  });
}

// Keeps or zeroes the elements of each channel together. The first dimensions count the channels.
Tensor dropped_channels(const Tensor& x, int dims, double p, bool training, Generator* generator) {
  Shape channels = x.shape();
  std::fill(channels.begin() + dims, channels.end(), 1);
  const Tensor kept = dropout(ones(channels, options_of(x)), p, training, generator);
  return training && p > 0 ? x * kept : x;
}

}  // namespace

Tensor dropout(const Tensor& x, RealArg p, BoolArg training, Generator* generator) {
  check_probability(p);
  if (!training || p == 0) return x;
  return dropped(x, p, next_key(generator), x.dtype());
}

Tensor dropout_add(const Tensor& x, RealArg p, BoolArg training, const Tensor& residual,
                   Generator* generator) {
  check_probability(p);
  const bool widens = is_half(x.dtype()) && residual.dtype() == kFloat32;
  const bool fits = (x.dtype() == residual.dtype() || widens) && x.shape() == residual.shape();
  if (!training || p == 0 || !fits || x.device() != residual.device()) {
    return residual + dropout(x, p, training, generator);
  }
  kernels::check_floating("dropout", x);
  const PhiloxKey key = next_key(generator);
  Tensor y = kernels::dropout_add(x, p, key, residual);
  if (!needs_grad({x, residual})) return y;
  return record("DropoutAddBackward0", y, {x, residual}, [=, type = x.dtype()](Gradients& g) {
    if (g.needs(0)) g.dx(0) = dropped(g.dy(), p, key, type);
    if (g.needs(1)) g.dx(1) = g.dy();
  });
}

Tensor dropout2d(const Tensor& x, RealArg p, BoolArg training, Generator* generator) {
  require(x.dim() >= 2, "Feature dropout requires at least 2 dimensions in the input");
  return dropped_channels(x, 2, p, training, generator);
}

Tensor dropout3d(const Tensor& x, RealArg p, BoolArg training, Generator* generator) {
  require(x.dim() >= 1, "Feature dropout of volumes requires at least 1 dimension in the input");
  return dropped_channels(x, x.dim() == 5 ? 2 : 1, p, training, generator);
}

Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxOptions& options) {
  return gumbel_softmax(logits, options.tau, options.hard, options.dim, options.generator);
}

Tensor gumbel_softmax(const Tensor& logits, RealArg tau, BoolArg hard, IntArg dim,
                      Generator* generator) {
  require(logits.is_floating_point(),
          "gumbel_softmax expects logits of a floating-point dtype, but got ", logits.dtype());
  const DType type = logits.dtype() == kFloat64 ? kFloat64 : kFloat32;
  const DType result = autocasts(logits) ? type : logits.dtype();
  const Tensor u = rand(logits.shape(), {.device = logits.device()}, generator).to(type);
  // -log(1 - u) is an exponential variable. It is 0 for u = 0, where its logarithm would be -inf.
  constexpr double kLeast = 0x1p-26;
  const Tensor noise = neg(log(clamp_min(neg(log1p(neg(u))), kLeast)));
  const Tensor soft = softmax((logits.to(type) + noise) / tau, dim).to(result);
  if (!hard) return soft;
  // The one-hot vector has the values, and the soft point the gradient.
  Tensor one_hot = ones_like(soft);
  if (soft.dim() > 0) {
    Shape line = soft.shape();
    std::fill(line.begin(), line.end(), 1);
    line[wrap_dim(dim, soft.dim())] = soft.size(dim);
    const Tensor places = arange(soft.size(dim), {.device = soft.device()}).view(line);
    one_hot = eq(argmax(soft.detach(), dim, true), places).to(soft.dtype());
  }
  return linear_in(soft, "GumbelSoftmaxBackward", one_hot, [](const Tensor& dy) { return dy; });
}

Tensor bernoulli(const Tensor& p, Generator* generator) {
  require<NotImplementedError>(p.is_floating_point(), "\"bernoulli_tensor\" not implemented for '",
                               scalar_type_name(p.dtype()), "'");
  kernels::require_all("bernoulli expects every probability to be in [0, 1]",
                       logical_and(p.detach() >= 0, p.detach() <= 1));
  return lt(rand(p.shape(), {.device = p.device()}, generator), p).to(p.dtype());
}

}  // namespace taper::v0
