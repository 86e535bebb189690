#include "modules/distributions/distributions.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <tuple>

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "autograd/print.h"
#include "framework/factory/factories.h"
#include "framework/kernels/elementwise/binary.h"

namespace taper::v0::distributions {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kLogRootTwoPi = 0.5 * std::log(2 * std::numbers::pi);

bool is_number(const Tensor& x) { return x.impl()->wrapped_number; }

// Broadcasts both to one shape, dtype and device.
std::pair<Tensor, Tensor> broadcast(const Tensor& a, const Tensor& b) {
  const Tensor& like = is_number(a) ? b : a;
  const DType dtype = is_number(like) ? kFloat32 : (a + b).dtype();
  const Shape shape = broadcast_shapes(a.shape(), b.shape());
  const auto as = [&](const Tensor& x) { return expand(x.to(like.device(), dtype), shape); };
  return {as(a), as(b)};
}

// Throws PyTorch's message if the values violate the condition. Does not check values on a GPU,
// because that would have to wait.
void check(const char* distribution, const char* name, const Tensor& value, const Tensor& holds,
           const char* constraint) {
  require<TypeError>(value.is_floating_point(), "Expected parameter ", name, " of distribution ",
                     distribution, " to be floating, but got ", value.dtype());
  if (value.is_cuda() || all(holds).item<bool>()) return;
  throw ValueError(concat_to_string("Expected parameter ", name, " (Tensor of shape ",
                                    value.shape(), ") of distribution ", distribution,
                                    " to satisfy the constraint ", constraint,
                                    ", but found invalid values:\n", to_string(value.detach())));
}
void check_positive(const char* distribution, const char* name, const Tensor& value) {
  check(distribution, name, value, value.detach() > 0, "GreaterThan(lower_bound=0.0)");
}

// Returns the probabilities limited to a range in which the logits are finite.
Tensor clamped(const Tensor& probs) {
  const double eps = probs.dtype() == kFloat64   ? 0x1p-52
                     : probs.dtype() == kFloat32 ? 0x1p-23
                     : probs.dtype() == kFloat16 ? 0x1p-10
                                                 : 0x1p-7;
  return clamp(probs, eps, 1 - eps);
}

const Tensor& given(const Odds& odds) {
  if (bool(odds.probs) != bool(odds.logits)) return odds.probs ? *odds.probs : *odds.logits;
  throw ValueError("Either `probs` or `logits` must be specified, but not both.");
}
// If probabilities are given, throws unless they satisfy `holds`. If logits are given, throws if
// one is NaN.
void check_odds(const char* distribution, const Odds& odds, const auto& holds,
                const char* constraint) {
  const Tensor v = given(odds).detach();
  if (odds.probs) return check(distribution, "probs", v, holds(v), constraint);
  check(distribution, "logits", v, eq(v, v), "Real()");
}

Shape without_last(const char* distribution, const Tensor& x) {
  require<ValueError>(x.dim() >= 1, "`", distribution,
                      "` parameter must be at least one-dimensional.");
  Shape shape = x.shape();
  shape.erase(shape.size() - 1);
  return shape;
}

// Draws from gamma distributions with shape alpha (float64) and scale 1.
Tensor draw_gamma(const Tensor& alpha, Generator* generator) {
  const NoGradGuard no_grad;
  const TensorOptions options{.dtype = kFloat64, .device = alpha.device()};
  const auto uniform = [&] { return 1 - rand(alpha.shape(), options, generator); };  // (0, 1]
  // For alpha below 1, draws with alpha + 1 and multiplies the result by a power of a uniform
  // number.
  const Tensor is_low = alpha < 1;
  const Tensor d = where(is_low, alpha + 1, alpha) - 1. / 3, c = rsqrt(d * 9);
  // Draws for invalid parameters are never accepted. They give nan.
  Tensor open = logical_and(alpha > 0, isfinite(alpha));
  Tensor y = where(open, zeros_like(alpha), full_like(alpha, NAN));
  while (any(open).item<bool>()) {
    const Tensor x = randn(alpha.shape(), options, generator), root = 1 + c * x;
    const Tensor v = root * root * root;
    const Tensor fits =
        logical_and(v > 0, log(uniform()) < x * x * 0.5 + d * (1 - v + log(clamp(v, 1e-300))));
    y = where(logical_and(open, fits), d * v, y);
    open = logical_and(open, logical_not(fits));
  }
  return where(is_low, y * pow(uniform(), reciprocal(alpha)), y);
}

// Draws once for each concentration; differentiable.
Tensor standard_gamma(const Tensor& concentration, Generator* generator) {
  const DType dtype = concentration.dtype();
  const double tiny = dtype == kFloat64 ? 0x1p-1022 : dtype == kFloat16 ? 0x1p-14 : 0x1p-126;
  Tensor y = clamp(draw_gamma(concentration.detach().to(kFloat64), generator), tiny).to(dtype);
  if (!needs_grad({concentration})) return y;
  return record("StandardGammaBackward0", y, {concentration},
                [a = SavedTensor(concentration), y = SavedTensor::output(y)](Gradients& g) {
                  g.dx(0) = g.dy() * kernels::binary(kernels::BinaryOp::kGammaGradient, a.get(g),
                                                     y.get(g).detach());
                });
}

Tensor infinite_where(const Tensor& mask, const Tensor& x) {
  return masked_fill(x, mask, kInfinity);
}

}  // namespace

TensorOrNumber::TensorOrNumber(double value) : value_(wrap_scalar(value)) {}

// --- all ---

Shape Distribution::extended(const Shape& sample_shape) const {
  Shape shape = sample_shape;
  for (const int64_t n : batch_shape_) shape.push_back(n);
  for (const int64_t n : event_shape_) shape.push_back(n);
  return shape;
}

Tensor Distribution::rsample(const Shape&, Generator*) const {
  throw NotImplementedError(
      "rsample: values of this distribution are no differentiable function of its parameters; use "
      "sample and log_prob");
}
Tensor Distribution::draw(const Shape& sample_shape, Generator* generator) const {
  return rsample(sample_shape, generator);
}
Tensor Distribution::sample(const Shape& sample_shape, Generator* generator) const {
  const NoGradGuard no_grad;
  return draw(sample_shape, generator).detach();
}
Tensor Distribution::stddev() const { return sqrt(variance()); }

// --- Normal ---

Normal::Normal(const TensorOrNumber& loc_, const TensorOrNumber& scale_)
    : Distribution(broadcast_shapes((*loc_).shape(), (*scale_).shape())) {
  std::tie(loc, scale) = broadcast(*loc_, *scale_);
  check("Normal", "loc", loc, eq(loc, loc), "Real()");
  check_positive("Normal", "scale", scale);
}
Tensor Normal::rsample(const Shape& sample_shape, Generator* generator) const {
  const Tensor noise =
      randn(extended(sample_shape), {.dtype = loc.dtype(), .device = loc.device()}, generator);
  return loc + noise * scale;
}
Tensor Normal::log_prob(const Tensor& value) const {
  return neg(square((value - loc) / scale) * 0.5 + log(scale) + kLogRootTwoPi);
}
Tensor Normal::entropy() const { return log(scale) + (0.5 + kLogRootTwoPi); }
Tensor Normal::variance() const { return square(scale); }

// --- Uniform ---

Uniform::Uniform(const TensorOrNumber& low_, const TensorOrNumber& high_)
    : Distribution(broadcast_shapes((*low_).shape(), (*high_).shape())) {
  std::tie(low, high) = broadcast(*low_, *high_);
  check("Uniform", "low", low, low.detach() < high.detach(), "Real() below high");
}
Tensor Uniform::rsample(const Shape& sample_shape, Generator* generator) const {
  const TensorOptions options{.dtype = low.dtype(), .device = low.device()};
  return low + rand(extended(sample_shape), options, generator) * (high - low);
}
Tensor Uniform::log_prob(const Tensor& value) const {
  const Tensor inside = logical_and(value >= low, value < high);
  return masked_fill(neg(log(high - low)) + zeros_like(value), logical_not(inside), -kInfinity);
}
Tensor Uniform::entropy() const { return log(high - low); }
Tensor Uniform::mean() const { return (high + low) / 2; }
Tensor Uniform::variance() const { return square(high - low) / 12; }

// --- Bernoulli ---

Bernoulli::Bernoulli(const Odds& odds) : Distribution(given(odds).shape()) {
  const Tensor& x = given(odds);
  const auto in_unit = [](const Tensor& v) { return logical_and(v >= 0, v <= 1); };
  check_odds("Bernoulli", odds, in_unit, "Interval(lower_bound=0.0, upper_bound=1.0)");
  const Tensor own = is_number(x) ? x.to(kFloat32) : x;
  const Tensor safe = odds.probs ? clamped(own) : own;
  probs = odds.probs ? own : sigmoid(own);
  logits = odds.probs ? log(safe) - log1p(neg(safe)) : own;
}
Tensor Bernoulli::draw(const Shape& sample_shape, Generator* generator) const {
  return bernoulli(expand(probs, extended(sample_shape)), generator);
}
Tensor Bernoulli::log_prob(const Tensor& value) const {
  const Shape shape = broadcast_shapes(logits.shape(), value.shape());
  return neg(binary_cross_entropy_with_logits(expand(logits, shape),
                                              expand(value.to(logits.dtype()), shape),
                                              {.reduction = Reduction::kNone}));
}
Tensor Bernoulli::entropy() const {
  return binary_cross_entropy_with_logits(logits, probs, {.reduction = Reduction::kNone});
}
Tensor Bernoulli::variance() const { return probs * (1 - probs); }

// --- Categorical ---

Categorical::Categorical(const Odds& odds)
    : Distribution(without_last(odds.probs ? "probs" : "logits", given(odds))) {
  const Tensor& x = given(odds);
  check_odds(
      "Categorical", odds, [](const Tensor& v) { return v >= 0; }, "Simplex()");
  logits = odds.probs ? Tensor() : x - logsumexp(x, -1, true);
  probs = odds.probs ? x / sum(x, -1, true) : exp(logits);
  if (odds.probs) logits = log(clamped(probs));
}
Tensor Categorical::draw(const Shape& sample_shape, Generator* generator) const {
  const Tensor rows = reshape(probs, {batch_shape().numel(), probs.size(-1)});
  const Tensor drawn = multinomial(rows, sample_shape.numel(), true, generator);
  return reshape(transpose(drawn, 0, 1), extended(sample_shape));
}
Tensor Categorical::log_prob(const Tensor& value) const {
  const Shape batch = broadcast_shapes(value.shape(), batch_shape());
  Shape shape = batch;
  shape.push_back(logits.size(-1));
  const Tensor index = unsqueeze(expand(value.to(kInt64), batch), -1);
  return squeeze(gather(expand(logits, shape), -1, index), -1);
}
Tensor Categorical::entropy() const {
  const double least = logits.dtype() == kFloat16 ? -65504 : -std::numeric_limits<float>::max();
  return neg(sum(clamp(logits, least) * probs, -1));
}
Tensor Categorical::mean() const { return full_like(sum(probs.detach(), -1), NAN); }
Tensor Categorical::variance() const { return mean(); }

// --- Gamma ---

Gamma::Gamma(const TensorOrNumber& concentration_, const TensorOrNumber& rate_)
    : Distribution(broadcast_shapes((*concentration_).shape(), (*rate_).shape())) {
  std::tie(concentration, rate) = broadcast(*concentration_, *rate_);
  check_positive("Gamma", "concentration", concentration);
  check_positive("Gamma", "rate", rate);
}
Tensor Gamma::rsample(const Shape& sample_shape, Generator* generator) const {
  return standard_gamma(expand(concentration, extended(sample_shape)), generator) / rate;
}
Tensor Gamma::log_prob(const Tensor& value) const {
  const Tensor density = xlogy(concentration, rate) + xlogy(concentration - 1, value) -
                         rate * value - lgamma(concentration);
  return masked_fill(density, value < 0, -kInfinity);
}
Tensor Gamma::entropy() const {
  return concentration - log(rate) + lgamma(concentration) +
         (1 - concentration) * digamma(concentration);
}
Tensor Gamma::mean() const { return concentration / rate; }
Tensor Gamma::variance() const { return concentration / square(rate); }

// --- Dirichlet and Beta ---

Dirichlet::Dirichlet(const Tensor& x)
    : Distribution(without_last("concentration", x), {x.dim() ? x.size(-1) : 0}), concentration(x) {
  check_positive("Dirichlet", "concentration", x);
}
Tensor Dirichlet::rsample(const Shape& sample_shape, Generator* generator) const {
  const Tensor parts = standard_gamma(expand(concentration, extended(sample_shape)), generator);
  return parts / sum(parts, -1, true);
}
Tensor Dirichlet::log_prob(const Tensor& value) const {
  return sum(xlogy(concentration - 1, value) - lgamma(concentration), -1) +
         lgamma(sum(concentration, -1));
}
Tensor Dirichlet::entropy() const {
  const Tensor& a = concentration;
  const Tensor total = sum(a, -1);
  return sum(lgamma(a) - (a - 1) * digamma(a), -1) - lgamma(total) -
         (double(a.size(-1)) - total) * digamma(total);
}
Tensor Dirichlet::mean() const { return concentration / sum(concentration, -1, true); }
Tensor Dirichlet::variance() const {
  const Tensor total = sum(concentration, -1, true);
  return concentration * (total - concentration) / (square(total) * (total + 1));
}

Beta::Beta(const TensorOrNumber& a, const TensorOrNumber& b)
    : Distribution(broadcast_shapes((*a).shape(), (*b).shape())) {
  std::tie(concentration1, concentration0) = broadcast(*a, *b);
  check_positive("Beta", "concentration1", concentration1);
  check_positive("Beta", "concentration0", concentration0);
}
Dirichlet Beta::both() const { return Dirichlet(stack({concentration1, concentration0}, -1)); }
Tensor Beta::rsample(const Shape& sample_shape, Generator* generator) const {
  return select(both().rsample(sample_shape, generator), -1, 0);
}
Tensor Beta::log_prob(const Tensor& value) const {
  const Tensor density = both().log_prob(stack({value, 1 - value}, -1));
  return masked_fill(density, logical_or(value<0, value> 1), -kInfinity);
}
Tensor Beta::entropy() const { return both().entropy(); }
Tensor Beta::mean() const { return concentration1 / (concentration1 + concentration0); }
Tensor Beta::variance() const {
  const Tensor total = concentration1 + concentration0;
  return concentration1 * concentration0 / (square(total) * (total + 1));
}

// --- divergences ---

Tensor kl_divergence(const Normal& p, const Normal& q) {
  const Tensor ratio = square(p.scale / q.scale);
  return (ratio + square((p.loc - q.loc) / q.scale) - 1 - log(ratio)) * 0.5;
}
Tensor kl_divergence(const Uniform& p, const Uniform& q) {
  return infinite_where(logical_or(q.low > p.low, q.high < p.high),
                        log((q.high - q.low) / (p.high - p.low)));
}
Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q) {
  // Returns the term of one outcome. p and q have the probabilities a and b and the logits la and
  // lb.
  const auto part = [](const Tensor& a, const Tensor& b, const Tensor& la, const Tensor& lb) {
    const Tensor t = a * (softplus(neg(lb)) - softplus(neg(la)));
    return masked_fill(infinite_where(eq(b, 0), t), eq(a, 0), 0);
  };
  return part(p.probs, q.probs, p.logits, q.logits) +
         part(1 - p.probs, 1 - q.probs, neg(p.logits), neg(q.logits));
}
Tensor kl_divergence(const Categorical& p, const Categorical& q) {
  const Tensor t = infinite_where(eq(q.probs, 0), p.probs * (p.logits - q.logits));
  return sum(masked_fill(t, eq(p.probs, 0), 0), -1);
}
Tensor kl_divergence(const Gamma& p, const Gamma& q) {
  const Tensor &a = p.concentration, &b = q.concentration;
  return b * log(p.rate / q.rate) + (lgamma(b) - lgamma(a)) + (a - b) * digamma(a) +
         (q.rate - p.rate) * (a / p.rate);
}
Tensor kl_divergence(const Dirichlet& p, const Dirichlet& q) {
  const Tensor &a = p.concentration, &b = q.concentration;
  const Tensor total = sum(a, -1);
  const Tensor spread = (a - b) * (digamma(a) - unsqueeze(digamma(total), -1));
  return lgamma(total) - lgamma(sum(b, -1)) + sum(lgamma(b) - lgamma(a) + spread, -1);
}
Tensor kl_divergence(const Beta& p, const Beta& q) {
  const auto both = [](const Beta& x) {
    return Dirichlet(stack({x.concentration1, x.concentration0}, -1));
  };
  return kl_divergence(both(p), both(q));
}

}  // namespace taper::v0::distributions
