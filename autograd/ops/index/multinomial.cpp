#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/op_helpers.h"
#include "autograd/ops/random_ops.h"
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

// Checks weights [rows, k] and returns the largest of each row, [rows, 1].
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

}  // namespace

Tensor multinomial(const Tensor& weights, IntArg num_samples, BoolArg replacement,
                   Generator* generator) {
  check_multinomial(weights, num_samples, replacement);
  const NoGradGuard no_grad;
  const DType type = accumulate_type(weights.dtype());
  const Tensor w = weights.to(type).reshape({-1, weights.size(-1)});
  const int64_t rows = w.size(0);
  const Tensor largest = check_weights(w);
  Tensor picked;
  if (replacement) {
    // Integer sums do not depend on the order of addition. 2^24 weights of at most 2^38 cannot
    // overflow.
    const Tensor parts = (w / largest * 0x1p38).to(kInt64);
    const TensorOptions options{.dtype = kFloat64, .device = w.device()};
    picked = kernels::pick(cumsum(parts, -1), rand({rows, num_samples}, options, generator));
  } else {
    // Exponential race: category i arrives after the time q / w, where q is exponentially
    // distributed. The sum of two squared normals is such a q up to a factor, and normals have
    // equal bits on every device.
    const Tensor z = randn({2, rows, w.size(1)}, {.dtype = type, .device = w.device()}, generator);
    const Tensor scores =
        w.is_cpu() ? w / clamp(square(z[0]) + square(z[1]), 1e-30) : kernels::race_scores(w, z);
    picked = topk(scores, num_samples).indices;
    kernels::require_all(
        "multinomial without replacement needs as many weights above 0 in each row as it draws",
        gather(w, 1, picked) > 0);
  }
  trace("multinomial", picked, {weights});
  return weights.dim() == 1 ? squeeze(picked, 0) : picked;
}

}  // namespace taper::v0
