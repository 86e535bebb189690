// Helpers for writing ops: recording on the tape and functions that most formulas need.
#pragma once

#include "autograd/autocast.h"
#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/base/error.h"
#include "framework/factory/factories.h"
#include "framework/kernels/elementwise/activation.h"
#include "framework/kernels/elementwise/binary.h"
#include "framework/profiler/trace.h"

namespace taper::v0 {

// Records that y was computed from x by a linear function, and returns y. The gradient back(dy)
// does not depend on x. `back` is copied, so it should capture only cheap values such as shapes and
// numbers.
template <class F> Tensor linear_in(const Tensor& x, const char* name, Tensor y, F back) {
  if (!needs_grad({x})) return y;
  return record(name, std::move(y), {x}, [back](Gradients& g) { g.dx(0) = back(g.dy()); });
}

// Records that y was computed from x, and returns y. The gradient is back(dy, x) or back(dy, x, y).
template <class F> Tensor differentiable(const char* name, const Tensor& x, Tensor y, F back) {
  if (!needs_grad({x})) return y;
  constexpr bool kTakesY = std::is_invocable_v<F, const Tensor&, const Tensor&, const Tensor&>;
  SavedTensor kept = kTakesY ? SavedTensor::output(y) : SavedTensor();
  return record(name, y, {x}, [back, x = SavedTensor(x), y = std::move(kept)](Gradients& g) {
    const Tensor u = x.get(g), v = y.get(g);
    if constexpr (kTakesY)
      g.dx(0) = back(g.dy(), u, v);
    else
      g.dx(0) = back(g.dy(), u);
  });
}

// Returns the gradient of operand x from dx, which has the shape after broadcasting.
inline Tensor reduce_to(const Tensor& dx, const Tensor& x) { return TensorMeta(x).reduce(dx); }

// Returns, for each element, the product of all elements before it along dim (after it if
// `backwards`), and 1 for the first.
Tensor product_before(const Tensor& x, int64_t dim, bool backwards = false);

// Computes y = op(a, b) and records it. `da` and `db` compute each operand's gradient from dy, a
// and b.
template <class Da, class Db>
Tensor differentiable(const char* name, kernels::BinaryOp op, const Tensor& a, const Tensor& b,
                      Da da, Db db) {
  Tensor y = kernels::binary(op, a, b);
  if (!needs_grad({a, b})) return y;
  return record(name, y, {a, b}, [=, a = SavedTensor(a), b = SavedTensor(b)](Gradients& g) {
    const Tensor x = a.get(g), z = b.get(g);
    if (g.needs(0)) g.dx(0) = reduce_to(da(g.dy(), x, z), x);
    if (g.needs(1)) g.dx(1) = reduce_to(db(g.dy(), x, z), z);
  });
}

// Returns activation(x), by the public functions.
Tensor activated(const Tensor& x, Activation activation);
// Returns the gradient of y = activation(x), for the activations that ops fuse, in terms of
// differentiable ops.
Tensor activation_gradient(Activation activation, const Tensor& dy, const Tensor& x);

// Returns the sizes of a followed by the sizes of b.
inline Shape joined(Shape a, const Shape& b) {
  for (const int64_t n : b) a.push_back(n);
  return a;
}

// Returns x's dtype and device, as options for creating another tensor.
inline TensorOptions options_of(const Tensor& x) {
  return {.dtype = x.dtype(), .device = x.device()};
}

}  // namespace taper::v0
