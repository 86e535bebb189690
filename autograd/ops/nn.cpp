#include "autograd/ops/nn.h"

#include "autograd/node.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "framework/kernels/embedding.h"
#include "framework/kernels/random.h"

namespace taper {
namespace {

// A fused backward kernel is not on the tape: a second derivative through it would be silently
// lost.
void refuse_second(const char* op, const Tensor& dy) {
  if (!is_grad_enabled()) return;
  throw NotImplementedError(cat("the backward pass of ", op,
                                " is one fused kernel without a second "
                                "derivative; gradient of shape ",
                                dy.shape()));
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t dim) {
  Tensor y = kernels::softmax(x, dim);
  if (!needs_grad({x})) return y;
  return record("SoftmaxBackward0", y, {x}, [y = Saved::output(y), dim](Gradients& g) {
    const Tensor p = y.get(g);
    if (is_grad_enabled()) {
      g.dx(0) = p * (g.dy() - sum(g.dy() * p, {dim}, true));
    } else {
      g.dx(0) = kernels::softmax_backward(g.dy(), p, dim);
    }
  });
}

Tensor log_softmax(const Tensor& x, int64_t dim) {
  Tensor y = kernels::log_softmax(x, dim);
  if (!needs_grad({x})) return y;
  return record("LogSoftmaxBackward0", y, {x}, [y = Saved::output(y), dim](Gradients& g) {
    const Tensor logp = y.get(g);
    if (is_grad_enabled()) {
      g.dx(0) = g.dy() - exp(logp) * sum(g.dy(), {dim}, true);
    } else {
      g.dx(0) = kernels::log_softmax_backward(g.dy(), logp, dim);
    }
  });
}

Tensor cross_entropy(const Tensor& logits, const Tensor& target, Reduction reduction,
                     int64_t ignore_index) {
  kernels::CrossEntropy out = kernels::cross_entropy(logits, target, reduction, ignore_index);
  if (!needs_grad({logits})) return out.loss;
  return record("NllLossBackward0", out.loss, {logits},
                [x = Saved(logits), target = Saved(target), lse = out.logsumexp, reduction,
                 ignore_index](Gradients& g) {
                  refuse_second("cross_entropy", g.dy());
                  g.dx(0) = kernels::cross_entropy_backward(g.dy(), x.get(g), target.get(g), lse,
                                                            reduction, ignore_index);
                });
}

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  const Tensor loss = square(input - target);
  if (reduction == Reduction::none) return loss;
  return reduction == Reduction::mean ? mean(loss) : sum(loss);
}

Tensor dropout(const Tensor& x, double p, bool training, Generator* generator) {
  if (!(p >= 0 && p <= 1)) {
    throw ValueError(cat("dropout probability has to be between 0 and 1, but got ", p));
  }
  if (!training || p == 0) return x;
  const PhiloxKey key = (generator ? *generator : default_generator()).next();
  Tensor y = kernels::dropout(x, p, key);
  if (!needs_grad({x})) return y;
  // dropout is linear: its gradient is the same mask, drawn again, and so is the gradient's
  // gradient.
  struct Again {
    double p;
    PhiloxKey key;
    void operator()(Gradients& g) const {
      Tensor dx = kernels::dropout(g.dy(), p, key);
      g.dx(0) = needs_grad({g.dy()}) ? record("NativeDropoutBackward0", dx, {g.dy()}, *this) : dx;
    }
  };
  return record("NativeDropoutBackward0", y, {x}, Again{p, key});
}

Tensor embedding(const Tensor& weight, const Tensor& index) {
  Tensor y = kernels::take_rows("embedding", weight, index);
  if (!needs_grad({weight})) return y;
  return record("EmbeddingBackward0", y, {weight},
                [index = Saved(index), rows = weight.size(0)](Gradients& g) {
                  refuse_second("embedding", g.dy());
                  g.dx(0) = kernels::take_rows_backward(g.dy(), index.get(g), rows);
                });
}

}  // namespace taper
