// Pseudoinverses and least squares.
//
// The derivative of the pseudoinverse: Golub and Pereyra, "The differentiation of pseudo-inverses
// and nonlinear least squares problems whose variables separate", 1973.
#include <algorithm>
#include <limits>
#include <string>

#include "autograd/ops/linalg/linalg_checks.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/op_helpers.h"
#include "framework/kernels/elementwise/broadcast.h"

namespace taper::v0::linalg {
namespace {

// Returns the bound of relative size below which LAPACK regards singular values as 0.
double default_tolerance(const Tensor& a) {
  const double epsilon = a.dtype() == kFloat32 ? std::numeric_limits<float>::epsilon()
                                               : std::numeric_limits<double>::epsilon();
  return epsilon * double(std::max(a.size(-2), a.size(-1)));
}

// Returns which singular values [batch, k] are larger than the bound.
Tensor is_significant(const Tensor& s, double atol, double rtol) {
  if (s.size(-1) == 0) return gt(s, 0);
  return gt(s, maximum(amax(s, {-1}, true) * rtol, atol));
}

// Returns the inverses of the values that are kept, and zeros for the others.
Tensor inverted(const Tensor& s, const Tensor& kept) {
  return zero_outside(reciprocal(where(kept, s, 1)), kept);
}

// Returns V diag(1 / s) U^T.
Tensor pinv_of(const Svd& f, const Tensor& inverse) {
  return matmul(transposed(f.vh) * unsqueeze(inverse, -2), transposed(f.u));
}

// Returns the singular value decomposition of symmetric matrices from their eigenvalues, with
// singular values in any order.
Svd symmetric_svd(const Tensor& a, bool is_batch) {
  const auto [w, v] = unrecorded_eigh("linalg.pinv", a, false, is_batch);
  const Tensor vh = transposed(v * unsqueeze(where(lt(w, 0), -1, 1).to(w.dtype()), -2));
  return {v, abs(w), vh};
}

// Returns the gradient of A for the gradient dp of its pseudoinverse p.
Tensor pinv_gradient(const Tensor& dp, const Tensor& a, const Tensor& p) {
  const Tensor pt = transposed(p), dpt = transposed(dp);
  const Tensor inner = matmul(pt, matmul(dp, pt));
  // The parts of dp outside of the row space and outside of the column space of A.
  const Tensor rows = dpt - matmul(a, matmul(p, dpt));
  const Tensor columns = dpt - matmul(matmul(dpt, p), a);
  return matmul(rows, matmul(p, pt)) + matmul(matmul(pt, p), columns) - inner;
}

// Returns the pseudoinverse of a [batch, m, n]. Errors name `op`.
Tensor pinv_batch(const char* op, const Tensor& a, const PinvOptions& options, bool is_batch) {
  const double atol = options.atol.value_or(0);
  const double rtol = options.rtol.value_or(atol > 0 ? 0 : default_tolerance(a));
  Tensor y;
  {
    const NoGradGuard no_grad;
    const Svd f =
        options.hermitian ? symmetric_svd(a, is_batch) : unrecorded_svd(op, a, false, is_batch);
    y = pinv_of(f, inverted(f.s, is_significant(f.s, atol, rtol)));
  }
  return differentiable("LinalgPinvBackward0", a, y, [](auto& dy, auto& x, auto& inverse) {
    return pinv_gradient(dy, x, inverse);
  });
}

// The parts of a solution of a [batch, m, n] and b [batch, m, k].
struct Solved {
  Tensor x, rank = {}, s = {};
};

// Solves by QR: of A, or of its transpose if A has more columns than rows.
Solved solve_by_qr(const Tensor& a, const Tensor& b) {
  if (a.size(-2) >= a.size(-1)) {
    const auto [q, r] = qr(a);
    return {solve_triangular(r, matmul(transposed(q), b), {.upper = true})};
  }
  const auto [q, r] = qr(transposed(a));
  return {matmul(q, solve_triangular(transposed(r), b))};
}

Solved solve_by_svd(const Tensor& a, const Tensor& b, double rcond, bool is_batch) {
  const Svd f = unrecorded_svd("linalg.lstsq", a, false, is_batch);
  const Tensor kept = is_significant(f.s, 0, rcond);
  const Tensor y = unsqueeze(inverted(f.s, kept), -1) * matmul(transposed(f.u), b);
  return {matmul(transposed(f.vh), y), sum(kept, {-1}), f.s};
}

// Solves for batches of one size and records the solution.
Solved solve_batch(const Tensor& a, const Tensor& b, const LstsqOptions& options, bool is_batch) {
  const double rcond = options.rcond.value_or(default_tolerance(a));
  Solved y;
  {
    const NoGradGuard no_grad;
    y = options.driver == LstsqDriver::kGels ? solve_by_qr(a, b)
                                             : solve_by_svd(a, b, rcond, is_batch);
  }
  trace("linalg.lstsq", y.x, {a, b});
  if (!needs_grad({a, b})) return y;
  const bool is_full = options.driver == LstsqDriver::kGels;
  y.x = record("LinalgLstsqBackward0", y.x, {a, b},
               [a = SavedTensor(a), b = SavedTensor(b), rcond, is_full, is_batch](Gradients& g) {
                 const Tensor u = a.get(g);
                 const Tensor p =
                     pinv_batch("linalg.lstsq", u, {.rtol = is_full ? 0 : rcond}, is_batch);
                 if (g.needs(0)) {
                   g.dx(0) = pinv_gradient(matmul(g.dy(), transposed(b.get(g))), u, p);
                 }
                 if (g.needs(1)) g.dx(1) = matmul(transposed(p), g.dy());
               });
  return y;
}

void check_sizes(const Tensor& a, const Tensor& b) {
  require(b.dim() >= 2 && a.size(-2) == b.size(-2),
          "linalg.lstsq: A and B must have the same number of rows, but got the shapes ", a.shape(),
          " and ", b.shape());
}

Lstsq lstsq_of_matrices(const Tensor& a, const Tensor& b, const LstsqOptions& options) {
  check_sizes(a, b);
  const Shape batch = broadcast_shapes(batch_of(a), batch_of(b), "the batch dimensions of A and B");
  const Tensor x = as_batch(expand_batch(a, batch)), y = as_batch(expand_batch(b, batch));
  const Solved f = solve_batch(x, y, options, !batch.empty());
  const bool by_qr = options.driver == LstsqDriver::kGels;
  const bool is_gelsy = options.driver == LstsqDriver::kGelsy;
  const int64_t n = a.size(-1);
  const Tensor none = empty({0}, options_of(a));
  Lstsq out{from_batch(f.x, batch), none, empty({0}, {.dtype = kInt64, .device = a.device()}),
            none};
  if (!by_qr) out.rank = reshape(f.rank, batch);
  if (!by_qr && !is_gelsy) out.singular_values = reshape(f.s, joined(batch, {f.s.size(-1)}));
  const bool is_tall = a.size(-2) > n && !is_gelsy;
  if (is_tall && (by_qr || all(eq(f.rank, n)).item<bool>())) {
    const Tensor squares = sum(square(matmul(x, f.x) - y), {-2});
    out.residuals = reshape(squares, joined(batch, {squares.size(-1)}));
  }
  return out;
}

}  // namespace

Tensor pinv(const Tensor& a, const PinvOptions& options) {
  if (autocasts(a)) return in_float32(pinv, a, options);
  options.hermitian ? check_square("linalg.pinv", a) : check_matrix("linalg.pinv", a);
  return traced(
      "linalg.pinv",
      from_batch(pinv_batch("linalg.pinv", as_batch(a), options, a.dim() > 2), batch_of(a)), {a});
}

Lstsq lstsq(const Tensor& a, const Tensor& b, const LstsqOptions& options) {
  if (autocasts(a)) {
    return factors_in_float32(lstsq, a, cast_for(Cast::kToFloat32, b), options);
  }
  check_matrix("linalg.lstsq", a);
  check_pair("linalg.lstsq", a, b);
  const Shape vectors(a.shape().begin(), a.shape().end() - 1);
  if (b.dim() != 1 && b.shape() != vectors) return lstsq_of_matrices(a, b, options);
  Lstsq y = lstsq_of_matrices(a, unsqueeze(b, -1), options);
  y.solution = squeeze(y.solution, -1);
  if (y.residuals.dim() > 1 || y.residuals.numel() > 0) y.residuals = squeeze(y.residuals, -1);
  return y;
}

}  // namespace taper::v0::linalg
