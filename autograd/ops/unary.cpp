#include "autograd/ops/unary.h"

#include <limits>
#include <numbers>

#include "autograd/activation.h"
#include "autograd/autocast.h"
#include "autograd/node.h"
#include "autograd/ops/binary.h"
#include "framework/kernels/elementwise/binary.h"
#include "framework/kernels/elementwise/unary.h"

namespace taper::inline v0 {
namespace {

using kernels::BinaryOp;
using kernels::UnaryArgs;
using kernels::UnaryOp;

enum class Keep { x, y };

// y = op(x) with a gradient computed from the one that is kept: dx = formula(dy, x or y).
template <class F>
Tensor differentiable(const char* name, UnaryOp op, Keep keep, const Tensor& x, F formula,
                      UnaryArgs args = {}) {
  if (kernels::row_of(op).needs_range && autocasts(x)) {
    return casted(
        Cast::to_float32, [&](auto& t) { return differentiable(name, op, keep, t, formula, args); },
        x);
  }
  Tensor y = kernels::unary(op, x, args);
  if (!needs_grad({x})) return y;
  return record(name, y, {x},
                [kept = keep == Keep::x ? Saved(x) : Saved::output(y), formula](Gradients& g) {
                  const Tensor of = kept.get(g);
                  g.dx(0) = formula(g.dy(), of);
                });
}

template <class F> Tensor from_input(const char* name, UnaryOp op, const Tensor& x, F formula) {
  return differentiable(name, op, Keep::x, x, formula);
}
template <class F> Tensor from_output(const char* name, UnaryOp op, const Tensor& x, F formula) {
  return differentiable(name, op, Keep::y, x, formula);
}

// By one fused kernel; by `formula` in public ops where the backward pass is on the tape.
template <class F>
Tensor fused(const char* name, UnaryOp op, BinaryOp backward, Keep keep, const Tensor& x, F formula,
             double a = 0, double b = 0) {
  return differentiable(name, op, keep, x,
                        [=](const Tensor& dy, const Tensor& kept) {
                          if (is_grad_enabled()) return formula(dy, kept);
                          return kernels::binary(backward, dy, kept, {.a = a, .b = b});
                        },
                        {.a = a, .b = b});
}

// Steps: no slope anywhere.
Tensor flat(const char* name, UnaryOp op, const Tensor& x) {
  Tensor y = kernels::unary(op, x);
  if (!needs_grad({x})) return y;
  return record(name, y, {x}, [](Gradients& g) { g.dx(0) = zeros_like(g.dy()); });
}

}  // namespace

Tensor neg(const Tensor& x) {
  Tensor y = kernels::unary(UnaryOp::neg, x);
  if (!needs_grad({x})) return y;
  return record("NegBackward0", y, {x}, [](Gradients& g) { g.dx(0) = neg(g.dy()); });
}

Tensor abs(const Tensor& x) {
  return from_input("AbsBackward0", UnaryOp::abs, x,
                    [](auto& dy, auto& u) { return dy * sign(u); });
}

Tensor sign(const Tensor& x) { return flat("SignBackward0", UnaryOp::sign, x); }

Tensor square(const Tensor& x) {
  if (x.dtype() == kBool) return square(x.to(kInt64));
  return from_input("PowBackward0", UnaryOp::square, x,
                    [](auto& dy, auto& u) { return dy * (u * 2); });
}

Tensor sqrt(const Tensor& x) {
  return from_output("SqrtBackward0", UnaryOp::sqrt, x,
                     [](auto& dy, auto& y) { return dy / (y * 2); });
}

Tensor rsqrt(const Tensor& x) {
  return from_output("RsqrtBackward0", UnaryOp::rsqrt, x,
                     [](auto& dy, auto& y) { return dy * (y * y * y * -0.5); });
}

Tensor reciprocal(const Tensor& x) {
  return from_output("ReciprocalBackward0", UnaryOp::reciprocal, x,
                     [](auto& dy, auto& y) { return neg(dy * (y * y)); });
}

Tensor exp(const Tensor& x) {
  return from_output("ExpBackward0", UnaryOp::exp, x, [](auto& dy, auto& y) { return dy * y; });
}

Tensor expm1(const Tensor& x) {
  return from_output("Expm1Backward0", UnaryOp::expm1, x,
                     [](auto& dy, auto& y) { return dy * (y + 1); });
}

Tensor log(const Tensor& x) {
  return from_input("LogBackward0", UnaryOp::log, x, [](auto& dy, auto& u) { return dy / u; });
}

Tensor log2(const Tensor& x) {
  return from_input("Log2Backward0", UnaryOp::log2, x,
                    [](auto& dy, auto& u) { return dy / (u * std::numbers::ln2); });
}

Tensor log1p(const Tensor& x) {
  return from_input("Log1PBackward0", UnaryOp::log1p, x,
                    [](auto& dy, auto& u) { return dy / (u + 1); });
}

Tensor sin(const Tensor& x) {
  return from_input("SinBackward0", UnaryOp::sin, x, [](auto& dy, auto& u) { return dy * cos(u); });
}

Tensor cos(const Tensor& x) {
  return from_input("CosBackward0", UnaryOp::cos, x,
                    [](auto& dy, auto& u) { return neg(dy * sin(u)); });
}

Tensor tanh(const Tensor& x) {
  return fused("TanhBackward0", UnaryOp::tanh, BinaryOp::tanh_backward, Keep::y, x,
               [](auto& dy, auto& y) { return dy * (1 - y * y); });
}

Tensor sigmoid(const Tensor& x) {
  return fused("SigmoidBackward0", UnaryOp::sigmoid, BinaryOp::sigmoid_backward, Keep::y, x,
               [](auto& dy, auto& y) { return dy * (y * (1 - y)); });
}

Tensor erf(const Tensor& x) {
  return from_input("ErfBackward0", UnaryOp::erf, x, [](auto& dy, auto& u) {
    constexpr double kTwoOverRootPi = 1.1283791670955126;
    return dy * (exp(neg(u * u)) * kTwoOverRootPi);
  });
}

Tensor floor(const Tensor& x) { return flat("FloorBackward0", UnaryOp::floor, x); }
Tensor ceil(const Tensor& x) { return flat("CeilBackward0", UnaryOp::ceil, x); }
Tensor round(const Tensor& x) { return flat("RoundBackward0", UnaryOp::round, x); }

Tensor relu(const Tensor& x) {
  // y > 0 exactly where x > 0, and y is kept alive by the next op anyway.
  return fused("ReluBackward0", UnaryOp::relu, BinaryOp::relu_backward, Keep::y, x,
               [](auto& dy, auto& y) { return where(y <= 0, 0, dy); });
}

Tensor leaky_relu(const Tensor& x, double negative_slope) {
  return fused(
      "LeakyReluBackward0", UnaryOp::leaky_relu, BinaryOp::leaky_relu_backward, Keep::x, x,
      [=](auto& dy, auto& u) { return where(u > 0, dy, dy * negative_slope); }, negative_slope);
}

Tensor elu(const Tensor& x, double alpha) {
  return fused(
      "EluBackward0", UnaryOp::elu, BinaryOp::elu_backward, Keep::x, x,
      [=](auto& dy, auto& u) {
        // Above 0 exp may overflow, and 0 * inf would reach the next derivative.
        return where(u <= 0, dy * (exp(masked(u, u < 0)) * alpha), dy);
      },
      alpha);
}

Tensor activation_gradient(Activation activation, const Tensor& dy, const Tensor& x) {
  if (activation == Activation::none) return dy;
  if (activation == Activation::relu) return where(x <= 0, 0, dy);
  if (activation == Activation::gelu) {
    const Tensor cdf = (erf(x * 0.70710678118654752) + 1) * 0.5;
    return dy * (cdf + x * exp(x * x * -0.5) * 0.39894228040143268);
  }
  constexpr double kRootTwoOverPi = 0.79788456080286536, kCubic = 0.044715;
  const Tensor z = x * x;
  const Tensor t = tanh(x * (z * kCubic + 1) * kRootTwoOverPi);
  const Tensor slope = (z * (3 * kCubic) + 1) * kRootTwoOverPi;
  return dy * ((t + 1 + x * (1 - t * t) * slope) * 0.5);
}

Tensor gelu(const Tensor& x, bool tanh_form) {
  const auto again = [=](auto& dy, auto& u) {
    return activation_gradient(tanh_form ? Activation::gelu_tanh : Activation::gelu, dy, u);
  };
  if (!tanh_form) {
    return fused("GeluBackward0", UnaryOp::gelu, BinaryOp::gelu_backward, Keep::x, x, again);
  }
  return fused("GeluBackward0", UnaryOp::gelu_tanh, BinaryOp::gelu_tanh_backward, Keep::x, x,
               again);
}

Tensor silu(const Tensor& x) {
  return fused("SiluBackward0", UnaryOp::silu, BinaryOp::silu_backward, Keep::x, x,
               [](auto& dy, auto& u) {
                 const Tensor s = sigmoid(u);
                 return dy * (s * (u * (1 - s) + 1));
               });
}

Tensor softplus(const Tensor& x, double beta, double threshold) {
  return fused(
      "SoftplusBackward0", UnaryOp::softplus, BinaryOp::softplus_backward, Keep::x, x,
      [=](auto& dy, auto& u) {
        const Tensor z = u * beta;
        return where(z > threshold, dy, dy * sigmoid(z));
      },
      beta, threshold);
}

Tensor clamp(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max) {
  if (!min && !max) throw Error("torch.clamp: At least one of 'min' or 'max' must not be None");
  // Numbers of a higher kind than x's raise it.
  const Tensor low = wrap_scalar(min.value_or(*(min ? min : max)));
  const Tensor high = wrap_scalar(max.value_or(*(max ? max : min)));
  const DType type = kernels::result_type({&x, &low, &high});
  for (const auto& bound : {min, max}) {
    if (bound) bound->check_holds(type);
  }
  if (!taper::is_floating_point(type)) {
    // Exact beyond 2^53, where the kernel's bounds are not.
    const Tensor above = min ? maximum(x, low) : x.to(type);
    return max ? minimum(above, high) : above;
  }
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const double a = min ? min->to_double() : -kNone, b = max ? max->to_double() : kNone;
  return fused(
      "ClampBackward1", UnaryOp::clamp, BinaryOp::clamp_backward, Keep::x, x.to(type),
      [=](auto& dy, auto& u) { return masked(dy, logical_and(u >= a, u <= b)); }, a, b);
}

Tensor hardtanh(const Tensor& x, double min_val, double max_val) {
  if (min_val > max_val) throw ValueError("min_val cannot be greater than max_val");
  if (x.dtype() == kBool) throw Error("Bool inputs not supported for hardtanh");
  if (!x.is_floating_point()) {
    const int64_t low = Scalar(min_val).to_int(), high = Scalar(max_val).to_int();
    if (x.dtype() == kUInt8 && low < 0) {
      throw Error("cannot do hardtanh on an unsigned type with negative limits");
    }
    return clamp(x, low, high);
  }
  Tensor y = clamp(x.detach(), min_val, max_val);
  if (!needs_grad({x})) return y;
  return record("HardtanhBackward0", y, {x}, [x = Saved(x), min_val, max_val](Gradients& g) {
    const Tensor from = x.get(g);
    g.dx(0) = where(logical_or(from <= min_val, from >= max_val), 0, g.dy());
  });
}

Tensor relu6(const Tensor& x) { return hardtanh(x, 0, 6); }

Tensor logical_not(const Tensor& x) { return kernels::unary(UnaryOp::logical_not, x); }
Tensor isnan(const Tensor& x) { return kernels::unary(UnaryOp::isnan, x); }
Tensor isinf(const Tensor& x) { return kernels::unary(UnaryOp::isinf, x); }
Tensor isfinite(const Tensor& x) { return kernels::unary(UnaryOp::isfinite, x); }

}  // namespace taper::inline v0
