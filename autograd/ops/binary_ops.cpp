#include "autograd/ops/binary_ops.h"

#include "autograd/ops/op_helpers.h"

namespace taper::v0 {
namespace {

using kernels::binary;
using kernels::BinaryOp;
using kernels::TernaryOp;

Tensor add_scaled(const char* name, BinaryOp op, const Tensor& a, const Tensor& b, Scalar alpha) {
  Tensor y = binary(op, a, b, kernels::scaled_by(alpha, a, b));
  if (!needs_grad({a, b})) return y;
  const double factor = op == BinaryOp::kSub ? -alpha.to_double() : alpha.to_double();
  return record(name, y, {a, b}, [a = TensorMeta(a), b = TensorMeta(b), factor](Gradients& g) {
    if (g.needs(0)) g.dx(0) = a.reduce(g.dy());
    if (g.needs(1)) g.dx(1) = b.reduce(factor == 1 ? g.dy() : g.dy() * factor);
  });
}

// Returns the maximum or the minimum. The operand that is not selected gets no gradient. Equal
// operands each get half of it.
Tensor winner(bool larger, const Tensor& a, const Tensor& b) {
  const auto part = [larger](auto& dy, auto& own, auto& other) {
    if (!is_grad_enabled()) {
      return kernels::ternary(larger ? TernaryOp::kMaximumBackward : TernaryOp::kMinimumBackward,
                              dy, own, other);
    }
    const Tensor lost = larger ? own < other : own > other;
    return where(lost, 0, where(eq(own, other), dy * 0.5, dy));
  };
  return differentiable(larger ? "MaximumBackward0" : "MinimumBackward0",
                        larger ? BinaryOp::kMaximum : BinaryOp::kMinimum, a, b, part,
                        [part](auto& dy, auto& x, auto& z) { return part(dy, z, x); });
}

// Computes x + value * a * b, or x + value * a / b. `da` and `db` give the gradients of a and b.
template <class Da, class Db>
Tensor add_combined(const char* name, TernaryOp op, const Tensor& x, const Tensor& a,
                    const Tensor& b, const Scalar& value, Da da, Db db) {
  const DType type = kernels::result_type({&x, &a, &b});
  require<NotImplementedError>(
      type != kBool && (op != TernaryOp::kAddcdiv || is_floating_point(type)), "\"",
      kernels::kTernaryNames[size_t(op)], "_cpu_out\" not ", "implemented for '",
      scalar_type_name(type), "'");
  value.check_holds(type);
  const double v = value.to_double();
  Tensor y = kernels::ternary(op, x, a, b, v);
  if (!needs_grad({x, a, b})) return y;
  return record(name, y, {x, a, b},
                [=, x = TensorMeta(x), a = SavedTensor(a), b = SavedTensor(b)](Gradients& g) {
                  const Tensor u = a.get(g), w = b.get(g);
                  if (g.needs(0)) g.dx(0) = x.reduce(g.dy());
                  if (g.needs(1)) g.dx(1) = reduce_to(g.dy() * da(w, v), u);
                  if (g.needs(2)) g.dx(2) = reduce_to(g.dy() * db(u, w, v), w);
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
  return add_scaled("AddBackward0", BinaryOp::kAdd, a, b, alpha);
}

Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha) {
  return add_scaled("SubBackward0", BinaryOp::kSub, a, b, alpha);
}

Tensor mul(const Tensor& a, const Tensor& b) {
  Tensor y = binary(BinaryOp::kMul, a, b);
  if (!needs_grad({a, b})) return y;
  // An operand is saved only if the gradient of the other operand needs it.
  SavedTensor keep_a = b.requires_grad() ? SavedTensor(a) : SavedTensor();
  SavedTensor keep_b = a.requires_grad() ? SavedTensor(b) : SavedTensor();
  return record("MulBackward0", y, {a, b},
                [ma = TensorMeta(a), mb = TensorMeta(b), a = std::move(keep_a),
                 b = std::move(keep_b)](Gradients& g) {
                  if (g.needs(0)) g.dx(0) = ma.reduce(g.dy() * b.get(g));
                  if (g.needs(1)) g.dx(1) = mb.reduce(g.dy() * a.get(g));
                });
}

Tensor div(const Tensor& a, const Tensor& b) {
  Tensor y = binary(BinaryOp::kDiv, a, b);
  if (!needs_grad({a, b})) return y;
  SavedTensor keep_a = b.requires_grad() ? SavedTensor(a) : SavedTensor();
  return record("DivBackward0", y, {a, b},
                [ma = TensorMeta(a), a = std::move(keep_a), b = SavedTensor(b)](Gradients& g) {
                  const Tensor z = b.get(g);
                  if (g.needs(0)) g.dx(0) = ma.reduce(g.dy() / z);
                  // d(a/b)/db = -(a/b)/b
                  if (g.needs(1)) g.dx(1) = reduce_to(neg(g.dy() * (a.get(g) / z / z)), z);
                });
}

Tensor div(const Tensor& a, const Tensor& b, RoundingMode rounding_mode) {
  const bool down = rounding_mode == RoundingMode::kFloor;
  Tensor y = kernels::binary(down ? BinaryOp::kFloorDivide : BinaryOp::kDivTrunc, a, b);
  if (!needs_grad({a, b})) return y;
  return record("DivBackward0", y, {a, b}, [a = TensorMeta(a), b = TensorMeta(b)](Gradients& g) {
    const Tensor none = zeros_like(g.dy());
    if (g.needs(0)) g.dx(0) = a.reduce(none);
    if (g.needs(1)) g.dx(1) = b.reduce(none);
  });
}

Tensor floor_divide(const Tensor& a, const Tensor& b) {
  return binary(BinaryOp::kFloorDivide, a, b);
}

Tensor remainder(const Tensor& a, const Tensor& b) {
  // The result is a - b * floor(a / b), in which floor(a / b) is treated as a constant.
  return differentiable(
      "RemainderBackward0", BinaryOp::kRemainder, a, b, [](auto& dy, auto&, auto&) { return dy; },
      [](auto& dy, auto& x, auto& z) { return -(dy * floor_divide(x.detach(), z.detach())); });
}

Tensor fmod(const Tensor& a, const Tensor& b) {
  return differentiable(
      "FmodBackward0", BinaryOp::kFmod, a, b, [](auto& dy, auto&, auto&) { return dy; },
      [](auto& dy, auto& x, auto& z) { return neg(dy * div(x.detach(), z.detach(), "trunc")); });
}

Tensor atan2(const Tensor& y, const Tensor& x) {
  // The gradient at the origin is 0.
  const auto squares = [](const Tensor& u, const Tensor& v) {
    const Tensor r = u * u + v * v;
    return where(eq(r, 0), 1, r);
  };
  return differentiable(
      "Atan2Backward0", BinaryOp::kAtan2, y, x,
      [=](auto& d, auto& u, auto& v) {
        return is_grad_enabled() ? d * (v / squares(u, v))
                                 : kernels::ternary(TernaryOp::kAtan2Backward, d, u, v);
      },
      [=](auto& d, auto& u, auto& v) {
        return is_grad_enabled() ? neg(d * (u / squares(u, v)))
                                 : kernels::ternary(TernaryOp::kAtan2Backward, d, v, u, -1);
      });
}

Tensor logaddexp(const Tensor& a, const Tensor& b) {
  return differentiable(
      "LogaddexpBackward0", BinaryOp::kLogaddexp, a, b,
      [](auto& dy, auto& x, auto& z) { return dy * sigmoid(x - z); },
      [](auto& dy, auto& x, auto& z) { return dy * sigmoid(z - x); });
}

Tensor xlogy(const Tensor& a, const Tensor& b) {
  return differentiable(
      "XlogyBackward0", BinaryOp::kXlogy, a, b,
      [](auto& dy, auto& x, auto& z) {
        return zero_outside(xlogy(dy, z), logical_or(ne(x, 0), z > 0));
      },
      [](auto& dy, auto& x, auto& z) { return dy * (x / z); });
}

Tensor pow(const Tensor& base, const Tensor& exponent) {
  const auto again = [](auto& a, auto& b) { return pow(a, b); };
  if (autocasts(base)) return in_float32(again, base, exponent);
  Tensor y = binary(BinaryOp::kPow, base, exponent);
  if (!needs_grad({base, exponent})) return y;
  return record(
      "PowBackward0", y, {base, exponent},
      [a = SavedTensor(base), b = SavedTensor(exponent), y = SavedTensor::output(y)](Gradients& g) {
        const Tensor x = a.get(g), e = b.get(g);
        // If the exponent is a tensor, x may be a number with another dtype than the result.
        const Tensor typed = x.to(g.dy().dtype());
        // The gradient is 0 where the exponent is 0, also at x = 0. Values that are not
        // selected are computed from 1, so that their own derivatives are not inf or NaN.
        if (g.needs(0) && !is_grad_enabled()) {
          g.dx(0) = reduce_to(kernels::ternary(TernaryOp::kPowBackward, g.dy(), typed, e), x);
        } else if (g.needs(0)) {
          const Tensor root = where(eq(e, 0), 1, typed);
          g.dx(0) = reduce_to(g.dy() * zero_outside(e * pow(root, e - 1), e), x);
        }
        // x^e * log(x), and 0 where x = 0 and e >= 0.
        if (g.needs(1) && !is_grad_enabled()) {
          g.dx(1) = reduce_to(
              kernels::ternary(TernaryOp::kPowExponentBackward, g.dy() * y.get(g), typed, e), e);
        } else if (g.needs(1)) {
          const Tensor flat = logical_and(eq(x, 0), e >= 0);
          const Tensor slope = y.get(g) * log(where(flat, 1, typed));
          g.dx(1) = reduce_to(g.dy() * where(flat, 0, slope), e);
        }
      });
}

Tensor pow(const Tensor& base, Scalar exponent) {
  require(base.is_floating_point() || exponent.dtype() != kInt64 || exponent.to_int() >= 0,
          "Integers to negative integer powers are not allowed.");
  return pow(base, wrap_scalar(exponent));
}

Tensor maximum(const Tensor& a, const Tensor& b) { return winner(true, a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return winner(false, a, b); }

Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight) {
  require<NotImplementedError>(start.is_floating_point(), "\"lerp_kernel\" not implemented for '",
                               scalar_type_name(start.dtype()), "'");
  for (const auto& [name, x] : {std::pair("end", &end), std::pair("weight", &weight)}) {
    require(x->dtype() == start.dtype() || x->impl()->wrapped_number, "expected dtype ",
            cpp_name(start.dtype()), " for `", name, "` but got dtype ", cpp_name(x->dtype()));
  }
  Tensor y = kernels::ternary(TernaryOp::kLerp, start, end, weight);
  if (!needs_grad({start, end, weight})) return y;
  return record(
      "LerpBackward0", y, {start, end, weight},
      [a = SavedTensor(start), b = SavedTensor(end), w = SavedTensor(weight)](Gradients& g) {
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
      "AddcmulBackward0", TernaryOp::kAddcmul, x, a, b, value,
      [](auto& w, double v) { return w * v; }, [](auto& u, auto&, double v) { return u * v; });
}

Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value) {
  require(a.is_floating_point() || b.is_floating_point(),
          "Integer division with addcdiv is no longer supported, and in a future  release addcdiv "
          "will perform a true division of tensor1 and tensor2.");
  return add_combined(
      "AddcdivBackward0", TernaryOp::kAddcdiv, x, a, b, value,
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
                [c = SavedTensor(condition), a = TensorMeta(a), b = TensorMeta(b)](Gradients& g) {
                  if (g.needs(0)) g.dx(0) = a.reduce(where(c.get(g), g.dy(), 0));
                  if (g.needs(1)) g.dx(1) = b.reduce(where(c.get(g), 0, g.dy()));
                });
}

Tensor where(const Tensor& condition, Scalar a, Scalar b) {
  const Tensor x = wrap_scalar(a), y = wrap_scalar(b);
  const DType type = kernels::result_type({&x, &y});
  const TensorOptions options{.dtype = is_floating_point(type) ? kFloat32 : type,
                              .device = condition.device()};
  return where(condition, full({}, a, options), full({}, b, options));
}

Tensor zero_outside(const Tensor& x, const Tensor& mask) {
  // The zeros are the number false, which never raises the dtype, so the result keeps x's dtype.
  Tensor y = kernels::where(mask, x, wrap_scalar(false));
  if (!needs_grad({x})) return y;
  return record("MaskedBackward0", y, {x},
                [x = TensorMeta(x), mask = SavedTensor(mask)](Gradients& g) {
                  g.dx(0) = x.reduce(zero_outside(g.dy(), mask.get(g)));
                });
}

Tensor eq(const Tensor& a, const Tensor& b) { return binary(BinaryOp::kEq, a, b); }
Tensor ne(const Tensor& a, const Tensor& b) { return binary(BinaryOp::kNe, a, b); }
Tensor lt(const Tensor& a, const Tensor& b) { return binary(BinaryOp::kLt, a, b); }
Tensor le(const Tensor& a, const Tensor& b) { return binary(BinaryOp::kLe, a, b); }
Tensor gt(const Tensor& a, const Tensor& b) { return binary(BinaryOp::kGt, a, b); }
Tensor ge(const Tensor& a, const Tensor& b) { return binary(BinaryOp::kGe, a, b); }
Tensor logical_and(const Tensor& a, const Tensor& b) { return binary(BinaryOp::kLogicalAnd, a, b); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return binary(BinaryOp::kLogicalOr, a, b); }
Tensor logical_xor(const Tensor& a, const Tensor& b) { return binary(BinaryOp::kLogicalXor, a, b); }
Tensor bitwise_and(const Tensor& a, const Tensor& b) { return binary(BinaryOp::kBitwiseAnd, a, b); }
Tensor bitwise_or(const Tensor& a, const Tensor& b) { return binary(BinaryOp::kBitwiseOr, a, b); }
Tensor bitwise_xor(const Tensor& a, const Tensor& b) { return binary(BinaryOp::kBitwiseXor, a, b); }

Tensor isclose(const Tensor& a, const Tensor& b, RealArg rtol, RealArg atol, BoolArg equal_nan) {
  require(a.dtype() == b.dtype(), scalar_type_name(a.dtype()), " did not match ",
          scalar_type_name(b.dtype()));
  require(rtol >= 0, "rtol must be greater than or equal to zero, but got ", rtol);
  require(atol >= 0, "atol must be greater than or equal to zero, but got ", atol);
  const NoGradGuard no_grad;
  const Tensor close = kernels::binary(BinaryOp::kIsclose, a, b, {.a = rtol, .b = atol});
  return equal_nan ? logical_or(close, logical_and(isnan(a), isnan(b))) : close;
}

Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& options) {
  return isclose(a, b, options.rtol, options.atol, options.equal_nan);
}

bool allclose(const Tensor& a, const Tensor& b, RealArg rtol, RealArg atol, BoolArg equal_nan) {
  return all(isclose(a, b, rtol, atol, equal_nan)).item<bool>();
}

bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& options) {
  return all(isclose(a, b, options)).item<bool>();
}

bool equal(const Tensor& a, const Tensor& b) {
  const NoGradGuard no_grad;
  kernels::same_device("equal", {&a, &b}, {"self", "other"});
  return a.shape() == b.shape() && all(eq(a, b)).item<bool>();
}

// --- methods of Tensor ---

Tensor Tensor::add(const Tensor& b, Scalar alpha) const { return taper::add(*this, b, alpha); }
Tensor Tensor::sub(const Tensor& b, Scalar alpha) const { return taper::sub(*this, b, alpha); }
Tensor Tensor::mul(const Tensor& b) const { return taper::mul(*this, b); }
Tensor Tensor::div(const Tensor& b) const { return taper::div(*this, b); }
Tensor Tensor::div(const Tensor& b, RoundingMode rounding_mode) const {
  return taper::div(*this, b, rounding_mode);
}
Tensor Tensor::floor_divide(const Tensor& b) const { return taper::floor_divide(*this, b); }
Tensor Tensor::remainder(const Tensor& b) const { return taper::remainder(*this, b); }
Tensor Tensor::fmod(const Tensor& b) const { return taper::fmod(*this, b); }
Tensor Tensor::pow(const Tensor& exponent) const { return taper::pow(*this, exponent); }
Tensor Tensor::pow(Scalar exponent) const { return taper::pow(*this, exponent); }
Tensor Tensor::atan2(const Tensor& x) const { return taper::atan2(*this, x); }
Tensor Tensor::logaddexp(const Tensor& b) const { return taper::logaddexp(*this, b); }
Tensor Tensor::xlogy(const Tensor& b) const { return taper::xlogy(*this, b); }
Tensor Tensor::lerp(const Tensor& end, const Tensor& weight) const {
  return taper::lerp(*this, end, weight);
}
Tensor Tensor::lerp(const Tensor& end, Scalar weight) const {
  return taper::lerp(*this, end, weight);
}
Tensor Tensor::addcmul(const Tensor& a, const Tensor& b, Scalar value) const {
  return taper::addcmul(*this, a, b, value);
}
Tensor Tensor::addcdiv(const Tensor& a, const Tensor& b, Scalar value) const {
  return taper::addcdiv(*this, a, b, value);
}
Tensor Tensor::maximum(const Tensor& b) const { return taper::maximum(*this, b); }
Tensor Tensor::minimum(const Tensor& b) const { return taper::minimum(*this, b); }
Tensor Tensor::eq(const Tensor& b) const { return taper::eq(*this, b); }
Tensor Tensor::ne(const Tensor& b) const { return taper::ne(*this, b); }
Tensor Tensor::lt(const Tensor& b) const { return taper::lt(*this, b); }
Tensor Tensor::le(const Tensor& b) const { return taper::le(*this, b); }
Tensor Tensor::gt(const Tensor& b) const { return taper::gt(*this, b); }
Tensor Tensor::ge(const Tensor& b) const { return taper::ge(*this, b); }
Tensor Tensor::logical_and(const Tensor& b) const { return taper::logical_and(*this, b); }
Tensor Tensor::logical_or(const Tensor& b) const { return taper::logical_or(*this, b); }
Tensor Tensor::logical_xor(const Tensor& b) const { return taper::logical_xor(*this, b); }
Tensor Tensor::bitwise_and(const Tensor& b) const { return taper::bitwise_and(*this, b); }
Tensor Tensor::bitwise_or(const Tensor& b) const { return taper::bitwise_or(*this, b); }
Tensor Tensor::bitwise_xor(const Tensor& b) const { return taper::bitwise_xor(*this, b); }
Tensor Tensor::isclose(const Tensor& b, RealArg rtol, RealArg atol, BoolArg equal_nan) const {
  return taper::isclose(*this, b, rtol, atol, equal_nan);
}
Tensor Tensor::isclose(const Tensor& b, const CloseOptions& options) const {
  return taper::isclose(*this, b, options);
}
bool Tensor::allclose(const Tensor& b, RealArg rtol, RealArg atol, BoolArg equal_nan) const {
  return taper::allclose(*this, b, rtol, atol, equal_nan);
}
bool Tensor::allclose(const Tensor& b, const CloseOptions& options) const {
  return taper::allclose(*this, b, options);
}
bool Tensor::equal(const Tensor& b) const { return taper::equal(*this, b); }
Tensor Tensor::add(Scalar b) const { return taper::add(*this, b); }
Tensor Tensor::sub(Scalar b) const { return taper::sub(*this, b); }
Tensor Tensor::mul(Scalar b) const { return taper::mul(*this, b); }
Tensor Tensor::div(Scalar b) const { return taper::div(*this, b); }
Tensor Tensor::div(Scalar b, RoundingMode rounding_mode) const {
  return taper::div(*this, b, rounding_mode);
}
Tensor Tensor::floor_divide(Scalar b) const { return taper::floor_divide(*this, b); }
Tensor Tensor::remainder(Scalar b) const { return taper::remainder(*this, b); }
Tensor Tensor::fmod(Scalar b) const { return taper::fmod(*this, b); }
Tensor Tensor::atan2(Scalar x) const { return taper::atan2(*this, x); }
Tensor Tensor::logaddexp(Scalar b) const { return taper::logaddexp(*this, b); }
Tensor Tensor::xlogy(Scalar b) const { return taper::xlogy(*this, b); }
Tensor Tensor::bitwise_and(Scalar b) const { return taper::bitwise_and(*this, b); }
Tensor Tensor::bitwise_or(Scalar b) const { return taper::bitwise_or(*this, b); }
Tensor Tensor::bitwise_xor(Scalar b) const { return taper::bitwise_xor(*this, b); }
Tensor Tensor::maximum(Scalar b) const { return taper::maximum(*this, b); }
Tensor Tensor::minimum(Scalar b) const { return taper::minimum(*this, b); }
Tensor Tensor::eq(Scalar b) const { return taper::eq(*this, b); }
Tensor Tensor::ne(Scalar b) const { return taper::ne(*this, b); }
Tensor Tensor::lt(Scalar b) const { return taper::lt(*this, b); }
Tensor Tensor::le(Scalar b) const { return taper::le(*this, b); }
Tensor Tensor::gt(Scalar b) const { return taper::gt(*this, b); }
Tensor Tensor::ge(Scalar b) const { return taper::ge(*this, b); }

}  // namespace taper::v0
