#include "framework/kernels/norm/norm.h"

#include <functional>

#include "framework/kernels/elementwise/binary.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0::kernels {
namespace {

Tensor widened(const Tensor& p, DType wide) { return p.defined() ? packed(p, wide) : p; }

// Returns x in row-major order, except for batch norm with channels-last memory: then the sizes
// describe the order in memory.
Tensor laid_out(const Tensor& x, NormSizes& s) {
  if (s.groups > 0 || !has_channels_last(x)) return dense(x);
  s.outer *= s.inner;
  s.inner = 1;
  return x.detach();
}

// Returns dy in the memory order of x, where x is a result of laid_out.
Tensor laid_out_as(const Tensor& x, const Tensor& dy) {
  if (!has_channels_last(x)) return dense(dy);
  if (has_channels_last(dy)) return dy.detach();
  const Tensor copy = empty_like_layout(x, dy.dtype());
  copy_into(copy, dy);
  return copy;
}

ChannelSums make_sums(const Norm& norm, const Tensor& x) {
  const DType wide = accumulate_type(x.dtype());
  return {Tensor::make({norm.sizes.channels}, wide, x.device()),
          Tensor::make({norm.sizes.channels}, wide, x.device())};
}

ChannelSums channel_sums(const Norm& norm, const Tensor& dy, const Tensor& x) {
  ChannelSums own;
  if (x.numel() == 0) {
    own = make_sums(norm, x);
    fill(own.dots, 0);
    fill(own.sums, 0);
    return own;
  }
  dispatch(
      x.device(), [&] { own = cpu::channel_sums(norm, dy, x); },
      [&] { own = cuda::channel_sums(norm, dy, x); });
  return own;
}

const char* name_of(const Norm& norm) {
  if (norm.sizes.groups == 0) return "batch_norm";
  return norm.rms ? "rms_norm" : norm.sizes.groups == 1 ? "layer_norm" : "group_norm";
}

void run(const Norm& norm, const Tensor& out, const Tensor& dy, const Tensor& x,
         const ChannelSums& of_channels) {
  if (x.numel() == 0) return;
  dispatch<cpu::norm, cuda::norm>({x.device(), name_of(norm)}, norm, out, dy, x, of_channels);
}

void compute_statistics(const Norm& norm, const Tensor& x, const RunningStatistics& running) {
  const DType wide = accumulate_type(x.dtype());
  RunningStatistics here = running;
  here.mean = widened(running.mean, wide);
  here.var = widened(running.var, wide);
  if (x.is_cuda() && x.numel() > 0 && !norm.given) {
    dispatch(
        x.device(), [] {}, [&] { cuda::batch_statistics(norm, x, here); });
  } else {
    const ChannelSums own = norm.given ? ChannelSums() : channel_sums(norm, {}, x);
    on_device<BatchNormKernels>(x.device(), [&](auto k) { k.statistics(norm, x, own, here); });
  }
  if (norm.given || !running.mean.defined()) return;
  if (here.mean.data_ptr() != running.mean.data_ptr()) copy_into(running.mean, here.mean);
  if (here.var.data_ptr() != running.var.data_ptr()) copy_into(running.var, here.var);
}

}  // namespace

Tensor norm(Norm& norm, const Tensor& x, DType result, const RunningStatistics& running) {
  const DType wide = accumulate_type(x.dtype());
  const bool batch = norm.sizes.groups == 0;
  const int64_t count = batch ? norm.sizes.channels : norm.sizes.rows();
  norm.rstd = Tensor::make({count}, wide, x.device());
  if (!norm.rms) norm.mean = Tensor::make({count}, wide, x.device());
  Norm here = norm;
  here.weight = widened(norm.weight, wide);
  here.bias = widened(norm.bias, wide);
  const Tensor from = laid_out(x, here.sizes);
  if (norm.residual.defined()) here.residual = laid_out_as(from, norm.residual);
  const Tensor y = empty_like_layout(from, x.is_cpu() ? x.dtype() : result);
  if (batch && x.numel() > 0) compute_statistics(here, from, running);
  run(here, y, {}, from, {});
  return y.dtype() == result ? y : packed(y, result);
}

void batch_statistics(Norm& norm, const Tensor& x) {
  const DType wide = accumulate_type(x.dtype());
  norm.mean = Tensor::make({norm.sizes.channels}, wide, x.device());
  norm.rstd = Tensor::make({norm.sizes.channels}, wide, x.device());
  Norm here = norm;
  const Tensor from = laid_out(x, here.sizes);
  compute_statistics(here, from, {});
}

bool can_add(const Norm& norm, const Tensor& x) {
  return x.is_cuda() && norm.sizes.groups == 1 && norm.sizes.inner == 1;
}

NormGradients norm_backward(Norm norm, const Tensor& dy, const Tensor& x, const Tensor& added,
                            bool needs_dx, bool needs_sums,
                            const std::function<ChannelSums(const ChannelSums& own)>& joined) {
  const bool means_move = norm.sizes.groups == 0 && !norm.given;  // whether the mean depends on x
  norm.weight = widened(norm.weight, accumulate_type(x.dtype()));
  norm.bias = widened(norm.bias, accumulate_type(x.dtype()));
  const Tensor z = laid_out(x, norm.sizes);
  Tensor d = laid_out_as(z, dy);
  const Tensor more = added.defined() ? dense(added) : added;
  NormGradients out;
  if (needs_dx && needs_sums && x.is_cuda() && x.numel() > 0) {
    out.dx = empty_like_layout(z, x.dtype());
    out.of_channels = make_sums(norm, x);
    bool done = false;
    dispatch(
        x.device(), [] {}, [&] { done = cuda::norm_backward(norm, out, d, z, more); });
    if (done) return out;
  }
  if (d.dtype() != x.dtype()) d = packed(d, x.dtype());
  if (norm.result.defined()) {
    norm.result = laid_out_as(z, norm.result);
    out.dz = norm.dz = empty_like_layout(z, x.dtype());
  }
  if (needs_sums || means_move) out.of_channels = channel_sums(norm, d, z);
  if (norm.result.defined()) {  // from here on, dy has passed through ReLU
    norm.relu = false;
    d = out.dz;
  }
  if (!needs_dx) return out;
  out.dx = empty_like_layout(z, x.dtype());
  const ChannelSums all = means_move && joined ? joined(out.of_channels) : out.of_channels;
  run(norm, out.dx, d, z, means_move ? all : ChannelSums());
  if (more.defined()) binary_into(BinaryOp::kAdd, out.dx, more, out.dx);
  return out;
}

}  // namespace taper::v0::kernels
