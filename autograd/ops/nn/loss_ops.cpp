#include "autograd/ops/nn/loss_ops.h"

#include <cmath>
#include <numbers>

#include "autograd/ops/nn/reduction.h"
#include "autograd/ops/op_helpers.h"

namespace taper::v0 {
namespace {

using kernels::BinaryOp;
using kernels::TernaryOp;

// Returns the reduced loss(input, target) of tensors with equal shapes. Other shapes are refused
// because they would broadcast: [n, 1] and [n] would give [n, n].
template <class F>
Tensor of_pairs(const char* name, const Tensor& input, const Tensor& target, Reduction reduction,
                F loss) {
  if (input.shape() != target.shape()) {
    const Shape both = broadcast_shapes(input.shape(), target.shape(), name);
    throw ValueError("Using a target size (", target.shape(),
                     ") that is different to the input size (", input.shape(),
                     "). This will likely lead to incorrect results due to broadcasting. ",
                     "Please ensure they have the same size. (", name, " would compare ",
                     both.numel(), " pairs)");
  }
  const auto f = [&](const Tensor& x, const Tensor& y) { return reduced(loss(x, y), reduction); };
  return in_float32(f, input, target);
}

// Returns max(x, low), with x's gradient everywhere, including below `low`.
Tensor at_least(const Tensor& x, double low) {
  Tensor y = clamp(x.detach(), low);
  return linear_in(x, "ClampBackward0", y, [](const Tensor& dy) { return dy; });
}

// Returns whether any element of a CPU tensor violates a condition. Returns false for a GPU tensor,
// to avoid synchronizing.
template <class F> bool broken(const Tensor& x, F keeps) {
  return x.is_cpu() && !all(keeps(x.detach())).template item<bool>();
}

// Computes a loss of x - y with one forward and one backward kernel. If the backward pass is
// recorded, the gradient is dy * slope(x - y) instead.
template <class F>
Tensor of_difference(const char* node, BinaryOp op, TernaryOp backward, const Tensor& x,
                     const Tensor& y, double delta, F slope) {
  Tensor loss = kernels::binary(op, x, y, {.a = delta});
  if (!needs_grad({x, y})) return loss;
  return record(node, loss, {x, y}, [=, x = SavedTensor(x), y = SavedTensor(y)](Gradients& g) {
    const Tensor u = x.get(g), v = y.get(g);
    const Tensor dx =
        is_grad_enabled() ? g.dy() * slope(u - v) : kernels::ternary(backward, g.dy(), u, v, delta);
    if (g.needs(0)) g.dx(0) = reduce_to(dx, u);
    if (g.needs(1)) g.dx(1) = reduce_to(neg(dx), v);
  });
}

}  // namespace

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return of_pairs("mse_loss", input, target, reduction, [](const Tensor& x, const Tensor& y) {
    return of_difference("MseLossBackward0", BinaryOp::kMseLoss, TernaryOp::kMse, x, y, 0,
                         [](const Tensor& d) { return d * 2; });
  });
}

Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return of_pairs("l1_loss", input, target, reduction, [](const Tensor& x, const Tensor& y) {
    if (!x.is_floating_point()) return abs(x - y);  // unsigned differences wrap around
    return of_difference("AbsBackward0", BinaryOp::kL1Loss, TernaryOp::kL1, x, y, 0,
                         [](const Tensor& d) { return sign(d); });
  });
}

Tensor huber_loss(const Tensor& input, const Tensor& target, Reduction reduction, RealArg delta) {
  require(delta > 0, "huber_loss does not support non-positive values for delta.");
  return of_pairs("huber_loss", input, target, reduction, [&](const Tensor& x, const Tensor& y) {
    return of_difference("HuberLossBackward0", BinaryOp::kHuberLoss, TernaryOp::kHuber, x, y, delta,
                         [delta](const Tensor& d) { return clamp(d, -delta, delta); });
  });
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, Reduction reduction,
                      RealArg beta) {
  require(beta >= 0, "smooth_l1_loss does not support negative values for beta.");
  if (beta == 0) return l1_loss(input, target, reduction);
  return huber_loss(input, target, reduction, beta) / beta;
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BceWithLogitsOptions& o) {
  if (autocasts(input)) return in_float32(binary_cross_entropy_with_logits, input, target, o);
  require<ValueError>(input.shape() == target.shape(), "Target size (", target.shape(),
                      ") must be the same as input size (", input.shape(), ")");
  Tensor loss;
  if (o.pos_weight.defined()) {
    // -log(sigmoid(x)). Beyond the threshold it equals -x in every dtype.
    const Tensor positive = softplus(-input, 1, 40) * ((o.pos_weight - 1) * target + 1);
    loss = (1 - target) * input + positive;
  } else {
    loss = differentiable(
        "BinaryCrossEntropyWithLogitsBackward0", BinaryOp::kBceWithLogits, input, target,
        [](auto& dy, auto& x, auto& y) { return dy * (sigmoid(x) - y); },
        [](auto& dy, auto& x, auto&) { return neg(dy * x); });
  }
  return reduced(o.weight.defined() ? loss * o.weight : loss, o.reduction);
}

Tensor kl_div(const Tensor& input, const Tensor& target, Reduction reduction, BoolArg log_target) {
  if (autocasts(input)) return in_float32(kl_div, input, target, reduction, log_target);
  require(input.is_floating_point() && target.is_floating_point(),
          "kl_div: Integral inputs not supported.");
  // Uses 0 * log(0) = 0.
  const Tensor loss = log_target ? exp(target) * (target - input)
                                 : target * (zero_outside(log(target), target) - input);
  if (reduction != Reduction::kBatchmean) return reduced(loss, reduction);
  return sum(loss) / (input.dim() > 0 ? input.size(0) : 1);
}

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const BceOptions& o) {
  require(!autocasts(input),
          "taper::binary_cross_entropy and BCELoss are unsafe to autocast. "
          "binary_cross_entropy_with_logits is safe.");
  require<ValueError>(input.shape() == target.shape(), "Using a target size (", target.shape(),
                      ") that is different to the input size (", input.shape(),
                      ") is not supported. Please ensure they have the same size.");
  require(target.dtype() == input.dtype(), "Found dtype ", scalar_type_name(target.dtype()),
          " but expected ", scalar_type_name(input.dtype()));
  require(!broken(input, [](const Tensor& x) { return logical_and(x >= 0, x <= 1); }),
          "all elements of input should be between 0 and 1");
  const Tensor loss = differentiable(
      "BinaryCrossEntropyBackward0", BinaryOp::kBinaryCrossEntropy, input, target,
      [](auto& dy, auto& p, auto& y) { return dy * ((p - y) / clamp(p * (1 - p), 1e-12)); },
      [](auto& dy, auto& p, auto&) { return dy * (log1p(-p) - log(p)); });
  return reduced(o.weight.defined() ? loss * o.weight : loss, o.reduction);
}

Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                         const GaussianNllOptions& options) {
  const bool full = options.full;
  const double eps = options.eps;
  const Reduction reduction = options.reduction;
  require<ValueError>(!broken(var, [](const Tensor& v) { return v >= 0; }),
                      "var has negative entry/entries");
  Tensor v = var;
  if (var.shape() != input.shape()) {
    Shape means = input.shape();
    if (means.size() > 0) means[means.size() - 1] = 1;
    if (input.dim() == var.dim() + 1) v = var.unsqueeze(-1);
    require<ValueError>(input.dim() != 0 && v.shape() == means, "var is of incorrect size");
  }
  v = at_least(v, eps);
  const Tensor loss = (log(v) + square(input - target) / v) * 0.5;
  return reduced(full ? loss + 0.5 * std::log(2 * std::numbers::pi) : loss, reduction);
}

Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, IntArg dim, RealArg eps) {
  if (autocasts(x1)) return in_float32(cosine_similarity, x1, x2, dim, eps);
  const DType type = kernels::result_type({&x1, &x2});
  require(taper::is_floating_point(type),
          "expected common dtype to be floating point, yet common dtype is ",
          scalar_type_name(type));
  const Shape common = broadcast_shapes(x1.shape(), x2.shape(), "cosine_similarity");
  const auto unit = [&](const Tensor& x) {
    const Tensor t = expand(x.to(type), common);
    return t / at_least(norm(t, 2, {dim}, true), eps);
  };
  return sum(unit(x1) * unit(x2), {dim});
}

Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, RealArg p, RealArg eps,
                         BoolArg keepdim) {
  return norm(x1 - x2 + double(eps), p, {-1}, keepdim);
}

Tensor pairwise_distance(const Tensor& x1, const Tensor& x2,
                         const PairwiseDistanceOptions& options) {
  return pairwise_distance(x1, x2, options.p, options.eps, options.keepdim);
}

Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                             RealArg margin, Reduction reduction) {
  if (autocasts(x1)) return in_float32(cosine_embedding_loss, x1, x2, target, margin, reduction);
  require(target.dim() <= 1, "0D or 1D target tensor expected, multi-target not supported");
  const int dims = target.dim() + 1;
  require(x1.dim() == dims && x2.dim() == dims, target.dim(), "D target tensor expects ", dims,
          "D input tensors, but found inputs with sizes ", x1.shape(), " and ", x2.shape(), ".");
  constexpr double kTiny = 1e-12;
  const auto dot = [](const Tensor& a, const Tensor& b) { return sum(a * b, {-1}); };
  const Tensor cosine = dot(x1, x2) / sqrt((dot(x1, x1) + kTiny) * (dot(x2, x2) + kTiny));
  return reduced(
      where(eq(target, 1), 1 - cosine, zero_outside(clamp(cosine - margin, 0), eq(target, -1))),
      reduction);
}

Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& target, RealArg margin,
                           Reduction reduction) {
  if (autocasts(x1)) return in_float32(margin_ranking_loss, x1, x2, target, margin, reduction);
  require(x1.dim() == x2.dim() && x1.dim() == target.dim(),
          "margin_ranking_loss: All input tensors should have same dimension but got sizes: "
          "input1: ",
          x1.shape(), ", input2: ", x2.shape(), ", target: ", target.shape());
  return reduced(clamp(-target * (x1 - x2) + margin, 0), reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& o) {
  if (autocasts(anchor)) return in_float32(triplet_margin_loss, anchor, positive, negative, o);
  require<ValueError>(o.margin > 0, "margin must be greater than 0, got ", o.margin);
  require(anchor.dim() == positive.dim() && anchor.dim() == negative.dim(),
          "The anchor, positive, and negative tensors are expected to have the same number of "
          "dimensions, but got: anchor ",
          anchor.dim(), "D, positive ", positive.dim(), "D, and negative ", negative.dim(),
          "D inputs");
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    return norm(a - b + o.eps, o.p, {-1});
  };
  Tensor away = distance(anchor, negative);
  if (o.swap) away = minimum(away, distance(positive, negative));
  return reduced(clamp(distance(anchor, positive) - away + o.margin, 0), o.reduction);
}

}  // namespace taper::v0
