#include "autograd/ops/nn/sync_batch_norm.h"

#include "autograd/ops/op_helpers.h"
#include "framework/distributed/communicator.h"
#include "framework/kernels/norm/norm.h"

namespace taper::v0 {
namespace {

using kernels::Norm;

// The statistics over all ranks, combined in the order of the ranks, so that all have equal bits.
struct Statistics {
  Tensor mean, var;  // [C]
  Tensor count;      // 0-dim: number of elements per channel
};

// Combines all parts at once (Chan, Golub and LeVeque, 1979).
Statistics joined(const Norm& norm, int64_t count, const distributed::Communicator& ranks) {
  const int64_t channels = norm.sizes.channels, parts = ranks.size();
  const Tensor own =
      empty({2 * channels + 1}, {.dtype = norm.mean.dtype(), .device = norm.mean.device()});
  own.narrow(0, 0, channels).copy_(norm.mean);
  own.narrow(0, channels, channels).copy_(reciprocal(square(norm.rstd)) - norm.eps);
  own.narrow(0, 2 * channels, 1).fill_(double(count));
  const Tensor all = Tensor::make({parts, 2 * channels + 1}, own.dtype(), own.device());
  ranks.all_gather(all, own).wait();
  const Tensor means = all.narrow(1, 0, channels), vars = all.narrow(1, channels, channels);
  const Tensor counts = all.narrow(1, 2 * channels, 1), total = counts.sum();
  const Tensor mean = (means * counts).sum({0}) / total;
  const Tensor var = ((vars + square(means - mean)) * counts).sum({0}) / total;
  return {mean, var, total};
}

}  // namespace

Tensor sync_batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                       const Tensor& weight, const Tensor& bias,
                       const distributed::Communicator& ranks, RealArg momentum, RealArg eps) {
  require(x.dim() >= 2, "sync_batch_norm expects an input [N, C, ...], got shape ", x.shape());
  const int64_t channels = x.shape()[1], count = x.numel() / std::max<int64_t>(1, channels);
  require<ValueError>(count != 0, "sync_batch_norm: no elements in shape ", x.shape());
  Norm norm{{x.shape()[0], channels, count / x.shape()[0], 0}, eps};
  Tensor y, share;
  {
    const NoGradGuard no_grad;
    kernels::batch_statistics(norm, x);
    const auto [mean, var, total] = joined(norm, count, ranks);
    share = reciprocal(total) * double(count);
    norm.given = true;
    norm.weight = weight;
    norm.bias = bias;
    y = kernels::norm(norm, x, x.dtype(), {.mean = mean, .var = var});
    if (running_mean.defined()) {
      running_mean.add_((mean - running_mean) * momentum);
      running_var.add_((var * (total / (total - 1)) - running_var) * momentum);
    }
  }
  if (!needs_grad({x, weight, bias})) return y;
  norm.weight = norm.bias = {};
  norm.given = false;
  return record("SyncBatchNormBackward0", std::move(y), {x, weight, bias},
                [norm, share, ranks, x = SavedTensor(x), weight = SavedTensor(weight),
                 bias_meta = TensorMeta(bias)](Gradients& g) {
                  refuse_second_derivative("sync_batch_norm", g.dy());
                  Norm full = norm;
                  full.weight = weight.get(g);
                  // The kernel divides by this rank's count; `share` corrects that to the count of
                  // all ranks.
                  const auto join = [&](const kernels::ChannelSums& own) {
                    const Tensor dots = own.dots.clone(), sums = own.sums.clone();
                    ranks.all_reduce(std::vector{dots, sums}).wait();
                    return kernels::ChannelSums{dots * share, sums * share};
                  };
                  const kernels::NormGradients d =
                      kernels::norm_backward(full, g.dy(), x.get(g), {}, g.needs(0), true, join);
                  g.dx(0) = d.dx;
                  if (g.needs(1)) g.dx(1) = d.of_channels.dots.to(full.weight.dtype());
                  if (g.needs(2)) g.dx(2) = d.of_channels.sums.to(bias_meta.dtype);
                });
}

}  // namespace taper::v0
