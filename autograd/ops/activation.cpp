// Activations and bounds that need more than an entry in the table of derivatives (unary_ops.cpp).
#include "autograd/ops/op_helpers.h"

namespace taper::v0 {

using kernels::BinaryOp;

Tensor activated(const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kRelu: return relu(x);
    case Activation::kGelu: return gelu(x);
    case Activation::kGeluTanh: return gelu(x, GeluApproximate::kTanh);
    default: return x;
  }
}

Tensor activation_gradient(Activation activation, const Tensor& dy, const Tensor& x) {
  if (activation == Activation::kNone) return dy;
  if (activation == Activation::kRelu) return where(x <= 0, 0, dy);
  if (activation == Activation::kGelu) {
    const Tensor cdf = (erf(x * 0.70710678118654752) + 1) * 0.5;
    return dy * (cdf + x * exp(x * x * -0.5) * 0.39894228040143268);
  }
  constexpr double kRootTwoOverPi = 0.79788456080286536, kCubic = 0.044715;
  const Tensor z = x * x;
  const Tensor t = tanh(x * (z * kCubic + 1) * kRootTwoOverPi);
  const Tensor slope = (z * (3 * kCubic) + 1) * kRootTwoOverPi;
  return dy * ((t + 1 + x * (1 - t * t) * slope) * 0.5);
}

Tensor glu(const Tensor& x, IntArg dim) {
  require(x.dim() != 0, "glu does not support scalars because halving size must be even");
  const int64_t d = wrap_dim(dim, x.dim()), n = x.size(d) / 2;
  require(x.size(d) % 2 == 0, "Halving dimension must be even, but dimension ", d, " is size ",
          x.size(d));
  const auto of_halves = [=](const Tensor& t, auto f) {
    return f(narrow(t, d, 0, n), narrow(t, d, n, n));
  };
  Tensor y =
      of_halves(x.detach(), [](auto a, auto b) { return kernels::binary(BinaryOp::kGlu, a, b); });
  return differentiable("GluBackward0", x, y, [=](auto& dy, auto& u) {
    return of_halves(u, [&](auto a, auto b) {
      if (is_grad_enabled()) {
        const Tensor s = sigmoid(b), da = dy * s;
        return cat(std::vector<Tensor>{da, da * a * (1 - s)}, d);
      }
      const Tensor dx = Tensor::make(u.shape(), u.dtype(), u.device()), db = narrow(dx, d, n, n);
      kernels::binary_into(BinaryOp::kGlu, narrow(dx, d, 0, n), dy, b);
      kernels::binary_into(BinaryOp::kMul, db, dy, a);
      kernels::binary_into(BinaryOp::kGluBackward, db, db, b);
      return dx;
    });
  });
}

Tensor prelu(const Tensor& x, const Tensor& weight) {
  if (autocasts(x)) return in_half(prelu, x, weight);
  require(x.dtype() == weight.dtype(), "prelu: Type promoting not supported. Got ",
          scalar_type_name(x.dtype()), " and ", scalar_type_name(weight.dtype()));
  require(weight.dim() <= 1,
          "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = ", weight.dim());
  // Check the devices here. Below, a weight with one element may be reshaped to a number, which may
  // be on another device than x.
  (void)kernels::common_device("prelu", {&x, &weight});
  Tensor w = weight;
  if (weight.numel() != 1) {
    require(x.dim() != 0, "Not allow zero-dim input tensor.");
    const int64_t channels = x.dim() > 1 ? x.size(1) : 1;
    require(channels == weight.numel(),
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = ",
            weight.numel(), " and channel size = ", channels, ".");
    Shape spread;
    for (int d = 0; d < x.dim(); ++d) spread.push_back(d == 1 ? channels : 1);
    w = weight.view(spread);
  } else if (weight.dim() > x.dim()) {
    w = weight.view({});
  }
  return differentiable(
      "PreluKernelBackward0", BinaryOp::kPrelu, x, w,
      [](auto& dy, auto& u, auto& slope) { return where(u > 0, dy, dy * slope); },
      [](auto& dy, auto& u, auto&) { return where(u > 0, 0, dy * u); });
}

Tensor clamp(const Tensor& x, const Tensor& min, const Tensor& max) {
  const bool from_below = min.defined(), from_above = max.defined();
  if (!from_below && !from_above) return clamp(x, std::nullopt, std::nullopt);
  Tensor y = !from_above   ? kernels::binary(BinaryOp::kMaximum, x, min)
             : !from_below ? kernels::binary(BinaryOp::kMinimum, x, max)
                           : kernels::ternary(kernels::TernaryOp::kClamp, x, min, max);
  if (!needs_grad({x, min, max})) return y;
  return record(
      "ClampBackward0", y, {x, min, max},
      [=, x = SavedTensor(x), min = SavedTensor(min), max = SavedTensor(max)](Gradients& g) {
        const Tensor u = x.get(g), a = min.get(g), b = max.get(g);
        const auto part = [&](const Tensor& mask, const Tensor& of) {
          return reduce_to(zero_outside(g.dy(), mask), of);
        };
        const auto passes = [&] {
          if (!from_above) return u >= a;
          return from_below ? logical_and(u >= a, u <= b) : u <= b;
        };
        if (g.needs(0)) g.dx(0) = part(passes(), u);
        if (g.needs(1)) g.dx(1) = part(from_above ? logical_and(u < a, a < b) : u < a, a);
        if (g.needs(2)) g.dx(2) = part(from_below ? logical_or(u > b, b < a) : u > b, b);
      });
}

Tensor hardtanh(const Tensor& x, RealArg min_val, RealArg max_val) {
  require<ValueError>(!(min_val > max_val), "min_val cannot be greater than max_val");
  require(x.dtype() != kBool, "Bool inputs not supported for hardtanh");
  if (!x.is_floating_point()) {
    const int64_t low = Scalar(min_val).to_int(), high = Scalar(max_val).to_int();
    require(x.dtype() != kUInt8 || low >= 0,
            "cannot do hardtanh on an unsigned type with negative limits");
    return clamp(x, low, high);
  }
  Tensor y = clamp(x.detach(), min_val, max_val);
  return differentiable("HardtanhBackward0", x, y, [=](auto& dy, auto& u) {
    if (is_grad_enabled()) return where(logical_or(u <= min_val, u >= max_val), 0, dy);
    return kernels::binary(BinaryOp::kHardtanhBackward, dy, u, {.a = min_val, .b = max_val});
  });
}

Tensor relu6(const Tensor& x) { return hardtanh(x, 0, 6); }

}  // namespace taper::v0
