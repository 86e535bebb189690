// What operators are written with: the tape, and the functions that most formulas need.
#pragma once

#include "autograd/autocast.h"
#include "autograd/node.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "framework/error.h"
#include "framework/factories.h"
#include "framework/kernels/elementwise/activation.h"
#include "framework/kernels/elementwise/binary.h"
#include "framework/profiler/trace.h"

namespace taper::v0 {

// y, which was computed of x and is linear in it: the gradient is back(dy), whatever x is. Only
// what costs nothing to copy (shapes, numbers) belongs into `back`.
template <class F> Tensor linear_in(const Tensor& x, const char* name, Tensor y, F back) {
  if (!needs_grad({x})) return y;
  return record(name, std::move(y), {x}, [back](Gradients& g) { g.dx(0) = back(g.dy()); });
}

// y, which was computed of x: the gradient is back(dy, x), or back(dy, x, y).
template <class F> Tensor differentiable(const char* name, const Tensor& x, Tensor y, F back) {
  if (!needs_grad({x})) return y;
  constexpr bool kTakesY = std::is_invocable_v<F, const Tensor&, const Tensor&, const Tensor&>;
  Saved kept = kTakesY ? Saved::output(y) : Saved();
  return record(name, y, {x}, [back, x = Saved(x), y = std::move(kept)](Gradients& g) {
    const Tensor u = x.get(g), v = y.get(g);
    if constexpr (kTakesY)
      g.dx(0) = back(g.dy(), u, v);
    else
      g.dx(0) = back(g.dy(), u);
  });
}

// The gradient of an operand that was broadcast to dx's shape.
inline Tensor reduce_to(const Tensor& dx, const Tensor& x) { return Meta(x).reduce(dx); }

// The product of all before each element along dim (or of all behind it), 1 for the first.
Tensor product_before(const Tensor& x, int64_t dim, bool backwards = false);

// y = op(a, b) with dx of each from dy, a, b.
template <class Da, class Db>
Tensor differentiable(const char* name, kernels::BinaryOp op, const Tensor& a, const Tensor& b,
                      Da da, Db db) {
  Tensor y = kernels::binary(op, a, b);
  if (!needs_grad({a, b})) return y;
  return record(name, y, {a, b}, [=, a = Saved(a), b = Saved(b)](Gradients& g) {
    const Tensor x = a.get(g), z = b.get(g);
    if (g.needs(0)) g.dx(0) = reduce_to(da(g.dy(), x, z), x);
    if (g.needs(1)) g.dx(1) = reduce_to(db(g.dy(), x, z), z);
  });
}

// dx of y = activation(x), of those that ops fuse, where it must differentiate again.
Tensor activation_gradient(Activation activation, const Tensor& dy, const Tensor& x);

// The sizes of a, then those of b.
inline Shape joined(Shape a, const Shape& b) {
  for (const int64_t n : b) a.push_back(n);
  return a;
}

// Where x is, and of what dtype, for a tensor made beside it.
inline TensorOptions options_of(const Tensor& x) {
  return {.dtype = x.dtype(), .device = x.device()};
}

}  // namespace taper::v0
