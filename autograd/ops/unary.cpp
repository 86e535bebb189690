#include "autograd/ops/unary.h"

#include "autograd/node.h"
#include "autograd/ops/binary.h"
#include "framework/kernels/binary.h"
#include "framework/kernels/unary.h"

namespace taper {
namespace {

using kernels::BinaryArgs;
using kernels::BinaryOp;
using kernels::UnaryArgs;
using kernels::UnaryOp;

// y = op(x) with a gradient computed from x: dx = formula(dy, x).
template <class F>
Tensor from_input(const char* name, UnaryOp op, const Tensor& x, F formula, UnaryArgs args = {}) {
  Tensor y = kernels::unary(op, x, args);
  if (!needs_grad({x})) return y;
  return record(name, y, {x},
                [x = Saved(x), formula](Gradients& g) { g.dx(0) = formula(g.dy(), x.get(g)); });
}

// The same with a gradient computed from y.
template <class F> Tensor from_output(const char* name, UnaryOp op, const Tensor& x, F formula) {
  Tensor y = kernels::unary(op, x);
  if (!needs_grad({x})) return y;
  return record(name, y, {x}, [y = Saved::output(y), formula](Gradients& g) {
    g.dx(0) = formula(g.dy(), y.get(g));
  });
}

// A gradient in one fused kernel, dx = op(dy, saved), which itself is linear in dy but is not
// differentiated with respect to what was saved.
Tensor fused(BinaryOp op, const Tensor& dy, const Tensor& saved, BinaryArgs args = {}) {
  if (needs_grad({dy, saved})) {
    throw NotImplementedError(cat(kernels::name_of(op), " has no second derivative"));
  }
  return kernels::binary(op, dy, saved, args);
}

}  // namespace

Tensor neg(const Tensor& x) {
  Tensor y = kernels::unary(UnaryOp::neg, x);
  if (!needs_grad({x})) return y;
  return record("NegBackward0", y, {x}, [](Gradients& g) { g.dx(0) = neg(g.dy()); });
}

Tensor abs(const Tensor& x) {
  return from_input("AbsBackward0", UnaryOp::abs, x,
                    [](const Tensor& dy, const Tensor& u) { return dy * sign(u); });
}

Tensor sign(const Tensor& x) {
  return from_input("SignBackward0", UnaryOp::sign, x,
                    [](const Tensor& dy, const Tensor&) { return zeros_like(dy); });
}

Tensor square(const Tensor& x) {
  return from_input("PowBackward0", UnaryOp::square, x,
                    [](const Tensor& dy, const Tensor& u) { return dy * (u * 2); });
}

Tensor sqrt(const Tensor& x) {
  return from_output("SqrtBackward0", UnaryOp::sqrt, x,
                     [](const Tensor& dy, const Tensor& y) { return dy / (y * 2); });
}

Tensor rsqrt(const Tensor& x) {
  return from_output("RsqrtBackward0", UnaryOp::rsqrt, x,
                     [](const Tensor& dy, const Tensor& y) { return dy * (y * y * y * -0.5); });
}

Tensor reciprocal(const Tensor& x) {
  return from_output("ReciprocalBackward0", UnaryOp::reciprocal, x,
                     [](const Tensor& dy, const Tensor& y) { return neg(dy * (y * y)); });
}

Tensor exp(const Tensor& x) {
  return from_output("ExpBackward0", UnaryOp::exp, x,
                     [](const Tensor& dy, const Tensor& y) { return dy * y; });
}

Tensor expm1(const Tensor& x) {
  return from_output("Expm1Backward0", UnaryOp::expm1, x,
                     [](const Tensor& dy, const Tensor& y) { return dy * (y + 1); });
}

Tensor log(const Tensor& x) {
  return from_input("LogBackward0", UnaryOp::log, x,
                    [](const Tensor& dy, const Tensor& u) { return dy / u; });
}

Tensor log1p(const Tensor& x) {
  return from_input("Log1PBackward0", UnaryOp::log1p, x,
                    [](const Tensor& dy, const Tensor& u) { return dy / (u + 1); });
}

Tensor sin(const Tensor& x) {
  return from_input("SinBackward0", UnaryOp::sin, x,
                    [](const Tensor& dy, const Tensor& u) { return dy * cos(u); });
}

Tensor cos(const Tensor& x) {
  return from_input("CosBackward0", UnaryOp::cos, x,
                    [](const Tensor& dy, const Tensor& u) { return neg(dy * sin(u)); });
}

Tensor tanh(const Tensor& x) {
  return from_output("TanhBackward0", UnaryOp::tanh, x, [](const Tensor& dy, const Tensor& y) {
    if (is_grad_enabled()) return dy * (1 - y * y);
    return kernels::binary(BinaryOp::tanh_backward, dy, y);
  });
}

Tensor sigmoid(const Tensor& x) {
  return from_output("SigmoidBackward0", UnaryOp::sigmoid, x,
                     [](const Tensor& dy, const Tensor& y) {
                       if (is_grad_enabled()) return dy * (y * (1 - y));
                       return kernels::binary(BinaryOp::sigmoid_backward, dy, y);
                     });
}

Tensor erf(const Tensor& x) {
  constexpr double kTwoOverRootPi = 1.1283791670955126;
  return from_input("ErfBackward0", UnaryOp::erf, x, [](const Tensor& dy, const Tensor& u) {
    return dy * (exp(neg(u * u)) * kTwoOverRootPi);
  });
}

Tensor floor(const Tensor& x) {
  return from_input("FloorBackward0", UnaryOp::floor, x,
                    [](const Tensor& dy, const Tensor&) { return zeros_like(dy); });
}
Tensor ceil(const Tensor& x) {
  return from_input("CeilBackward0", UnaryOp::ceil, x,
                    [](const Tensor& dy, const Tensor&) { return zeros_like(dy); });
}
Tensor round(const Tensor& x) {
  return from_input("RoundBackward0", UnaryOp::round, x,
                    [](const Tensor& dy, const Tensor&) { return zeros_like(dy); });
}

Tensor relu(const Tensor& x) {
  // y > 0 exactly where x > 0, and y is kept alive by the next op anyway.
  return from_output("ReluBackward0", UnaryOp::relu, x, [](const Tensor& dy, const Tensor& y) {
    if (is_grad_enabled()) return masked(dy, gt(y, wrap_scalar(0)));
    return kernels::binary(BinaryOp::relu_backward, dy, y);
  });
}

Tensor leaky_relu(const Tensor& x, double negative_slope) {
  return from_input("LeakyReluBackward0", UnaryOp::leaky_relu, x,
                    [negative_slope](const Tensor& dy, const Tensor& u) {
                      return fused(BinaryOp::leaky_relu_backward, dy, u, {.a = negative_slope});
                    },
                    {.a = negative_slope});
}

Tensor elu(const Tensor& x, double alpha) {
  return from_input("EluBackward0", UnaryOp::elu, x,
                    [alpha](const Tensor& dy, const Tensor& u) {
                      return fused(BinaryOp::elu_backward, dy, u, {.a = alpha});
                    },
                    {.a = alpha});
}

Tensor gelu(const Tensor& x, bool tanh_form) {
  const BinaryOp gradient = tanh_form ? BinaryOp::gelu_tanh_backward : BinaryOp::gelu_backward;
  return from_input(
      "GeluBackward0", tanh_form ? UnaryOp::gelu_tanh : UnaryOp::gelu, x,
      [gradient](const Tensor& dy, const Tensor& u) { return fused(gradient, dy, u); });
}

Tensor silu(const Tensor& x) {
  return from_input("SiluBackward0", UnaryOp::silu, x, [](const Tensor& dy, const Tensor& u) {
    return fused(BinaryOp::silu_backward, dy, u);
  });
}

Tensor softplus(const Tensor& x, double beta, double threshold) {
  return from_input("SoftplusBackward0", UnaryOp::softplus, x,
                    [beta, threshold](const Tensor& dy, const Tensor& u) {
                      return fused(BinaryOp::softplus_backward, dy, u, {.a = beta, .b = threshold});
                    },
                    {.a = beta, .b = threshold});
}

Tensor clamp(const Tensor& x, double low, double high) {
  return from_input(
      "ClampBackward1", UnaryOp::clamp, x,
      [low, high](const Tensor& dy, const Tensor& u) {
        if (is_grad_enabled()) {
          return masked(dy, logical_and(ge(u, wrap_scalar(low)), le(u, wrap_scalar(high))));
        }
        return kernels::binary(BinaryOp::clamp_backward, dy, u, {.a = low, .b = high});
      },
      {.a = low, .b = high});
}

Tensor logical_not(const Tensor& x) { return kernels::unary(UnaryOp::logical_not, x); }
Tensor isnan(const Tensor& x) { return kernels::unary(UnaryOp::isnan, x); }
Tensor isinf(const Tensor& x) { return kernels::unary(UnaryOp::isinf, x); }
Tensor isfinite(const Tensor& x) { return kernels::unary(UnaryOp::isfinite, x); }

}  // namespace taper
