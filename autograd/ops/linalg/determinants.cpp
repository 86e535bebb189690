// Determinants, by LU factorizations.
#include <limits>

#include "autograd/ops/linalg/linalg_checks.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/op_helpers.h"

namespace taper::v0::linalg {
namespace {

double epsilon_of(const Tensor& x) {
  return x.dtype() == kFloat32 ? std::numeric_limits<float>::epsilon()
                               : std::numeric_limits<double>::epsilon();
}

// Returns x [batch] as [batch, 1, 1].
Tensor per_matrix(const Tensor& x) { return unsqueeze(unsqueeze(x, -1), -1); }

Tensor identity_like(const Tensor& a) { return expand(eye(a.size(-1), options_of(a)), a.shape()); }

// Returns the diagonal [batch, n] of U.
Tensor diagonal_of(const kernels::LuFactors& factors) { return diagonal(factors.lu, 0, -2, -1); }

// Returns the signs [batch] of the permutations that the pivots describe.
Tensor sign_of_pivots(const kernels::LuFactors& factors) {
  const Tensor& pivots = factors.pivots;
  const TensorOptions options{.dtype = kInt32, .device = pivots.device()};
  const Tensor moved = ne(pivots, arange(1, pivots.size(-1) + 1, 1, options));
  return (1 - 2 * remainder(sum(moved, {-1}), 2)).to(factors.lu.dtype());
}

Tensor det_of(const kernels::LuFactors& factors) {
  return prod(diagonal_of(factors), -1) * sign_of_pivots(factors);
}

// Returns the factors with zeros on the diagonal of U replaced by a number that is negligible
// beside the others. The determinant is a polynomial, so its gradient changes as little.
kernels::LuFactors without_zeros(const kernels::LuFactors& factors) {
  const Tensor d = diagonal_of(factors), largest = amax(abs(d), {-1}, true);
  const Tensor small = where(eq(largest, 0), 1, largest) * epsilon_of(factors.lu);
  return {factors.lu + diag_embed(zero_outside(expand_as(small, d), eq(d, 0))), factors.pivots};
}

// Returns the scaled inverses of the transposed matrices [batch, n, n]; `scale` is [batch].
Tensor scaled_inverse(const kernels::LuFactors& factors, const Tensor& scale) {
  return kernels::lu_solve(factors, per_matrix(scale) * identity_like(factors.lu), false);
}

// Returns the cofactors of a [batch, n, n] from its singular values, of which one may be zero
// (https://nhigham.com/2020/06/16/what-is-the-adjugate-of-a-matrix/).
Tensor cofactors_by_svd(const Tensor& a) {
  const auto [u, s, vh] = svd(a, {.full_matrices = false});
  const Tensor others = product_before(s, -1) * product_before(s, -1, true);
  const Tensor sign = det(u.detach()) * det(vh.detach());
  return matmul(u * unsqueeze(others * unsqueeze(sign, -1), -2), vh);
}

// Returns the cofactors of a, which are the gradient of its determinant, recorded on the tape.
Tensor recorded_cofactors(const Tensor& a) {
  const Tensor pivots = abs(diagonal_of(kernels::lu_factor(a)));
  const Tensor bound = 100 * epsilon_of(a) * amax(pivots, {-1});
  const Tensor is_singular = per_matrix(le(amin(pivots, {-1}), bound));
  const Tensor regular = where(is_singular, identity_like(a), a);
  const Tensor cofactors = per_matrix(det(regular)) * transposed(inv(regular));
  if (!any(is_singular).item<bool>()) return cofactors;
  const Tensor different = diag_embed(arange(1, a.size(-1) + 1, 1, options_of(a)));
  return where(is_singular, cofactors_by_svd(where(is_singular, a, different)), cofactors);
}

void det_gradient(Gradients& g, const Tensor& a, const SavedLu& saved) {
  if (a.numel() == 0) {
    g.dx(0) = zeros_like(a);
  } else if (is_grad_enabled()) {
    g.dx(0) = per_matrix(g.dy()) * recorded_cofactors(a);
  } else {
    const kernels::LuFactors factors = without_zeros(saved.get(g));
    g.dx(0) = scaled_inverse(factors, g.dy() * det_of(factors));
  }
}

// Returns the result of f, without recording it.
template <class F> auto unrecorded(F f) {
  const NoGradGuard no_grad;
  return f();
}

}  // namespace

Tensor det(const Tensor& a) {
  if (autocasts(a)) return in_float32(det, a);
  check_square("linalg.det", a);
  const Tensor x = as_batch(a);
  const kernels::LuFactors factors = kernels::lu_factor(x);
  Tensor y = unrecorded([&] { return det_of(factors); });
  trace("linalg.det", y, {x});
  if (needs_grad({x})) {
    y = record(
        "LinalgDetBackward0", y, {x},
        [x = SavedTensor(x), f = SavedLu(factors)](Gradients& g) { det_gradient(g, x.get(g), f); });
  }
  return reshape(y, batch_of(a));
}

SignLogDet slogdet(const Tensor& a) {
  if (autocasts(a)) return factors_in_float32(slogdet, a);
  check_square("linalg.slogdet", a);
  const Tensor x = as_batch(a);
  const kernels::LuFactors factors = kernels::lu_factor(x);
  Tensor sign_of, logarithm;
  {
    const NoGradGuard no_grad;
    const Tensor d = diagonal_of(factors);
    sign_of = prod(sign(d), -1) * sign_of_pivots(factors);
    logarithm = sum(log(abs(d)), {-1});
  }
  trace("linalg.slogdet", sign_of, {x});
  trace("linalg.slogdet", logarithm, {x});
  if (needs_grad({x})) {
    logarithm = record("LinalgSlogdetBackward0", logarithm, {x},
                       [x = SavedTensor(x), f = SavedLu(factors)](Gradients& g) {
                         g.dx(0) = is_grad_enabled()
                                       ? per_matrix(g.dy()) * transposed(inv(x.get(g)))
                                       : scaled_inverse(f.get(g), g.dy());
                       });
  }
  return {reshape(sign_of, batch_of(a)), reshape(logarithm, batch_of(a))};
}

}  // namespace taper::v0::linalg
