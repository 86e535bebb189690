#include "autograd/ops/softmax.h"

#include "autograd/autocast.h"
#include "autograd/node.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "framework/kernels/loss/softmax.h"

namespace taper {
namespace {

Tensor softmax(const char* name, bool log, const Tensor& x, int64_t dim) {
  if (autocasts(x)) {
    return casted(
        Cast::to_float32, [&](auto& t) { return softmax(name, log, t, dim); }, x);
  }
  Tensor y = kernels::softmax(log, x, dim);
  if (!needs_grad({x})) return y;
  return record(name, y, {x}, [y = Saved::output(y), log, dim](Gradients& g) {
    const Tensor p = y.get(g), &dy = g.dy();
    if (!is_grad_enabled()) {
      g.dx(0) = kernels::softmax_backward(log, dy, p, dim);
    } else if (log) {
      g.dx(0) = dy - exp(p) * sum(dy, {dim}, true);
    } else {
      g.dx(0) = p * (dy - sum(dy * p, {dim}, true));
    }
  });
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t dim) { return softmax("SoftmaxBackward0", false, x, dim); }
Tensor log_softmax(const Tensor& x, int64_t dim) {
  return softmax("LogSoftmaxBackward0", true, x, dim);
}

}  // namespace taper
