#include "autograd/ops/nn/loss.h"

#include <cmath>
#include <mutex>
#include <numbers>
#include <utility>

#include "autograd/autocast.h"
#include "autograd/node.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/index/index.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "framework/kernels/elementwise/binary.h"

namespace taper::inline v0 {
namespace {

using kernels::NllOptions;

Tensor reduced(const Tensor& loss, Reduction reduction) {
  if (reduction == Reduction::none) return loss;
  if (reduction == Reduction::sum) return sum(loss);
  if (reduction == Reduction::mean) return mean(loss);
  throw ValueError("batchmean is not a valid value for reduction (it is kl_div's)");
}

// reduced(loss(input, target)) for shapes that are equal: others would broadcast, [n, 1] and [n] to
// [n, n].
template <class F>
Tensor of_pairs(const char* name, const Tensor& input, const Tensor& target, F loss) {
  if (input.shape() != target.shape()) {
    const Shape both = broadcast_shapes(input.shape(), target.shape());
    throw ValueError(cat("Using a target size (torch.Size(", target.shape(),
                         ")) that is different to the input size (torch.Size(", input.shape(),
                         ")). This will likely lead to incorrect results due to broadcasting. ",
                         "Please ensure they have the same size. (", name, " would compare ",
                         both.numel(), " pairs)"));
  }
  if (!autocasts(input)) return loss(input, target);
  return casted(Cast::to_float32, loss, input, target);
}

// x, but no less than `low`; with the gradient of x, also below.
Tensor at_least(const Tensor& x, double low) {
  Tensor y = clamp(x.detach(), low);
  if (!needs_grad({x})) return y;
  return record("ClampBackward0", y, {x}, [](Gradients& g) { g.dx(0) = g.dy(); });
}

// Whether a value on the CPU breaks a rule; the GPU is not waited for.
bool broken(const Tensor& kept) { return kept.is_cpu() && !all(kept).item<bool>(); }

// --- one class a row ---

// Written with public ops, for a second derivative.
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

// What the forward pass kept; dlogits, which is given away or of no use, to the first who asks.
kernels::CrossEntropy taken(kernels::CrossEntropy& kept) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  kernels::CrossEntropy all = kept;
  kept.dlogits = {};
  return all;
}

// x [n, C], target [n]. Autocast wants the loss in float32: the kernels read half types as they
// are.
Tensor nll_of_rows(const Tensor& x, const Tensor& target, Reduction reduction, NllOptions o) {
  if (reduction == Reduction::batchmean) (void)reduced(x, reduction);
  if (o.weight.defined()) o.weight = o.weight.detach();
  const DType dtype = autocasts(x) && is_half(x.dtype()) ? kFloat32 : x.dtype();
  const bool recorded = needs_grad({x});
  kernels::CrossEntropy out = kernels::cross_entropy(x, target, reduction, o, dtype, recorded);
  if (!recorded) return out.loss;
  const Tensor loss = std::exchange(out.loss, {});
  out.rows.losses = {};  // which may be the loss
  return record("NllLossBackward0", loss, {x},
                [x = Saved(x), target = Saved(target), out, o](Gradients& g) mutable {
                  const Tensor logits = x.get(g), t = target.get(g);
                  const kernels::CrossEntropy kept = taken(out);
                  g.dx(0) = is_grad_enabled()
                                ? nll_gradient(g.dy(), logits, t, kept, o.log_probabilities)
                                : kernels::cross_entropy_backward(g.dy(), logits, t, kept, o);
                });
}

// [N, C, d1, ...] or [C] as [rows, C].
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
  if (x.dim() == 0) throw ValueError("Expected 1 or more dimensions (got 0)");
  if (x.dim() == 1) {
    if (target.dim() == 0 || target.shape() == Shape{1}) return;
    throw ValueError(
        cat("For 1D input, 1D target must have size 1, but got target size: ", target.size(0)));
  }
  if (target.dim() > 0 && x.size(0) != target.size(0)) {
    throw ValueError(cat("Expected input batch_size (", x.size(0), ") to match target batch_size (",
                         target.size(0), ")."));
  }
  const Shape wanted = without_classes(x);
  if (target.shape() == wanted) return;
  if (x.dim() == 2) {
    throw Error(cat("0D or 1D target tensor expected, multi-target not supported (got input ",
                    x.shape(), ", target ", target.shape(), ")"));
  }
  if (x.dim() == 4) {
    throw Error(cat("size mismatch (got input: ", x.shape(), " , target: ", target.shape(), ")"));
  }
  throw Error(cat("Expected target size ", wanted, ", got ", target.shape()));
}

Tensor nll(const Tensor& x, const Tensor& target, Reduction reduction, const NllOptions& o) {
  check_shapes(x, target);
  if (x.dim() == 2) return nll_of_rows(x, target, reduction, o);
  const Tensor y = nll_of_rows(class_last(x), target.reshape({target.numel()}), reduction, o);
  return reduction == Reduction::none ? y.reshape(target.shape()) : y;
}

// --- cross entropy's other forms ---

// -sum(logp * p * weight) of each row.
Tensor expected_nll(const Tensor& x, const Tensor& p, const Tensor& weight) {
  const Tensor terms = log_softmax(x, 1) * p;
  return -sum(weight.defined() ? terms * weight.detach() : terms, {1});
}

Tensor with_probabilities(const Tensor& logits, const Tensor& target,
                          const CrossEntropyOptions& o) {
  if (!target.is_floating_point()) {
    throw Error(cat("Expected floating point type for target with class probabilities, got ",
                    scalar_type_name(target.dtype())));
  }
  if (o.ignore_index >= 0) throw Error("ignore_index is not supported for floating point target");
  kernels::same_device("cross_entropy", {&logits, &target}, {"self", "target"});
  const Tensor x = class_last(logits);
  Tensor p = class_last(target);
  if (o.label_smoothing > 0) {
    p = p * (1 - o.label_smoothing) + o.label_smoothing / double(x.size(1));
  }
  const Tensor loss = expected_nll(x, p, o.weight);
  return o.reduction == Reduction::none ? loss.reshape(without_classes(logits))
                                        : reduced(loss, o.reduction);
}

Tensor with_smoothing(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& o) {
  check_shapes(logits, target);
  const Tensor x = class_last(logits), t = target.reshape({target.numel()});
  const double part = o.label_smoothing;
  const Tensor nll = nll_of_rows(x, t, Reduction::none, {o.ignore_index, o.weight});
  const Tensor counts = ne(t, wrap_scalar(o.ignore_index));
  const Tensor share = wrap_scalar(part / double(x.size(1)));
  const Tensor loss = nll * (1 - part) + masked(expected_nll(x, share, o.weight), counts);
  if (o.reduction == Reduction::none) return loss.reshape(target.shape());
  if (o.reduction != Reduction::mean) return reduced(loss, o.reduction);
  Tensor weights = counts.to(x.dtype());
  if (o.weight.defined()) weights = weights * embedding(o.weight.detach(), masked(t, counts));
  return sum(loss) / sum(weights);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& o) {
  const bool classes = logits.shape() != target.shape() && o.label_smoothing == 0;
  if (autocasts(logits) && !classes) {
    return casted(
        Cast::to_float32, [&](auto&... t) { return cross_entropy(t..., o); }, logits, target);
  }
  if (!(o.label_smoothing >= 0 && o.label_smoothing <= 1)) {
    throw Error(cat("label_smoothing must be between 0.0 and 1.0. Got: ", o.label_smoothing));
  }
  if (logits.shape() == target.shape()) return with_probabilities(logits, target, o);
  if (o.label_smoothing > 0) return with_smoothing(logits, target, o);
  return nll(logits, target, o.reduction, {o.ignore_index, o.weight});
}

Tensor cross_entropy(const Tensor& logits, const Tensor& target, Reduction reduction,
                     int64_t ignore_index) {
  return cross_entropy(logits, target, {.ignore_index = ignore_index, .reduction = reduction});
}

Tensor nll_loss(const Tensor& logp, const Tensor& target, const NllLossOptions& o) {
  return nll(logp, target, o.reduction, {o.ignore_index, o.weight, true});
}

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return of_pairs("mse_loss", input, target, [&](const Tensor& x, const Tensor& y) {
    return reduced(square(x - y), reduction);
  });
}

Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return of_pairs("l1_loss", input, target,
                  [&](const Tensor& x, const Tensor& y) { return reduced(abs(x - y), reduction); });
}

Tensor huber_loss(const Tensor& input, const Tensor& target, Reduction reduction, double delta) {
  if (!(delta > 0)) throw Error("huber_loss does not support non-positive values for delta.");
  return of_pairs("huber_loss", input, target, [&](const Tensor& x, const Tensor& y) {
    // d^2 / 2 up to delta, delta (d - delta / 2) beyond.
    const Tensor d = abs(x - y), near = clamp(d, 0, delta);
    return reduced(near * (d - near * 0.5), reduction);
  });
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, Reduction reduction, double beta) {
  if (!(beta >= 0)) throw Error("smooth_l1_loss does not support negative values for beta.");
  if (beta == 0) return l1_loss(input, target, reduction);
  return huber_loss(input, target, reduction, beta) / beta;
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BceWithLogitsOptions& o) {
  if (autocasts(input))
    return casted(Cast::to_float32, binary_cross_entropy_with_logits, input, target, o);
  if (input.shape() != target.shape()) {
    throw ValueError(cat("Target size (torch.Size(", target.shape(),
                         ")) must be the same as input size (torch.Size(", input.shape(), "))"));
  }
  // -log(sigmoid(x)); beyond the threshold it is -x in every dtype.
  Tensor positive = softplus(-input, 1, 40);
  if (o.pos_weight.defined()) positive = positive * ((o.pos_weight - 1) * target + 1);
  const Tensor loss = (1 - target) * input + positive;
  return reduced(o.weight.defined() ? loss * o.weight : loss, o.reduction);
}

Tensor kl_div(const Tensor& input, const Tensor& target, Reduction reduction, bool log_target) {
  if (autocasts(input))
    return casted(Cast::to_float32, kl_div, input, target, reduction, log_target);
  if (!input.is_floating_point() || !target.is_floating_point()) {
    throw Error("kl_div: Integral inputs not supported.");
  }
  // 0 log 0 = 0.
  const Tensor loss =
      log_target ? exp(target) * (target - input) : target * (masked(log(target), target) - input);
  if (reduction != Reduction::batchmean) return reduced(loss, reduction);
  return sum(loss) / (input.dim() > 0 ? input.size(0) : 1);
}

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const BceOptions& o) {
  if (autocasts(input)) {
    throw Error(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast. "
        "binary_cross_entropy_with_logits is safe.");
  }
  if (input.shape() != target.shape()) {
    throw ValueError(cat("Using a target size (torch.Size(", target.shape(),
                         ")) that is different to the input size (torch.Size(", input.shape(),
                         ")) is deprecated. Please ensure they have the same size."));
  }
  if (target.dtype() != input.dtype()) {
    throw Error(cat("Found dtype ", scalar_type_name(target.dtype()), " but expected ",
                    scalar_type_name(input.dtype())));
  }
  if (const Tensor x = input.detach(); broken(logical_and(x >= 0, x <= 1))) {
    throw Error("all elements of input should be between 0 and 1");
  }
  Tensor loss = kernels::binary(kernels::BinaryOp::binary_cross_entropy, input, target);
  if (needs_grad({input, target})) {
    loss = record("BinaryCrossEntropyBackward0", loss, {input, target},
                  [x = Saved(input), y = Saved(target)](Gradients& g) {
                    const Tensor p = x.get(g);
                    if (g.needs(0)) {
                      g.dx(0) = g.dy() * ((p - y.get(g)) / clamp(p * (1 - p), 1e-12));
                    }
                    if (g.needs(1)) g.dx(1) = g.dy() * (log1p(-p) - log(p));
                  });
  }
  return reduced(o.weight.defined() ? loss * o.weight : loss, o.reduction);
}

Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var, bool full,
                         double eps, Reduction reduction) {
  if (broken(var.detach() >= 0)) throw ValueError("var has negative entry/entries");
  Tensor v = var;
  if (var.shape() != input.shape()) {
    Shape means = input.shape();
    if (means.size() > 0) means[means.size() - 1] = 1;
    if (input.dim() == var.dim() + 1) v = var.unsqueeze(-1);
    if (input.dim() == 0 || v.shape() != means) throw ValueError("var is of incorrect size");
  }
  v = at_least(v, eps);
  const Tensor loss = (log(v) + square(input - target) / v) * 0.5;
  return reduced(full ? loss + 0.5 * std::log(2 * std::numbers::pi) : loss, reduction);
}

Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim, double eps) {
  if (autocasts(x1)) return casted(Cast::to_float32, cosine_similarity, x1, x2, dim, eps);
  const DType type = kernels::result_type({&x1, &x2});
  if (!taper::is_floating_point(type)) {
    throw Error(cat("expected common dtype to be floating point, yet common dtype is ",
                    scalar_type_name(type)));
  }
  const Shape common = broadcast_shapes(x1.shape(), x2.shape());
  const auto unit = [&](const Tensor& x) {
    const Tensor t = expand(x.to(type), common);
    return t / at_least(norm(t, 2, {dim}, true), eps);
  };
  return sum(unit(x1) * unit(x2), {dim});
}

Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                             double margin, Reduction reduction) {
  if (autocasts(x1)) {
    return casted(Cast::to_float32, cosine_embedding_loss, x1, x2, target, margin, reduction);
  }
  if (target.dim() > 1) {
    throw Error("0D or 1D target tensor expected, multi-target not supported");
  }
  const int dims = target.dim() + 1;
  if (x1.dim() != dims || x2.dim() != dims) {
    throw Error(cat(target.dim(), "D target tensor expects ", dims,
                    "D input tensors, but found inputs with sizes ", x1.shape(), " and ",
                    x2.shape(), "."));
  }
  constexpr double kTiny = 1e-12;
  const auto dot = [](const Tensor& a, const Tensor& b) { return sum(a * b, {-1}); };
  const Tensor cosine = dot(x1, x2) / sqrt((dot(x1, x1) + kTiny) * (dot(x2, x2) + kTiny));
  return reduced(
      where(eq(target, 1), 1 - cosine, masked(clamp(cosine - margin, 0), eq(target, -1))),
      reduction);
}

Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& target, double margin,
                           Reduction reduction) {
  if (autocasts(x1)) {
    return casted(Cast::to_float32, margin_ranking_loss, x1, x2, target, margin, reduction);
  }
  if (x1.dim() != x2.dim() || x1.dim() != target.dim()) {
    throw Error(
        cat("margin_ranking_loss : All input tensors should have same dimension but got "
            "sizes: input1: torch.Size(",
            x1.shape(), "), input2: torch.Size(", x2.shape(), "), target: torch.Size(",
            target.shape(), ")"));
  }
  return reduced(clamp(-target * (x1 - x2) + margin, 0), reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& o) {
  if (autocasts(anchor)) {
    return casted(Cast::to_float32, triplet_margin_loss, anchor, positive, negative, o);
  }
  if (!(o.margin > 0)) throw ValueError(cat("margin must be greater than 0, got ", o.margin));
  if (anchor.dim() != positive.dim() || anchor.dim() != negative.dim()) {
    throw Error(
        cat("The anchor, positive, and negative tensors are expected to have the same "
            "number of dimensions, but got: anchor ",
            anchor.dim(), "D, positive ", positive.dim(), "D, and negative ", negative.dim(),
            "D inputs"));
  }
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    return norm(a - b + o.eps, o.p, {-1});
  };
  Tensor away = distance(anchor, negative);
  if (o.swap) away = minimum(away, distance(positive, negative));
  return reduced(clamp(distance(anchor, positive) - away + o.margin, 0), o.reduction);
}

}  // namespace taper::inline v0
