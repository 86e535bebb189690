#include "autograd/ops/softmax.h"

#include "autograd/node.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "framework/kernels/softmax.h"

namespace taper {

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

}  // namespace taper
