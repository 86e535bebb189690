// Cholesky, QR, eigenvalue and singular value decompositions.
//
// Formulas of the derivatives: Giles, "An extended collection of matrix derivative results for
// forward and reverse mode algorithmic differentiation", 2008; Walter and Lehmann, "Algorithmic
// differentiation of linear algebra functions", 2010.
#include <algorithm>
#include <string>
#include <vector>

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/linalg/linalg_checks.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/op_helpers.h"

namespace taper::v0::linalg {
namespace {

std::string not_positive_definite(int64_t info) {
  return concat_to_string(
      "The factorization could not be completed because the input is not positive-definite (the "
      "leading minor of order ",
      info, " is not positive-definite).");
}

std::string no_eigenvalues(int64_t info) {
  return concat_to_string(
      "The algorithm failed to converge because the input matrix is ill-conditioned or has too "
      "many "
      "repeated eigenvalues (error code: ",
      info, ").");
}

std::string no_singular_values(int64_t info) {
  return concat_to_string(
      "The algorithm failed to converge because the input matrix is ill-conditioned or has too "
      "many "
      "repeated singular values (error code: ",
      info, ").");
}

std::string not_finite(int64_t) {
  return "The algorithm failed to converge because the input matrix contained non-finite values.";
}

// Throws LinAlgError if a matrix of a [batch, m, n] has an element that is not finite. LAPACK's and
// cuSOLVER's iterations need not end for them.
void check_finite(const char* op, const Tensor& a, bool is_batch) {
  if (a.numel() == 0) return;
  const Tensor bad = logical_not(all(isfinite(a.detach()), {-2, -1}));
  check_info(op, bad.to(kInt32), is_batch, not_finite);
}

// Returns the factors 1 and -1 by which a vector along `dim` is multiplied, so that the first of
// its components of largest magnitude is positive. Magnitudes that differ by less than a thousandth
// count as equal, because rounding would otherwise decide.
Tensor signs_of(const Tensor& x, int64_t dim) {
  const Tensor size = abs(x), large = ge(size, amax(size, {dim}, true) * 0.999);
  const Tensor first = argmax(large.to(kFloat32), dim, true);
  return where(lt(gather(x, dim, first), 0), -1, 1).to(x.dtype());
}

// Returns the lower triangle of x with half of its diagonal.
Tensor half_lower(const Tensor& x) { return tril(x) - diag_embed(diagonal(x, 0, -2, -1) * 0.5); }

// Returns the gradient of A for A = L L^T.
Tensor cholesky_gradient(const Tensor& dl, const Tensor& l) {
  const Tensor phi = half_lower(matmul(transposed(l), dl));
  const Tensor symmetric = (phi + transposed(phi)) * 0.5;
  const Tensor left = solve_triangular(transposed(l), symmetric, {.upper = true});
  return solve_triangular(l, left, {.left = false});
}

// --- QR ---

// Returns the gradient of A for A = Q R with a square R.
Tensor qr_gradient(const Tensor& dq, const Tensor& dr, const Tensor& q, const Tensor& r) {
  const Tensor m = triu(matmul(dr, transposed(r)) - matmul(transposed(q), dq));
  const Tensor inner = m + transposed(m) - diag_embed(diagonal(m, 0, -2, -1));
  return solve_triangular(transposed(r), dq + matmul(q, inner), {.left = false});
}

// Sets the gradient of a [batch, m, n]. If m < n, A = Q [R1 R2] is the decomposition of the first m
// columns, and R2 = Q^T A2.
void qr_gradient(Gradients& g, const Tensor& a, const Tensor& q, const Tensor& r) {
  const Tensor dq = g.dy(0).defined() ? g.dy(0) : zeros_like(q);
  const Tensor dr = g.dy(1).defined() ? g.dy(1) : zeros_like(r);
  const int64_t m = a.size(-2), n = a.size(-1);
  if (m >= n) {
    g.dx(0) = qr_gradient(dq, dr, q, r);
    return;
  }
  const Tensor a2 = narrow(a, -1, m, n - m), dr2 = narrow(dr, -1, m, n - m);
  const Tensor dq1 = dq + matmul(a2, transposed(dr2));
  const Tensor da1 = qr_gradient(dq1, narrow(dr, -1, 0, m), q, narrow(r, -1, 0, m));
  g.dx(0) = cat({da1, matmul(q, dr2)}, -1);
}

// Computes Q [batch, m, columns] and R [batch, columns, n] with a non-negative diagonal of R.
Qr signed_qr(const Tensor& a, int64_t columns, bool wants_q) {
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  const kernels::QrFactors f = kernels::qr(transposed(a), wants_q ? columns : 0);
  // R's elements below the diagonal are not set.
  Tensor r = triu(transposed(narrow(f.rt, -1, 0, std::min(columns, m))));
  if (k == 0) {
    const Shape shape{a.size(0), m, columns};
    return {
        wants_q ? expand(eye(m, columns, options_of(a)), shape).clone() : empty({0}, options_of(a)),
        r};
  }
  const Tensor signs = where(lt(diagonal(r, 0, -2, -1), 0), -1, 1).to(a.dtype());
  const Tensor rest = ones({a.size(0), r.size(-2) - k}, options_of(a));
  const Tensor all_signs = cat({signs, rest}, -1);
  r = contiguous(r * unsqueeze(all_signs, -1));
  if (!wants_q) return {empty({0}, options_of(a)), r};
  return {contiguous(transposed(f.qt) * unsqueeze(all_signs, -2)), r};
}

// --- eigenvalues ---

// Returns x / (w_j - w_i) with zeros on the diagonal.
Tensor divided_by_gaps(const Tensor& x, const Tensor& w) {
  const Tensor gaps = unsqueeze(w, -2) - unsqueeze(w, -1);
  const Tensor diagonal_of_ones = eye(w.size(-1), options_of(w));
  return x / (gaps + diagonal_of_ones);
}

Tensor skew(const Tensor& x) { return x - transposed(x); }

void eigh_gradient(Gradients& g, const Tensor& w, const Tensor& v) {
  const Tensor &dw = g.dy(0), &dv = g.dy(1);
  Tensor inner;
  if (dv.defined()) inner = divided_by_gaps(skew(matmul(transposed(v), dv)) * 0.5, w);
  if (dw.defined()) inner = inner.defined() ? inner + diag_embed(dw) : diag_embed(dw);
  g.dx(0) = matmul(v, matmul(inner, transposed(v)));
}

// --- singular values ---

// Returns U^T dA V: the part of the gradient dA within the column space of U and the row space of
// Vh, in their coordinates.
Tensor inner_svd_gradient(Gradients& g, const Tensor& u, const Tensor& s, const Tensor& vh) {
  const Tensor &du = g.dy(0), &ds = g.dy(1), &dvh = g.dy(2);
  const Tensor squares = s * s;
  Tensor inner = ds.defined() ? diag_embed(ds) : Tensor();
  const auto add_term = [&](const Tensor& term) { inner = inner.defined() ? inner + term : term; };
  if (du.defined()) {
    const Tensor m = divided_by_gaps(skew(matmul(transposed(u), du)), squares);
    add_term(m * unsqueeze(s, -2));
  }
  if (dvh.defined()) {
    const Tensor m = divided_by_gaps(skew(matmul(vh, transposed(dvh))), squares);
    add_term(unsqueeze(s, -1) * m);
  }
  return inner;
}

// Sets the gradient of a from the reduced factors.
void svd_gradient(Gradients& g, const Svd& f) {
  const auto& [u, s, vh] = f;
  const Tensor &du = g.dy(0), &dvh = g.dy(2);
  Tensor dx = matmul(u, matmul(inner_svd_gradient(g, u, s, vh), vh));
  if (du.defined() && u.size(-2) > u.size(-1)) {
    const Tensor scaled = du / unsqueeze(s, -2);
    dx = dx + matmul(scaled - matmul(u, matmul(transposed(u), scaled)), vh);
  }
  if (dvh.defined() && vh.size(-1) > vh.size(-2)) {
    const Tensor scaled = dvh / unsqueeze(s, -1);
    dx = dx + matmul(u, scaled - matmul(matmul(scaled, transposed(vh)), vh));
  }
  g.dx(0) = dx;
}

// Sets the gradient of a [batch, m, n] with m != n for its full factors.
void full_svd_gradient(Gradients& g, const Tensor& a) {
  require<NotImplementedError>(
      !g.dy(0).defined() && !g.dy(2).defined(),
      "linalg.svd: the gradients of the singular vectors are only defined for full_matrices=false");
  // The gradient of the singular values depends on the reduced factors alone, which have a second
  // derivative.
  svd_gradient(g, svd(a, {.full_matrices = false}));
}

// Computes U [batch, m, m or k], S and Vh [batch, n or k, n] with the signs of U's columns fixed.
Svd signed_svd(const char* op, const Tensor& a, bool full, bool is_batch) {
  const bool is_tall = a.size(-2) > a.size(-1);
  const kernels::SvdFactors f = kernels::svd(is_tall ? transposed(a) : a, full);
  check_info(op, f.info, is_batch, no_singular_values);
  Tensor u = is_tall ? transposed(f.vh) : f.u, vh = is_tall ? transposed(f.u) : f.vh;
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  if (k == 0) {
    return {expand(eye(m, u.size(-1), options_of(a)), u.shape()).clone(), f.s,
            expand(eye(vh.size(-2), n, options_of(a)), vh.shape()).clone()};
  }
  const Tensor signs = signs_of(u, -2);  // [batch, 1, columns]
  u = contiguous(u * signs);
  const Tensor shared = transposed(narrow(signs, -1, 0, k)), rows = narrow(vh, -2, 0, k) * shared;
  if (vh.size(-2) == k) return {u, f.s, contiguous(rows)};
  const Tensor rest = narrow(vh, -2, k, n - k);
  return {u, f.s, cat({rows, rest * signs_of(rest, -1)}, -2)};
}

// Computes the eigenvalues and the eigenvectors of a [batch, n, n] with their signs fixed.
Eigh signed_eigh(const char* op, const Tensor& a, bool upper, bool is_batch) {
  const kernels::EigenPairs f = kernels::eigh(a, upper);
  check_info(op, f.info, is_batch, no_eigenvalues);
  if (a.numel() == 0) return {f.values, f.vectors_t};
  return {f.values, contiguous(transposed(f.vectors_t * signs_of(f.vectors_t, -1)))};
}

}  // namespace

Svd unrecorded_svd(const char* op, const Tensor& a, bool full, bool is_batch) {
  check_finite(op, a, is_batch);
  const NoGradGuard no_grad;
  return signed_svd(op, a, full, is_batch);
}

Eigh unrecorded_eigh(const char* op, const Tensor& a, bool upper, bool is_batch) {
  check_finite(op, a, is_batch);
  const NoGradGuard no_grad;
  return signed_eigh(op, a, upper, is_batch);
}

Tensor cholesky(const Tensor& a, const CholeskyOptions& options) {
  if (autocasts(a)) return in_float32(cholesky, a, options);
  check_square("linalg.cholesky", a);
  const Tensor x = as_batch(a);
  const auto [factor, info] = kernels::cholesky(x);
  check_info("linalg.cholesky", info, a.dim() > 2, not_positive_definite);
  Tensor l;
  {
    const NoGradGuard no_grad;
    l = tril(factor);
  }
  trace("linalg.cholesky", l, {x});
  if (needs_grad({x})) {
    l = record("LinalgCholeskyExBackward0", l, {x}, [l = SavedTensor::output(l)](Gradients& g) {
      g.dx(0) = cholesky_gradient(g.dy(), l.get(g));
    });
  }
  l = from_batch(l, batch_of(a));
  return options.upper ? contiguous(transposed(l)) : l;
}

Qr qr(const Tensor& a, const QrOptions& options) {
  if (autocasts(a)) return factors_in_float32(qr, a, options);
  check_matrix("linalg.qr", a);
  const Tensor x = as_batch(a);
  const int64_t m = x.size(-2), k = std::min(m, x.size(-1));
  const bool is_complete = options.mode == QrMode::kComplete, wants_q = options.mode != QrMode::kR;
  Qr y;
  {
    const NoGradGuard no_grad;
    y = signed_qr(x, is_complete ? m : k, wants_q);
  }
  if (wants_q) trace("linalg.qr", y.q, {x});
  trace("linalg.qr", y.r, {x});
  if (needs_grad({x})) {
    const Tensor outputs[] = {y.q, y.r};
    const bool has_gradient = wants_q && (!is_complete || m <= x.size(-1));
    const char* const problem = wants_q
                                    ? "its complete form, which is not unique for more rows than "
                                      "columns"
                                    : "the mode 'r', which does not compute Q";
    record_many("LinalgQrBackward0", outputs, std::vector<TensorRef>{x},
                [=, x = SavedTensor(x), q = SavedTensor::output(y.q, 0),
                 r = SavedTensor::output(y.r, 1)](Gradients& g) {
                  require<NotImplementedError>(has_gradient,
                                               "linalg.qr: the gradient is not defined for ",
                                               problem, "; use the mode 'reduced'");
                  qr_gradient(g, x.get(g), q.get(g), r.get(g));
                });
  }
  const Shape batch = batch_of(a);
  return {wants_q ? from_batch(y.q, batch) : y.q, from_batch(y.r, batch)};
}

Eigh eigh(const Tensor& a, const EighOptions& options) {
  if (autocasts(a)) return factors_in_float32(eigh, a, options);
  check_square("linalg.eigh", a);
  const Tensor x = as_batch(a);
  const auto [w, v] = unrecorded_eigh("linalg.eigh", x, options.uplo == Uplo::kU, a.dim() > 2);
  trace("linalg.eigh", w, {x});
  trace("linalg.eigh", v, {x});
  if (needs_grad({x})) {
    const Tensor outputs[] = {w, v};
    record_many("LinalgEighBackward0", outputs, std::vector<TensorRef>{x},
                [values = SavedTensor::output(w, 0), vectors = SavedTensor::output(v, 1)](
                    Gradients& g) { eigh_gradient(g, values.get(g), vectors.get(g)); });
  }
  const Shape batch = batch_of(a);
  return {reshape(w, joined(batch, {x.size(-1)})), from_batch(v, batch)};
}

Svd svd(const Tensor& a, const SvdOptions& options) {
  if (autocasts(a)) return factors_in_float32(svd, a, options);
  check_matrix("linalg.svd", a);
  const Tensor x = as_batch(a);
  const Svd y = unrecorded_svd("linalg.svd", x, options.full_matrices, a.dim() > 2);
  for (const Tensor* each : {&y.u, &y.s, &y.vh}) trace("linalg.svd", *each, {x});
  if (needs_grad({x})) {
    const Tensor outputs[] = {y.u, y.s, y.vh};
    record_many("LinalgSvdBackward0", outputs, std::vector<TensorRef>{x},
                [x = SavedTensor(x), u = SavedTensor::output(y.u, 0),
                 s = SavedTensor::output(y.s, 1), vh = SavedTensor::output(y.vh, 2)](Gradients& g) {
                  if (u.get(g).size(-1) == vh.get(g).size(-2)) {
                    svd_gradient(g, {u.get(g), s.get(g), vh.get(g)});
                  } else {
                    full_svd_gradient(g, x.get(g));
                  }
                });
  }
  const Shape batch = batch_of(a);
  return {from_batch(y.u, batch), reshape(y.s, joined(batch, {y.s.size(-1)})),
          from_batch(y.vh, batch)};
}

}  // namespace taper::v0::linalg
