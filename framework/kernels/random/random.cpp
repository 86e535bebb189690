#include "framework/kernels/random/random.h"

#include "framework/kernels/elementwise/binary.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0::kernels {
namespace {

thread_local bool skips_draws = false;

// Calls into(kernels, tensor), which fills a contiguous tensor of `dtype`. If out has another dtype
// or layout, the tensor is a temporary one, which is then copied to out.
template <class Draw> void draw(const char* op, const Tensor& out, DType dtype, Draw into) {
  if (out.numel() == 0 || skips_draws) return;
  const bool direct = out.is_contiguous() && out.dtype() == dtype;
  const Tensor to = direct ? out : Tensor::make(out.shape(), dtype, out.device());
  on_device<RandomKernels>(
      out.device(), [&](auto kernels) { into(kernels, to); }, op);
  if (!direct) copy_into(out, to);
}

void check_bound(const char* name, Scalar bound, DType t) {
  if (bound.held_by(t) && !(t == kUInt8 && bound.to_double() < 0)) return;
  throw Error(name, " is out of bounds for ", cpp_name(t), ": ", bound.to_double());
}

}  // namespace

SkipDrawsGuard::SkipDrawsGuard() { skips_draws = true; }
SkipDrawsGuard::~SkipDrawsGuard() { skips_draws = false; }

void uniform_into(const Tensor& out, PhiloxKey key, double low, double high) {
  check_floating("uniform", out);
  require(low <= high, "uniform_ expects to return a [from, to) range, but found from=", low,
          " > to=", high);
  check_bound("from", low, out.dtype());
  check_bound("to", high, out.dtype());
  check_bound("to-from", high - low, out.dtype());
  draw("uniform_", out, out.dtype(),
       [&](auto k, const Tensor& t) { k.uniform(t, key, low, high); });
}

void normal_into(const Tensor& out, PhiloxKey key, double mean, double std) {
  check_floating("normal", out);
  if (!(std >= 0)) throw Error("normal expects std >= 0.0, but found std ", std);
  draw("normal_", out, out.dtype(), [&](auto k, const Tensor& t) { k.normal(t, key, mean, std); });
}

void bernoulli_into(const Tensor& out, PhiloxKey key, double p) {
  if (!(p >= 0 && p <= 1)) throw Error("bernoulli_ expects p to be in [0, 1], but got p=", p);
  draw("bernoulli_", out, kFloat32, [&](auto k, const Tensor& t) { k.bernoulli(t, key, p); });
}

void randint_into(const Tensor& out, PhiloxKey key, int64_t low, int64_t high) {
  require(low < high, "random_ expects 'from' to be less than 'to', but got from=", low,
          " >= to=", high);
  check_bound("from", low, out.dtype());
  check_bound("to - 1", high - 1, out.dtype());
  draw("random_", out, kInt64, [&](auto k, const Tensor& t) { k.randint(t, key, low, high); });
}

void randperm_into(const Tensor& out, PhiloxKey key) {
  if (out.numel() == 0 || skips_draws) return;
  dispatch<cpu::randperm, cuda::randperm>({out.device(), "randperm"}, out, key);
}

Tensor dropout(const Tensor& x, double p, PhiloxKey key) { return dropout(x, p, key, x.dtype()); }

Tensor dropout(const Tensor& x, double p, PhiloxKey key, DType dtype, uint64_t first) {
  check_floating("dropout", x);
  require<ValueError>(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ",
                      p);
  const bool fused = x.is_cuda() && x.dtype() == kFloat32 && is_half(dtype);
  const Tensor from = fused ? dense(x) : packed(x, dtype);
  Tensor y = Tensor::make(x.shape(), dtype, x.device());
  if (y.numel() == 0) return y;
  dispatch(
      x.device(), [&] { cpu::dropout(y, from, p, key, first / 4); },
      [&] { cuda::dropout(y, from, p, key, first / 4, {}); });
  return y;
}

Tensor dropout_add(const Tensor& x, double p, PhiloxKey key, const Tensor& residual) {
  if (!x.is_cuda()) return binary(BinaryOp::kAdd, residual, dropout(x, p, key));
  const Tensor from = dense(x), more = dense(residual);
  Tensor y = Tensor::make(more.shape(), more.dtype(), more.device());
  dispatch(
      x.device(), [] {}, [&] { cuda::dropout(y, from, p, key, 0, more); });
  return y;
}

Tensor pick(const Tensor& sums, const Tensor& draws) {
  const Tensor out = Tensor::make(draws.shape(), kInt64, draws.device()), from = dense(sums);
  on_device<RandomKernels>(out.device(), [&](auto k) { k.pick(out, from, draws); });
  return out;
}

Tensor race_scores(const Tensor& weights, const Tensor& z) {
  const Tensor out = Tensor::make(weights.shape(), weights.dtype(), weights.device());
  dispatch(
      out.device(), [] {}, [&] { cuda::race_scores(out, dense(weights), z); });
  return out;
}

}  // namespace taper::v0::kernels
