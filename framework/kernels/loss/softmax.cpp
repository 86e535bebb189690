#include "framework/kernels/loss/softmax.h"

#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/elementwise/binary.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/profiler/trace.h"

namespace taper::v0::kernels {
namespace {

void check_cross_entropy(const Tensor& logits, const Tensor& target, const NllOptions& o,
                         DType loss_dtype) {
  same_device(o.name(), {&logits, &target, &o.weight}, {"self", "target", "weight"});
  check_floating(o.name(), logits);
  const auto check_dtype = [&](const char* name, const Tensor& x, DType wanted) {
    require(x.dtype() == wanted, "expected scalar type ", scalar_type_name(wanted), " but found ",
            scalar_type_name(x.dtype()), " (argument ", name, " of ", o.name(), ")");
  };
  check_dtype("target", target, kInt64);
  if (!o.weight.defined()) return;
  require(o.weight.shape() == Shape{logits.size(1)},
          "weight tensor should be defined either for all ", logits.size(1),
          " classes or no classes but got weight tensor of shape: ", o.weight.shape());
  check_dtype("weight", o.weight, loss_dtype);
}

}  // namespace

Tensor softmax(bool log, const Tensor& x, int64_t dim) {
  check_floating(log ? "log_softmax" : "softmax", x);
  const ReduceSizes sizes = sizes_along(x, dim);
  Tensor y = Tensor::make(x.shape(), x.dtype(), x.device());
  if (y.numel() == 0) return y;
  dispatch<cpu::softmax, cuda::softmax>(x.device(), log, y, dense(x), sizes);
  trace(log ? "log_softmax" : "softmax", y, {x}, Shape{dim});
  return y;
}

Tensor softmax_backward(bool log, const Tensor& dy, const Tensor& y, int64_t dim) {
  const ReduceSizes sizes = sizes_along(y, dim);
  Tensor dx = Tensor::make(y.shape(), y.dtype(), y.device());
  if (dx.numel() == 0) return dx;
  dispatch<cpu::softmax_backward, cuda::softmax_backward>(y.device(), log, dx, dense(dy), dense(y),
                                                          sizes);
  return dx;
}

CrossEntropy cross_entropy(const Tensor& logits, const Tensor& target, Reduction reduction,
                           const NllOptions& given, DType loss_dtype, bool with_gradient) {
  check_cross_entropy(logits, target, given, loss_dtype);
  const DType sum_type = accumulate_type(logits.dtype());
  const int64_t n = logits.size(0);
  const bool reduces = reduction != Reduction::kNone, means = reduction == Reduction::kMean;
  const Tensor x = dense(logits), t = dense(target);
  NllOptions options = given;
  if (given.weight.defined()) options.weight = packed(given.weight, sum_type);
  // Losses and weights are adjacent in memory, so that one kernel sums both.
  const Tensor both = Tensor::make({2, n}, sum_type, x.device());
  CrossEntropy out;
  out.rows = {view_as(both, {n}, {1}, 0), view_as(both, {n}, {1}, n),
              Tensor::make({n}, sum_type, x.device())};
  out.loss = out.rows.losses;
  const auto on_cuda = [&] {
    if (reduces) out.loss = Tensor::make({}, loss_dtype, x.device());
    if (means) out.total = Tensor::make({}, sum_type, x.device());
    // Not for float16, which is used with a loss scale, so dloss is not 1.
    if (with_gradient && reduces && !options.log_probabilities && x.dtype() != kFloat16) {
      out.dlogits = Tensor::make(x.shape(), x.dtype(), x.device());
    }
    if (!cuda::cross_entropy(out, x, t, options)) out.dlogits = {};
  };
  const auto on_cpu = [&] {
    if (n > 0) cpu::cross_entropy(out.rows, x, t, options);
    if (!reduces) return;
    const Tensor sums = reduce(ReductionOp::kSum, both, {1});
    out.loss = view_as(sums, {}, {}, 0);
    if (!means) return;
    out.total = view_as(sums, {}, {}, 1);
    out.loss = binary(BinaryOp::kDiv, out.loss, out.total);
  };
  dispatch(x.device(), on_cpu, on_cuda);
  out.loss = packed(out.loss, loss_dtype);
  return out;
}

Tensor cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& target,
                              const CrossEntropy& forward, const NllOptions& options) {
  const Tensor x = dense(logits), t = dense(target);
  Tensor dx = forward.dlogits;
  if (!dx.defined()) dx = Tensor::make(x.shape(), x.dtype(), x.device());
  if (dx.numel() == 0) return dx;
  const auto on_cpu = [&] {
    Tensor scale = packed(dloss, forward.rows.weights.dtype());
    if (forward.total.defined()) scale = binary(BinaryOp::kDiv, scale, forward.total);
    scale = view_as(scale, {scale.numel()}, {1}, scale.storage_offset());
    cpu::cross_entropy_backward(dx, scale, forward.rows, x, t, options);
  };
  dispatch(x.device(), on_cpu,
           [&] { cuda::cross_entropy_backward(dx, dense(dloss), forward, x, t, options); });
  return dx;
}

}  // namespace taper::v0::kernels
