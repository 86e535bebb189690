#include "autograd/ops/binary.h"

#include "autograd/autocast.h"
#include "autograd/node.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "framework/kernels/elementwise/binary.h"

namespace taper::inline v0 {
namespace {

using kernels::BinaryOp;

Tensor reduce_to(const Tensor& dx, const Tensor& x) { return Meta(x).reduce(dx); }

Tensor add_scaled(const char* name, BinaryOp op, const Tensor& a, const Tensor& b, Scalar alpha) {
  Tensor y = kernels::binary(op, a, b, kernels::scaled_by(alpha, a, b));
  if (!needs_grad({a, b})) return y;
  const double factor = op == BinaryOp::sub ? -alpha.to_double() : alpha.to_double();
  return record(name, y, {a, b}, [a = Meta(a), b = Meta(b), factor](Gradients& g) {
    if (g.needs(0)) g.dx(0) = a.reduce(g.dy());
    if (g.needs(1)) g.dx(1) = b.reduce(factor == 1 ? g.dy() : g.dy() * factor);
  });
}

// maximum and minimum: the loser gets no gradient, equals share it.
Tensor extremum(const char* name, BinaryOp op, const Tensor& a, const Tensor& b) {
  Tensor y = kernels::binary(op, a, b);
  if (!needs_grad({a, b})) return y;
  const bool largest = op == BinaryOp::maximum;
  return record(name, y, {a, b}, [a = Saved(a), b = Saved(b), largest](Gradients& g) {
    const Tensor x = a.get(g), z = b.get(g);
    const Tensor dy = where(eq(x, z), g.dy() * 0.5, g.dy());
    if (g.needs(0)) g.dx(0) = reduce_to(where(largest ? x < z : x > z, 0, dy), x);
    if (g.needs(1)) g.dx(1) = reduce_to(where(largest ? x > z : x < z, 0, dy), z);
  });
}

}  // namespace

Tensor sum_to(const Tensor& dy, const Shape& shape) {
  if (dy.shape() == shape) return dy;
  const int extra = dy.dim() - shape.size();
  Shape dims;
  for (int i = 0; i < dy.dim(); ++i) {
    if (i < extra || (shape[i - extra] == 1 && dy.shape()[i] != 1)) dims.push_back(i);
  }
  return dims.empty() ? dy.view(shape) : sum(dy, dims, true).view(shape);
}

Tensor add(const Tensor& a, const Tensor& b, Scalar alpha) {
  return add_scaled("AddBackward0", BinaryOp::add, a, b, alpha);
}

Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha) {
  return add_scaled("SubBackward0", BinaryOp::sub, a, b, alpha);
}

Tensor mul(const Tensor& a, const Tensor& b) {
  Tensor y = kernels::binary(BinaryOp::mul, a, b);
  if (!needs_grad({a, b})) return y;
  // Each operand is kept only for the other's gradient.
  Saved keep_a = b.requires_grad() ? Saved(a) : Saved();
  Saved keep_b = a.requires_grad() ? Saved(b) : Saved();
  return record(
      "MulBackward0", y, {a, b},
      [ma = Meta(a), mb = Meta(b), a = std::move(keep_a), b = std::move(keep_b)](Gradients& g) {
        if (g.needs(0)) g.dx(0) = ma.reduce(g.dy() * b.get(g));
        if (g.needs(1)) g.dx(1) = mb.reduce(g.dy() * a.get(g));
      });
}

Tensor div(const Tensor& a, const Tensor& b) {
  Tensor y = kernels::binary(BinaryOp::div, a, b);
  if (!needs_grad({a, b})) return y;
  Saved keep_a = b.requires_grad() ? Saved(a) : Saved();
  return record("DivBackward0", y, {a, b},
                [ma = Meta(a), a = std::move(keep_a), b = Saved(b)](Gradients& g) {
                  const Tensor z = b.get(g);
                  if (g.needs(0)) g.dx(0) = ma.reduce(g.dy() / z);
                  // d(a/b)/db = -(a/b)/b
                  if (g.needs(1)) g.dx(1) = reduce_to(neg(g.dy() * (a.get(g) / z / z)), z);
                });
}

Tensor div(const Tensor& a, const Tensor& b, const std::string& rounding_mode) {
  const bool down = rounding_mode == "floor";
  if (!down && rounding_mode != "trunc") {
    throw Error(cat("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '",
                    rounding_mode, "'"));
  }
  const Tensor x = a.detach(), z = b.detach();
  Tensor y = floor_divide(x, z);
  if (!down && y.is_floating_point()) {
    // Half types round once only.
    const Tensor q = x.to(y.element_size() == 2 ? kFloat32 : y.dtype()) / z;
    y = where(q < 0, ceil(q), floor(q)).to(y.dtype());
  } else if (!down) {
    y = y + logical_and(y < 0, ne(y * z, x));
  }
  if (!needs_grad({a, b})) return y;
  return record("DivBackward0", y, {a, b}, [a = Meta(a), b = Meta(b)](Gradients& g) {
    const Tensor none = zeros_like(g.dy());
    if (g.needs(0)) g.dx(0) = a.reduce(none);
    if (g.needs(1)) g.dx(1) = b.reduce(none);
  });
}

Tensor floor_divide(const Tensor& a, const Tensor& b) {
  return kernels::binary(BinaryOp::floor_divide, a, b);
}

Tensor remainder(const Tensor& a, const Tensor& b) {
  Tensor y = kernels::binary(BinaryOp::remainder, a, b);
  if (!needs_grad({a, b})) return y;
  return record("RemainderBackward0", y, {a, b}, [a = Saved(a), b = Saved(b)](Gradients& g) {
    const Tensor x = a.get(g), z = b.get(g);
    if (g.needs(0)) g.dx(0) = reduce_to(g.dy(), x);
    // a - b * floor(a / b), with the quotient taken as constant.
    if (g.needs(1)) g.dx(1) = reduce_to(neg(g.dy() * floor_divide(x.detach(), z.detach())), z);
  });
}

Tensor pow(const Tensor& base, const Tensor& exponent) {
  if (autocasts(base)) {
    return casted(
        Cast::to_float32, [&](auto&... t) { return pow(t...); }, base, exponent);
  }
  Tensor y = kernels::binary(BinaryOp::pow, base, exponent);
  if (!needs_grad({base, exponent})) return y;
  return record("PowBackward0", y, {base, exponent},
                [a = Saved(base), b = Saved(exponent), y = Saved::output(y)](Gradients& g) {
                  const Tensor x = a.get(g), e = b.get(g);
                  const Tensor typed = x.to(g.dy().dtype());  // beside a tensor x may be a number
                  // Where the exponent is 0 the slope is 0, also at x = 0. What is not taken is
                  // computed of 1, lest its own slopes be inf or nan.
                  if (g.needs(0)) {
                    const Tensor root = where(eq(e, 0), 1, typed);
                    g.dx(0) = reduce_to(g.dy() * masked(e * pow(root, e - 1), e), x);
                  }
                  // x^e log x, and 0 where x = 0 and e >= 0.
                  if (g.needs(1)) {
                    const Tensor flat = logical_and(eq(x, 0), e >= 0);
                    const Tensor slope = y.get(g) * log(where(flat, 1, typed));
                    g.dx(1) = reduce_to(g.dy() * where(flat, 0, slope), e);
                  }
                });
}

Tensor pow(const Tensor& base, Scalar exponent) {
  if (autocasts(base)) {
    return casted(
        Cast::to_float32, [&](auto& t) { return pow(t, exponent); }, base);
  }
  if (!base.is_floating_point() && exponent.dtype() == kInt64 && exponent.to_int() < 0) {
    throw Error("Integers to negative integer powers are not allowed.");
  }
  return pow(base, wrap_scalar(exponent));
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  if (condition.dtype() != kBool && condition.dtype() != kUInt8) {
    throw Error(cat("where expected condition to be a boolean tensor, but got a tensor with dtype ",
                    scalar_type_name(condition.dtype())));
  }
  Tensor y = kernels::where(condition, a, b);
  if (!needs_grad({a, b})) return y;
  return record("WhereBackward0", y, {a, b},
                [c = Saved(condition), a = Meta(a), b = Meta(b)](Gradients& g) {
                  if (g.needs(0)) g.dx(0) = a.reduce(where(c.get(g), g.dy(), 0));
                  if (g.needs(1)) g.dx(1) = b.reduce(where(c.get(g), 0, g.dy()));
                });
}

Tensor masked(const Tensor& x, const Tensor& mask) {
  // false keeps x's dtype.
  Tensor y = kernels::where(mask, x, wrap_scalar(false));
  if (!needs_grad({x})) return y;
  return record("MaskedBackward0", y, {x}, [x = Meta(x), mask = Saved(mask)](Gradients& g) {
    g.dx(0) = x.reduce(masked(g.dy(), mask.get(g)));
  });
}

Tensor maximum(const Tensor& a, const Tensor& b) {
  return extremum("MaximumBackward0", BinaryOp::maximum, a, b);
}
Tensor minimum(const Tensor& a, const Tensor& b) {
  return extremum("MinimumBackward0", BinaryOp::minimum, a, b);
}

Tensor eq(const Tensor& a, const Tensor& b) { return kernels::binary(BinaryOp::eq, a, b); }
Tensor ne(const Tensor& a, const Tensor& b) { return kernels::binary(BinaryOp::ne, a, b); }
Tensor lt(const Tensor& a, const Tensor& b) { return kernels::binary(BinaryOp::lt, a, b); }
Tensor le(const Tensor& a, const Tensor& b) { return kernels::binary(BinaryOp::le, a, b); }
Tensor gt(const Tensor& a, const Tensor& b) { return kernels::binary(BinaryOp::gt, a, b); }
Tensor ge(const Tensor& a, const Tensor& b) { return kernels::binary(BinaryOp::ge, a, b); }
Tensor logical_and(const Tensor& a, const Tensor& b) {
  return kernels::binary(BinaryOp::logical_and, a, b);
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return kernels::binary(BinaryOp::logical_or, a, b);
}
Tensor logical_xor(const Tensor& a, const Tensor& b) {
  return kernels::binary(BinaryOp::logical_xor, a, b);
}

}  // namespace taper::inline v0
