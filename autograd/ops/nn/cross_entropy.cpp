// Cross entropy and negative log-likelihood.
#include <mutex>
#include <utility>

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/nn/reduction.h"
#include "autograd/ops/op_helpers.h"

namespace taper::v0 {
namespace {

using kernels::NllOptions;

// --- class indices as targets ---

// Computes the gradient by public ops, so that it can be differentiated again.
Tensor nll_gradient(const Tensor& dy, const Tensor& logits, const Tensor& target,
                    const kernels::CrossEntropy& forward, bool log_probabilities) {
  const Tensor x = logits.to(dy.dtype());
  const Tensor classes = arange(x.size(1), {.dtype = kInt64, .device = x.device()});
  const Tensor hot = eq(target.unsqueeze(1), classes).to(x.dtype());
  const Tensor& weights = forward.rows.weights;
  const Tensor scale = forward.total.defined() ? weights / forward.total : weights;
  const Tensor direction = log_probabilities ? -hot : softmax(x, 1) - hot;
  return (direction * (dy * scale.to(x.dtype())).unsqueeze(1)).to(logits.dtype());
}

// Returns what the forward pass saved. Only the first caller gets dlogits, because the backward
// kernel overwrites it.
kernels::CrossEntropy taken(kernels::CrossEntropy& kept) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  kernels::CrossEntropy all = kept;
  kept.dlogits = {};
  return all;
}

// Returns the loss for x [n, C] and target [n]. Autocast requires a float32 loss; the kernels read
// half types directly.
Tensor nll_of_rows(const Tensor& x, const Tensor& target, Reduction reduction, NllOptions o) {
  refuse_batchmean(reduction);
  if (o.weight.defined()) o.weight = o.weight.detach();
  const DType dtype = autocasts(x) && is_half(x.dtype()) ? kFloat32 : x.dtype();
  const bool recorded = needs_grad({x});
  kernels::CrossEntropy out = kernels::cross_entropy(x, target, reduction, o, dtype, recorded);
  if (!recorded) return out.loss;
  const Tensor loss = std::exchange(out.loss, {});
  out.rows.losses = {};  // may share memory with the loss, which must not be kept here
  return record("NllLossBackward0", loss, {x},
                [x = SavedTensor(x), target = SavedTensor(target), out, o](Gradients& g) mutable {
                  const Tensor logits = x.get(g), t = target.get(g);
                  const kernels::CrossEntropy kept = taken(out);
                  g.dx(0) = is_grad_enabled()
                                ? nll_gradient(g.dy(), logits, t, kept, o.log_probabilities)
                                : kernels::cross_entropy_backward(g.dy(), logits, t, kept, o);
                });
}

// Reshapes [N, C, d1, ...] or [C] to [rows, C].
Tensor class_last(const Tensor& x) {
  if (x.dim() == 2) return x;
  return x.dim() == 1 ? x.unsqueeze(0) : flatten(movedim(x, 1, -1), 0, -2);
}

Shape without_classes(const Tensor& x) {
  Shape shape = x.shape();
  shape.erase(x.dim() > 1 ? 1 : 0);
  return shape;
}

void check_shapes(const Tensor& x, const Tensor& target) {
  require<ValueError>(x.dim() != 0, "Expected 1 or more dimensions (got 0)");
  if (x.dim() == 1) {
    if (target.dim() == 0 || target.shape() == Shape{1}) return;
    throw ValueError("For 1D input, 1D target must have size 1, but got target size: ",
                     target.size(0));
  }
  if (target.dim() > 0) {
    require<ValueError>(x.size(0) == target.size(0), "Expected input batch_size (", x.size(0),
                        ") to match target batch_size (", target.size(0), ").");
  }
  const Shape wanted = without_classes(x);
  if (target.shape() == wanted) return;
  require(x.dim() != 2, "0D or 1D target tensor expected, multi-target not supported (got input ",
          x.shape(), ", target ", target.shape(), ")");
  require(x.dim() != 4, "size mismatch (got input: ", x.shape(), " , target: ", target.shape(),
          ")");
  throw Error("Expected target size ", wanted, ", got ", target.shape());
}

Tensor nll(const Tensor& x, const Tensor& target, Reduction reduction, const NllOptions& o) {
  check_shapes(x, target);
  if (x.dim() == 2) return nll_of_rows(x, target, reduction, o);
  const Tensor y = nll_of_rows(class_last(x), target.reshape({target.numel()}), reduction, o);
  return reduction == Reduction::kNone ? y.reshape(target.shape()) : y;
}

// --- other forms of cross entropy ---

// Returns -sum(logp * p * weight) of each row.
Tensor expected_nll(const Tensor& x, const Tensor& p, const Tensor& weight) {
  const Tensor terms = log_softmax(x, 1) * p;
  return -sum(weight.defined() ? terms * weight.detach() : terms, {1});
}

Tensor with_probabilities(const Tensor& logits, const Tensor& target,
                          const CrossEntropyOptions& o) {
  require(target.is_floating_point(),
          "Expected floating point type for target with class probabilities, got ",
          scalar_type_name(target.dtype()));
  require(o.ignore_index < 0, "ignore_index is not supported for floating point target");
  kernels::same_device("cross_entropy", {&logits, &target}, {"self", "target"});
  const Tensor x = class_last(logits);
  Tensor p = class_last(target);
  if (o.label_smoothing > 0) {
    p = p * (1 - o.label_smoothing) + o.label_smoothing / double(x.size(1));
  }
  const Tensor loss = expected_nll(x, p, o.weight);
  return o.reduction == Reduction::kNone ? loss.reshape(without_classes(logits))
                                         : reduced(loss, o.reduction);
}

Tensor with_smoothing(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& o) {
  check_shapes(logits, target);
  const Tensor x = class_last(logits), t = target.reshape({target.numel()});
  const double part = o.label_smoothing;
  const Tensor nll = nll_of_rows(x, t, Reduction::kNone, {o.ignore_index, o.weight});
  const Tensor counts = ne(t, wrap_scalar(o.ignore_index));
  const Tensor share = wrap_scalar(part / double(x.size(1)));
  const Tensor loss = nll * (1 - part) + zero_outside(expected_nll(x, share, o.weight), counts);
  if (o.reduction == Reduction::kNone) return loss.reshape(target.shape());
  if (o.reduction != Reduction::kMean) return reduced(loss, o.reduction);
  Tensor weights = counts.to(x.dtype());
  if (o.weight.defined()) weights = weights * embedding(o.weight.detach(), zero_outside(t, counts));
  return sum(loss) / sum(weights);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& o) {
  const bool classes = logits.shape() != target.shape() && o.label_smoothing == 0;
  const auto again = [&](auto& x, auto& t) { return cross_entropy(x, t, o); };
  if (autocasts(logits) && !classes) return in_float32(again, logits, target);
  require(o.label_smoothing >= 0 && o.label_smoothing <= 1,
          "label_smoothing must be between 0.0 and 1.0. Got: ", o.label_smoothing);
  if (logits.shape() == target.shape()) return with_probabilities(logits, target, o);
  if (o.label_smoothing > 0) return with_smoothing(logits, target, o);
  return nll(logits, target, o.reduction, {o.ignore_index, o.weight});
}

Tensor cross_entropy(const Tensor& logits, const Tensor& target, Reduction reduction,
                     IntArg ignore_index) {
  return cross_entropy(logits, target, {.ignore_index = ignore_index, .reduction = reduction});
}

Tensor nll_loss(const Tensor& logp, const Tensor& target, const NllLossOptions& o) {
  return nll(logp, target, o.reduction, {o.ignore_index, o.weight, true});
}

}  // namespace taper::v0
