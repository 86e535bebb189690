#include "autograd/ops/reduce.h"

#include "autograd/node.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/shape.h"
#include "framework/kernels/reduce.h"

namespace taper {
namespace {

using kernels::ReduceOp;

// The sizes of a reduction's result as keepdim would give them.
Shape kept_shape(const Tensor& x, const Shape& dims) {
  Shape shape = x.shape();
  if (dims.empty()) std::fill(shape.begin(), shape.end(), 1);
  for (const int64_t d : dims) {
    if (x.dim() > 0) shape[wrap_dim(d, x.dim())] = 1;
  }
  return shape;
}

// sum and mean: each element gets the gradient, times `factor`.
Tensor linear_reduction(const char* name, ReduceOp op, const Tensor& x, const Shape& dims,
                        bool keepdim) {
  Tensor y = kernels::reduce(op, x, dims, keepdim);
  if (!needs_grad({x})) return y;
  const double factor =
      op == ReduceOp::sum ? 1 : double(std::max<int64_t>(y.numel(), 1)) / double(x.numel());
  return record(name, y, {x},
                [shape = x.shape(), kept = kept_shape(x, dims), factor](Gradients& g) {
                  const Tensor dy = factor == 1 ? g.dy() : g.dy() * factor;
                  g.dx(0) = dy.reshape(kept).expand(shape);
                });
}

Tensor extremum(const char* name, ReduceOp op, const Tensor& x, const Shape& dims, bool keepdim) {
  Tensor y = kernels::reduce(op, x, dims, keepdim);
  if (!needs_grad({x})) return y;
  return record(
      name, y, {x},
      [x = Saved(x), y = Saved::output(y), kept = kept_shape(x, dims), dims](Gradients& g) {
        const Tensor z = x.get(g);
        const Tensor mask = eq(z, y.get(g).reshape(kept)).to(z.dtype());
        g.dx(0) = g.dy().reshape(kept) * (mask / sum(mask, dims, true));
      });
}

}  // namespace

Tensor sum(const Tensor& x, const Shape& dims, bool keepdim) {
  return linear_reduction(dims.empty() ? "SumBackward0" : "SumBackward1", ReduceOp::sum, x, dims,
                          keepdim);
}
Tensor sum(const Tensor& x) { return sum(x, {}, false); }

Tensor mean(const Tensor& x, const Shape& dims, bool keepdim) {
  return linear_reduction(dims.empty() ? "MeanBackward0" : "MeanBackward1", ReduceOp::mean, x, dims,
                          keepdim);
}
Tensor mean(const Tensor& x) { return mean(x, {}, false); }

Tensor prod(const Tensor& x) {
  Tensor y = kernels::reduce(ReduceOp::prod, x, {}, false);
  if (!needs_grad({x})) return y;
  return record("ProdBackward0", y, {x}, [x = Saved(x), y = Saved::output(y)](Gradients& g) {
    const Tensor z = x.get(g);
    // The product of the others: y / x where nothing is 0; with one 0 only that element has a
    // slope, the product of the rest; with more none has.
    const Tensor nonzero = ne(z, wrap_scalar(0));
    const Tensor zero = logical_xor(nonzero, wrap_scalar(true)).to(z.dtype());
    const Tensor factors = masked(z, nonzero) + zero;
    const Tensor at_zero = masked(prod(factors) * zero, eq(sum(zero), wrap_scalar(1)));
    g.dx(0) = g.dy() * (masked(y.get(g) / factors, nonzero) + at_zero);
  });
}

Tensor amax(const Tensor& x, const Shape& dims, bool keepdim) {
  return extremum("AmaxBackward0", ReduceOp::amax, x, dims, keepdim);
}
Tensor amin(const Tensor& x, const Shape& dims, bool keepdim) {
  return extremum("AminBackward0", ReduceOp::amin, x, dims, keepdim);
}

Tensor argmax(const Tensor& x, int64_t dim, bool keepdim) {
  return kernels::arg_reduce(true, x, dim, keepdim);
}
Tensor argmin(const Tensor& x, int64_t dim, bool keepdim) {
  return kernels::arg_reduce(false, x, dim, keepdim);
}

Tensor all(const Tensor& x, const Shape& dims, bool keepdim) {
  return kernels::reduce(ReduceOp::all, x, dims, keepdim);
}
Tensor any(const Tensor& x, const Shape& dims, bool keepdim) {
  return kernels::reduce(ReduceOp::any, x, dims, keepdim);
}

}  // namespace taper
