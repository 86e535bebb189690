#include "autograd/ops/unary.h"

#include <limits>
#include <numbers>

#include "autograd/autocast.h"
#include "autograd/node.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/shape.h"
#include "framework/kernels/elementwise/arithmetic.h"
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

// scale * x above 0, scale * alpha * (exp(inner * x) - 1) below; arg: the kernel's.
Tensor exponential_unit(UnaryOp op, BinaryOp backward, const Tensor& x, double alpha, double scale,
                        double inner, double arg) {
  return fused(
      "EluBackward0", op, backward, Keep::x, x,
      [=](auto& dy, auto& u) {
        // Above 0 exp may overflow, and 0 * inf would reach the next derivative.
        const Tensor below = exp(masked(u, u < 0) * inner) * (scale * alpha * inner);
        return where(u <= 0, dy * below, dy * scale);
      },
      arg);
}

// 0 where |x| <= lambd; elsewhere the slope is 1.
Tensor shrunk(const char* name, UnaryOp op, const Tensor& x, double lambd) {
  return differentiable(name, op, Keep::x, x,
                        [=](auto& dy, auto& u) { return masked(dy, logical_not(abs(u) <= lambd)); },
                        {.a = lambd});
}

// The first and second derivative of digamma.
Tensor polygamma(int order, const Tensor& x) {
  return differentiable("PolygammaBackward0", UnaryOp::polygamma, Keep::x, x,
                        [=](auto& dy, auto& u) {
                          if (order == 1) return dy * polygamma(2, u);
                          throw NotImplementedError("digamma has no third derivative here");
                        },
                        {.a = double(order)});
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

Tensor log10(const Tensor& x) {
  return from_input("Log10Backward0", UnaryOp::log10, x,
                    [](auto& dy, auto& u) { return dy / (u * std::numbers::ln10); });
}

Tensor exp2(const Tensor& x) {
  return from_output("Exp2Backward0", UnaryOp::exp2, x,
                     [](auto& dy, auto& y) { return dy * (y * std::numbers::ln2); });
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

Tensor tan(const Tensor& x) {
  return from_output("TanBackward0", UnaryOp::tan, x,
                     [](auto& dy, auto& y) { return dy * (y * y + 1); });
}

Tensor asin(const Tensor& x) {
  return from_input("AsinBackward0", UnaryOp::asin, x,
                    [](auto& dy, auto& u) { return dy * rsqrt(1 - u * u); });
}

Tensor acos(const Tensor& x) {
  return from_input("AcosBackward0", UnaryOp::acos, x,
                    [](auto& dy, auto& u) { return neg(dy * rsqrt(1 - u * u)); });
}

Tensor atan(const Tensor& x) {
  return from_input("AtanBackward0", UnaryOp::atan, x,
                    [](auto& dy, auto& u) { return dy / (u * u + 1); });
}

Tensor sinh(const Tensor& x) {
  return from_input("SinhBackward0", UnaryOp::sinh, x,
                    [](auto& dy, auto& u) { return dy * cosh(u); });
}

Tensor cosh(const Tensor& x) {
  return from_input("CoshBackward0", UnaryOp::cosh, x,
                    [](auto& dy, auto& u) { return dy * sinh(u); });
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

Tensor lgamma(const Tensor& x) {
  return from_input("LgammaBackward0", UnaryOp::lgamma, x,
                    [](auto& dy, auto& u) { return dy * digamma(u); });
}

Tensor digamma(const Tensor& x) {
  return from_input("DigammaBackward0", UnaryOp::digamma, x,
                    [](auto& dy, auto& u) { return dy * polygamma(1, u); });
}

Tensor floor(const Tensor& x) { return flat("FloorBackward0", UnaryOp::floor, x); }
Tensor ceil(const Tensor& x) { return flat("CeilBackward0", UnaryOp::ceil, x); }
Tensor round(const Tensor& x) { return flat("RoundBackward0", UnaryOp::round, x); }
Tensor trunc(const Tensor& x) { return flat("TruncBackward0", UnaryOp::trunc, x); }

Tensor frac(const Tensor& x) {
  Tensor y = kernels::unary(UnaryOp::frac, x);
  if (!needs_grad({x})) return y;
  return record("FracBackward0", y, {x}, [](Gradients& g) { g.dx(0) = g.dy(); });
}

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
  return exponential_unit(UnaryOp::elu, BinaryOp::elu_backward, x, alpha, 1, 1, alpha);
}

Tensor selu(const Tensor& x) {
  return exponential_unit(UnaryOp::selu, BinaryOp::selu_backward, x, kernels::kSeluAlpha,
                          kernels::kSeluScale, 1, 0);
}

Tensor celu(const Tensor& x, double alpha) {
  if (alpha == 0) throw Error("ZeroDivisionError: alpha cannot be 0 for CELU");
  return exponential_unit(UnaryOp::celu, BinaryOp::celu_backward, x, alpha, 1, 1 / alpha, alpha);
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

Tensor hardsigmoid(const Tensor& x) {
  return fused("HardsigmoidBackward0", UnaryOp::hardsigmoid, BinaryOp::hardsigmoid_backward,
               Keep::x, x,
               [](auto& dy, auto& u) { return masked(dy / 6, logical_and(u > -3, u < 3)); });
}

Tensor hardswish(const Tensor& x) {
  return fused(
      "HardswishBackward0", UnaryOp::hardswish, BinaryOp::hardswish_backward, Keep::x, x,
      [](auto& dy, auto& u) { return where(u <= -3, 0, where(u < 3, dy * (u / 3 + 0.5), dy)); });
}

Tensor mish(const Tensor& x) {
  return fused("MishBackward0", UnaryOp::mish, BinaryOp::mish_backward, Keep::x, x,
               [](auto& dy, auto& u) {
                 const Tensor t = tanh(softplus(u));
                 return dy * (t + u * sigmoid(u) * (1 - t * t));
               });
}

// -log(1 + exp(-x)).
Tensor logsigmoid(const Tensor& x) {
  return fused(
      "LogSigmoidBackward0", UnaryOp::logsigmoid, BinaryOp::softplus_backward, Keep::x, x,
      [](auto& dy, auto& u) { return dy * sigmoid(neg(u)); }, -1, 40);
}

Tensor softsign(const Tensor& x) { return x / (abs(x) + 1); }
Tensor tanhshrink(const Tensor& x) { return x - tanh(x); }

Tensor hardshrink(const Tensor& x, double lambd) {
  return shrunk("HardshrinkBackward0", UnaryOp::hardshrink, x, lambd);
}

Tensor softshrink(const Tensor& x, double lambd) {
  if (!(lambd >= 0)) {
    throw Error(cat("lambda must be in range [0, ", largest(x.dtype()), "] for input dtype ",
                    scalar_type_name(x.dtype()), ", but found ", lambd));
  }
  return shrunk("SoftshrinkBackward0", UnaryOp::softshrink, x, lambd);
}

Tensor glu(const Tensor& x, int64_t dim) {
  if (x.dim() == 0) throw Error("glu does not support scalars because halving size must be even");
  const int64_t d = wrap_dim(dim, x.dim()), n = x.size(d) / 2;
  if (x.size(d) % 2 != 0) {
    throw Error(cat("Halving dimension must be even, but dimension ", d, " is size ", x.size(d)));
  }
  const auto of_halves = [=](const Tensor& t, auto f) {
    return f(narrow(t, d, 0, n), narrow(t, d, n, n));
  };
  Tensor y = of_halves(x.detach(), [](auto a, auto b) { return a * sigmoid(b); });
  if (!needs_grad({x})) return y;
  return record("GluBackward0", y, {x}, [=, x = Saved(x)](Gradients& g) {
    g.dx(0) = of_halves(x.get(g), [&](auto a, auto b) {
      const Tensor s = sigmoid(b), da = g.dy() * s;
      return cat(std::vector<Tensor>{da, da * a * (1 - s)}, d);
    });
  });
}

Tensor prelu(const Tensor& x, const Tensor& weight) {
  if (autocasts(x)) return casted(Cast::to_low, prelu, x, weight);
  if (x.dtype() != weight.dtype()) {
    throw Error(cat("prelu: Type promoting not supported. Got ", scalar_type_name(x.dtype()),
                    " and ", scalar_type_name(weight.dtype())));
  }
  if (weight.dim() > 1) {
    throw Error(cat("prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = ",
                    weight.dim()));
  }
  (void)kernels::common_device("prelu", {&x, &weight});  // a view below may be a number
  Tensor w = weight;
  if (weight.numel() != 1) {
    if (x.dim() == 0) throw Error("Not allow zero-dim input tensor.");
    const int64_t channels = x.dim() > 1 ? x.size(1) : 1;
    if (channels != weight.numel()) {
      throw Error(
          cat("Mismatch of parameter numbers and input channel size. Found parameter numbers = ",
              weight.numel(), " and channel size = ", channels, "."));
    }
    Shape spread;
    for (int d = 0; d < x.dim(); ++d) spread.push_back(d == 1 ? channels : 1);
    w = weight.view(spread);
  } else if (weight.dim() > x.dim()) {
    w = weight.view({});
  }
  Tensor y = kernels::binary(BinaryOp::prelu, x.detach(), w.detach());
  if (!needs_grad({x, w})) return y;
  return record("PreluKernelBackward0", y, {x, w}, [x = Saved(x), w = Saved(w)](Gradients& g) {
    const Tensor u = x.get(g), slope = w.get(g);
    if (g.needs(0)) g.dx(0) = where(u > 0, g.dy(), g.dy() * slope);
    if (g.needs(1)) g.dx(1) = sum_to(where(u > 0, 0, g.dy() * u), slope.shape());
  });
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

Tensor clamp(const Tensor& x, const Tensor& min, const Tensor& max) {
  const bool from_below = min.defined(), from_above = max.defined();
  if (!from_below && !from_above) return clamp(x, std::nullopt, std::nullopt);
  Tensor y = !from_above   ? kernels::binary(BinaryOp::maximum, x, min)
             : !from_below ? kernels::binary(BinaryOp::minimum, x, max)
                           : kernels::ternary(kernels::TernaryOp::clamp, x, min, max);
  if (!needs_grad({x, min, max})) return y;
  return record("ClampBackward0", y, {x, min, max},
                [=, x = Saved(x), min = Saved(min), max = Saved(max)](Gradients& g) {
                  const Tensor u = x.get(g), a = min.get(g), b = max.get(g);
                  const auto part = [&](const Tensor& mask, const Tensor& of) {
                    return Meta(of).reduce(masked(g.dy(), mask));
                  };
                  const auto passes = [&] {
                    if (!from_above) return u >= a;
                    return from_below ? logical_and(u >= a, u <= b) : u <= b;
                  };
                  if (g.needs(0)) g.dx(0) = part(passes(), u);
                  if (g.needs(1)) {
                    g.dx(1) = part(from_above ? logical_and(u < a, a < b) : u < a, a);
                  }
                  if (g.needs(2)) g.dx(2) = part(from_below ? logical_or(u > b, b < a) : u > b, b);
                });
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
  for (const double bound : {min_val, max_val}) Scalar(bound).check_holds(x.dtype());
  return fused(
      "HardtanhBackward0", UnaryOp::clamp, BinaryOp::hardtanh_backward, Keep::x, x,
      [=](auto& dy, auto& u) { return where(logical_or(u <= min_val, u >= max_val), 0, dy); },
      min_val, max_val);
}

Tensor relu6(const Tensor& x) { return hardtanh(x, 0, 6); }

Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> posinf,
                  std::optional<double> neginf) {
  if (!x.is_floating_point()) return x.clone();
  const double most = largest(x.dtype());
  return differentiable("NanToNumBackward0", UnaryOp::nan_to_num, Keep::x, x,
                        [](auto& dy, auto& u) { return masked(dy, isfinite(u)); },
                        {.a = nan, .b = posinf.value_or(most), .c = neginf.value_or(-most)});
}

Tensor bitwise_not(const Tensor& x) {
  return x.dtype() == kBool ? logical_not(x) : kernels::unary(UnaryOp::bitwise_not, x);
}

Tensor logical_not(const Tensor& x) { return kernels::unary(UnaryOp::logical_not, x); }
Tensor isnan(const Tensor& x) { return kernels::unary(UnaryOp::isnan, x); }
Tensor isinf(const Tensor& x) { return kernels::unary(UnaryOp::isinf, x); }
Tensor isfinite(const Tensor& x) { return kernels::unary(UnaryOp::isfinite, x); }

}  // namespace taper::inline v0
