#include "autograd/ops/random_ops.h"

#include <algorithm>

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/op_helpers.h"
#include "framework/base/describe.h"
#include "framework/kernels/index/index.h"
#include "framework/kernels/random/random.h"

namespace taper::v0 {
namespace {

void check_multinomial(const Tensor& weights, int64_t num_samples, bool replacement) {
  require(weights.dim() == 1 || weights.dim() == 2, "prob_dist must be 1 or 2 dim");
  require(weights.is_floating_point(),
          "multinomial only supports floating-point dtypes for input, got: ",
          scalar_type_name(weights.dtype()));
  const int64_t k = weights.size(-1);
  require(num_samples > 0, "cannot sample n_sample <= 0 samples");
  require(replacement || num_samples <= k,
          "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  require(k <= 1 << 24, "number of categories cannot exceed 2^24");
  require(k != 0, "invalid multinomial distribution (sum of probabilities <= 0)");
}

// Rows of weights [rows, k]. Returns the largest of each row [rows, 1].
Tensor check_weights(const Tensor& w) {
  const Tensor largest = amax(w, {-1}, true);
  kernels::require_all(
      "probability tensor contains either `inf`, `nan` or element < 0 (in multinomial)",
      logical_and(amin(w, {-1}, true) >= 0, largest < kInfinity));
  kernels::require_all(
      "invalid multinomial distribution (sum of probabilities <= 0): all weights of a row are 0",
      largest > 0);
  return largest;
}

void check_probability(double p) {
  require<ValueError>(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ",
                      p);
}

// Linear: the gradient is the same mask, drawn again.
Tensor dropped(const Tensor& x, double p, const PhiloxKey& key, DType result) {
  Tensor y = kernels::dropout(x, p, key, result);
  return linear_in(x, "NativeDropoutBackward0", y, [p, key, from = x.dtype()](const Tensor& dy) {
    return dropped(dy, p, key, from);
  });
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
  Shape channels = x.shape();
  std::fill(channels.begin() + 2, channels.end(), 1);
  const Tensor kept = dropout(ones(channels, options_of(x)), p, training, generator);
  return training && p > 0 ? x * kept : x;
}

Tensor bernoulli(const Tensor& p, Generator* generator) {
  require<NotImplementedError>(p.is_floating_point(), "\"bernoulli_tensor\" not implemented for '",
                               scalar_type_name(p.dtype()), "'");
  kernels::require_all("bernoulli expects every probability to be in [0, 1]",
                       logical_and(p.detach() >= 0, p.detach() <= 1));
  return lt(rand(p.shape(), {.device = p.device()}, generator), p).to(p.dtype());
}

Tensor multinomial(const Tensor& weights, IntArg num_samples, BoolArg replacement,
                   Generator* generator) {
  check_multinomial(weights, num_samples, replacement);
  const NoGradGuard no_grad;
  const DType type = wide_type(weights.dtype());
  const Tensor w = weights.to(type).reshape({-1, weights.size(-1)});
  const int64_t rows = w.size(0);
  const Tensor largest = check_weights(w);
  Tensor picked;
  if (replacement) {
    // Sums of integers are the same in any order. 2^24 weights of at most 2^38 fit.
    const Tensor parts = (w / largest * 0x1p38).to(kInt64);
    const TensorOptions options{.dtype = kFloat64, .device = w.device()};
    picked = kernels::pick(cumsum(parts, -1), rand({rows, num_samples}, options, generator));
  } else {
    // A race: category i arrives after an exponential time q / w. Half the squares of two normals
    // are such a q, and normals have the same bits everywhere.
    const Tensor z = randn({2, rows, w.size(1)}, {.dtype = type, .device = w.device()}, generator);
    const Tensor q = square(z[0]) + square(z[1]);
    picked = topk(w / clamp(q, 1e-30), num_samples).indices;
    kernels::require_all(
        "multinomial without replacement needs as many weights above 0 in each row as it draws",
        gather(w, 1, picked) > 0);
  }
  trace("multinomial", picked, {weights});
  return weights.dim() == 1 ? squeeze(picked, 0) : picked;
}

}  // namespace taper::v0
