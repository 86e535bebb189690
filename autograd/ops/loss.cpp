#include "autograd/ops/loss.h"

#include "autograd/node.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"

namespace taper {

Tensor cross_entropy(const Tensor& logits, const Tensor& target, Reduction reduction,
                     int64_t ignore_index) {
  kernels::CrossEntropy out = kernels::cross_entropy(logits, target, reduction, ignore_index);
  if (!needs_grad({logits})) return out.loss;
  return record("NllLossBackward0", out.loss, {logits},
                [x = Saved(logits), target = Saved(target), lse = out.logsumexp, reduction,
                 ignore_index](Gradients& g) {
                  refuse_second_derivative("cross_entropy", g.dy());
                  g.dx(0) = kernels::cross_entropy_backward(g.dy(), x.get(g), target.get(g), lse,
                                                            reduction, ignore_index);
                });
}

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  const Tensor loss = square(input - target);
  if (reduction == Reduction::none) return loss;
  return reduction == Reduction::mean ? mean(loss) : sum(loss);
}

}  // namespace taper
