// Losses of margins and of counts, as formulas of public functions.
#include <cmath>
#include <numbers>

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/nn/reduction.h"
#include "autograd/ops/op_helpers.h"
#include "framework/kernels/index/index.h"

namespace taper::v0 {
namespace {

// Returns input as [N, C], with N = 1 for a single sample. Throws Error for other shapes and
// dtypes.
Tensor class_scores(const char* op, const Tensor& input, const Tensor& target) {
  kernels::same_device(op, {&input, &target}, {"self", "target"});
  const bool is_sized = input.dim() <= 2 && (input.dim() == 0 || input.size(-1) > 0);
  require(is_sized, "Expected non-empty vector or matrix with optional 0-dim batch size, but got: ",
          input.shape());
  require<NotImplementedError>(input.is_floating_point(), "\"", op, "\" not implemented for '",
                               scalar_type_name(input.dtype()), "'");
  require(target.dtype() == kInt64, "expected scalar type Long but found ",
          scalar_type_name(target.dtype()));
  return input.dim() == 2 ? input : reshape(input, {1, input.numel()});
}

Tensor class_numbers(const Tensor& scores) {
  return arange(scores.size(1), {.device = scores.device()});
}

void check_weight(const Tensor& weight, int64_t classes) {
  if (!weight.defined()) return;
  require<ValueError>(weight.dim() == 1, "weight must be one-dimensional");
  require(weight.numel() == classes, "inconsistent weight size, expected ", classes, " but got ",
          weight.shape());
}

}  // namespace

Tensor multi_margin_loss(const Tensor& input, const Tensor& target, const MultiMarginOptions& o) {
  if (autocasts(input)) return in_float32(multi_margin_loss, input, target, o);
  require<ValueError>(o.p == 1 || o.p == 2, "only p == 1 and p == 2 supported, got ", o.p);
  const Tensor x = class_scores("multi_margin_loss", input, target);
  require(target.dim() <= 1 && target.numel() == x.size(0), "inconsistent target size, expected ",
          x.size(0), " but got ", target.shape());
  check_weight(o.weight, x.size(1));
  kernels::require_all("target out of range", logical_and(target >= 0, target < x.size(1)));
  const Tensor row = reshape(target, {x.size(0), 1});
  Tensor distance = relu(x - gather(x, 1, row) + o.margin);
  if (o.p == 2) distance = square(distance);
  if (o.weight.defined())
    distance = distance * gather(o.weight, 0, reshape(row, {-1})).view({-1, 1});
  const Tensor others = zero_outside(distance, ne(row, class_numbers(x)));
  const Tensor loss = sum(others, {1}) / double(x.size(1));
  return reduced(reshape(loss, target.shape()), o.reduction);
}

Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  if (autocasts(input)) return in_float32(multilabel_margin_loss, input, target, reduction);
  const Tensor x = class_scores("multilabel_margin_loss", input, target);
  require(target.shape() == input.shape(), "inconsistent target size: ", target.shape(),
          " for input of size: ", input.shape());
  kernels::require_all("argument #2 'target' is out of range",
                       logical_and(target >= -1, target < x.size(1)));
  const Tensor listed = reshape(target, x.shape());
  // Whether no -1 came yet, for each place [N, C]. The other places use class 0 and are left out.
  const Tensor counts = cumprod((listed >= 0).to(kInt64), 1) > 0;
  const Tensor labels = zero_outside(listed, counts);
  const Tensor hits = logical_and(eq(unsqueeze(labels, 2), class_numbers(x)), unsqueeze(counts, 2));
  const Tensor is_other = logical_not(any(hits, {1}));
  const Tensor distance = relu(unsqueeze(x, 1) - unsqueeze(gather(x, 1, labels), 2) + 1);
  const Tensor pairs = logical_and(unsqueeze(counts, 2), unsqueeze(is_other, 1));
  const Tensor loss = sum(zero_outside(distance, pairs), {1, 2}) / double(x.size(1));
  return reduced(input.dim() == 2 ? loss : reshape(loss, {}), reduction);
}

Tensor soft_margin_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  if (autocasts(input)) return in_float32(soft_margin_loss, input, target, reduction);
  const Shape common = broadcast_shapes(input.shape(), target.shape(), "soft_margin_loss");
  require(common == input.shape(), "output with shape ", input.shape(),
          " doesn't match the broadcast shape ", common);
  // Beyond the threshold, log(1 + exp(z)) equals z in every dtype.
  return reduced(softplus(neg(input * target), 1, 40), reduction);
}

Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                   const MultilabelSoftMarginOptions& o) {
  const std::vector<Tensor> pair = broadcast_tensors({input, target});
  require<IndexError>(pair[0].dim() > 0, "Dimension specified as -1 but tensor has no dimensions");
  Tensor loss = binary_cross_entropy_with_logits(pair[0], pair[1], {.reduction = Reduction::kNone});
  if (o.weight.defined()) loss = loss * o.weight;
  return reduced(mean(loss, {-1}), o.reduction);
}

Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, const PoissonNllOptions& o) {
  if (autocasts(input)) return in_float32(poisson_nll_loss, input, target, o);
  Tensor loss = o.log_input ? exp(input) - target * input : input - target * log(input + o.eps);
  if (o.full) {
    // Smaller targets are replaced by 1 here, so that no logarithm is infinite.
    const Tensor counts = where(target > 1, target, 1);
    const Tensor stirling =
        counts * log(counts) - counts + log(counts * (2 * std::numbers::pi)) / 2;
    loss = loss + zero_outside(stirling, target > 1);
  }
  return reduced(loss, o.reduction);
}

Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, RealArg margin,
                            Reduction reduction) {
  if (autocasts(input)) return in_float32(hinge_embedding_loss, input, target, margin, reduction);
  const Tensor far = zero_outside(clamp_min(double(margin) - input, 0), ne(target, 1));
  return reduced(far + zero_outside(input, ne(target, -1)), reduction);
}

}  // namespace taper::v0
