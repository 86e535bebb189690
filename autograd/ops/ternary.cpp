// Element-wise functions of three tensors.
#include "autograd/ops/formulas.h"

namespace taper::inline v0 {
namespace {

using kernels::TernaryOp;

// x + value * a * b, or a / b; db: of b from dy, a, b.
template <class Da, class Db>
Tensor add_combined(const char* name, TernaryOp op, const Tensor& x, const Tensor& a,
                    const Tensor& b, const Scalar& value, Da da, Db db) {
  const DType type = kernels::result_type({&x, &a, &b});
  require<NotImplementedError>(
      type != kBool && (op != TernaryOp::addcdiv || is_floating_point(type)), "\"",
      kernels::kTernaryNames[size_t(op)], "_cpu_out\" not ", "implemented for '",
      scalar_type_name(type), "'");
  value.check_holds(type);
  const double v = value.to_double();
  Tensor y = kernels::ternary(op, x, a, b, v);
  if (!needs_grad({x, a, b})) return y;
  return record(name, y, {x, a, b}, [=, x = Meta(x), a = Saved(a), b = Saved(b)](Gradients& g) {
    const Tensor u = a.get(g), w = b.get(g);
    if (g.needs(0)) g.dx(0) = x.reduce(g.dy());
    if (g.needs(1)) g.dx(1) = reduce_to(g.dy() * da(w, v), u);
    if (g.needs(2)) g.dx(2) = reduce_to(g.dy() * db(u, w, v), w);
  });
}

}  // namespace

Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight) {
  require<NotImplementedError>(start.is_floating_point(), "\"lerp_kernel\" not implemented for '",
                               scalar_type_name(start.dtype()), "'");
  for (const auto& [name, x] : {std::pair("end", &end), std::pair("weight", &weight)}) {
    require(x->dtype() == start.dtype() || x->impl()->wrapped_number, "expected dtype ",
            cpp_name(start.dtype()), " for `", name, "` but got dtype ", cpp_name(x->dtype()));
  }
  Tensor y = kernels::ternary(TernaryOp::lerp, start, end, weight);
  if (!needs_grad({start, end, weight})) return y;
  return record("LerpBackward0", y, {start, end, weight},
                [a = Saved(start), b = Saved(end), w = Saved(weight)](Gradients& g) {
                  const Tensor x = a.get(g), z = b.get(g), t = w.get(g);
                  if (g.needs(0)) g.dx(0) = reduce_to(g.dy() * (1 - t), x);
                  if (g.needs(1)) g.dx(1) = reduce_to(g.dy() * t, z);
                  if (g.needs(2)) g.dx(2) = reduce_to(g.dy() * (z - x), t);
                });
}

Tensor lerp(const Tensor& start, const Tensor& end, Scalar weight) {
  return lerp(start, end, wrap_scalar(weight.to_double()));
}

Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value) {
  return add_combined(
      "AddcmulBackward0", TernaryOp::addcmul, x, a, b, value,
      [](auto& w, double v) { return w * v; }, [](auto& u, auto&, double v) { return u * v; });
}

Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value) {
  require(a.is_floating_point() || b.is_floating_point(),
          "Integer division with addcdiv is no longer supported, and in a future  release addcdiv "
          "will perform a true division of tensor1 and tensor2.");
  return add_combined(
      "AddcdivBackward0", TernaryOp::addcdiv, x, a, b, value,
      [](auto& w, double v) { return v / w; },
      [](auto& u, auto& w, double v) { return neg(u * v / (w * w)); });
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  require(condition.dtype() == kBool || condition.dtype() == kUInt8,
          "where expected condition to be a boolean tensor, but got a tensor with dtype ",
          scalar_type_name(condition.dtype()));
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

}  // namespace taper::inline v0
