#include "framework/kernels/softmax.h"

#include "framework/kernels/binary.h"
#include "framework/kernels/copy.h"
#include "framework/kernels/dispatch.h"

namespace taper::kernels {
namespace {

ReduceSizes sizes_along(const Tensor& x, int64_t dim) {
  const int d = wrap_dim(dim, x.dim());
  ReduceSizes sizes;
  for (int i = 0; i < x.dim(); ++i) {
    (i < d ? sizes.outer : i == d ? sizes.n : sizes.inner) *= x.shape()[i];
  }
  return sizes;
}

void check_floating(const char* op, const Tensor& x) {
  if (x.is_floating_point()) return;
  throw Error(cat("\"", op, "\" not implemented for '", scalar_type_name(x.dtype()), "'"));
}

Tensor forward(bool log, const Tensor& x, int64_t dim) {
  check_floating(log ? "log_softmax" : "softmax", x);
  const ReduceSizes sizes = sizes_along(x, dim);
  Tensor y = Tensor::make(x.shape(), x.dtype(), x.device());
  if (y.numel() == 0) return y;
  const Tensor from = dense(x);
  dispatch(
      x.device(), [&] { cpu::softmax(log, y, from, sizes); },
      [&] { cuda::softmax(log, y, from, sizes); });
  return y;
}

Tensor backward(bool log, const Tensor& dy, const Tensor& y, int64_t dim) {
  const ReduceSizes sizes = sizes_along(y, dim);
  Tensor dx = Tensor::make(y.shape(), y.dtype(), y.device());
  if (dx.numel() == 0) return dx;
  const Tensor from_dy = dense(dy), from_y = dense(y);
  dispatch(
      y.device(), [&] { cpu::softmax_backward(log, dx, from_dy, from_y, sizes); },
      [&] { cuda::softmax_backward(log, dx, from_dy, from_y, sizes); });
  return dx;
}

void check_cross_entropy(const Tensor& logits, const Tensor& target) {
  same_device("cross_entropy", {&logits, &target}, {"self", "target"});
  check_floating("cross_entropy", logits);
  if (logits.dim() != 2 || target.dim() != 1) {
    throw Error(cat("cross_entropy expects logits [N, classes] and target [N], got ",
                    logits.shape(), " and ", target.shape()));
  }
  if (logits.size(0) != target.size(0)) {
    throw ValueError(cat("Expected input batch_size (", logits.size(0),
                         ") to match target batch_size (", target.size(0), ")."));
  }
  if (target.dtype() != kInt64) {
    throw Error(cat("expected scalar type Long but found ", scalar_type_name(target.dtype()),
                    " (argument target of cross_entropy)"));
  }
}

// How many targets count, as a 0-dim tensor on their device.
Tensor count_targets(const Tensor& target, int64_t ignore_index, DType dtype) {
  Tensor number = Tensor::make({}, kInt64, Device());
  fill(number, ignore_index);
  const Tensor counted = binary(BinaryOp::ne, target, number);
  return reduce(ReduceOp::sum, packed(counted, dtype), {});
}

DType wide(DType t) { return t == kFloat64 ? kFloat64 : kFloat32; }

}  // namespace

Tensor softmax(const Tensor& x, int64_t dim) { return forward(false, x, dim); }
Tensor log_softmax(const Tensor& x, int64_t dim) { return forward(true, x, dim); }

Tensor softmax_backward(const Tensor& dy, const Tensor& y, int64_t dim) {
  return backward(false, dy, y, dim);
}
Tensor log_softmax_backward(const Tensor& dy, const Tensor& y, int64_t dim) {
  return backward(true, dy, y, dim);
}

CrossEntropy cross_entropy(const Tensor& logits, const Tensor& target, Reduction reduction,
                           int64_t ignore_index) {
  check_cross_entropy(logits, target);
  const DType sum_type = wide(logits.dtype());
  const Tensor x = dense(logits), t = dense(target);
  const Tensor losses = Tensor::make(t.shape(), sum_type, x.device());
  CrossEntropy out{{}, Tensor::make(t.shape(), sum_type, x.device())};
  if (losses.numel() > 0) {
    dispatch(
        x.device(), [&] { cpu::cross_entropy(losses, out.logsumexp, x, t, ignore_index); },
        [&] { cuda::cross_entropy(losses, out.logsumexp, x, t, ignore_index); });
  }
  Tensor loss = losses;
  if (reduction != Reduction::none) loss = reduce(ReduceOp::sum, losses, {});
  if (reduction == Reduction::mean) {
    loss = binary(BinaryOp::div, loss, count_targets(t, ignore_index, sum_type));
  }
  out.loss = packed(loss, logits.dtype());
  return out;
}

Tensor cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& target,
                              const Tensor& logsumexp, Reduction reduction, int64_t ignore_index) {
  const Tensor x = dense(logits), t = dense(target);
  Tensor scale = packed(dloss, logsumexp.dtype());
  if (reduction == Reduction::mean) {
    scale = binary(BinaryOp::div, scale, count_targets(t, ignore_index, logsumexp.dtype()));
  }
  Tensor dx = Tensor::make(x.shape(), x.dtype(), x.device());
  if (dx.numel() == 0) return dx;
  scale = view_as(scale, {scale.numel()}, {1}, scale.storage_offset());
  dispatch(
      x.device(), [&] { cpu::cross_entropy_backward(dx, scale, x, t, logsumexp, ignore_index); },
      [&] { cuda::cross_entropy_backward(dx, scale, x, t, logsumexp, ignore_index); });
  return dx;
}

}  // namespace taper::kernels
