// Systems of equations and inverses.
#include <string>

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/linalg/linalg_checks.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/op_helpers.h"
#include "framework/kernels/elementwise/broadcast.h"
#include "framework/kernels/linalg/factorizations.h"

namespace taper::v0::linalg {
namespace {

std::string singular(int64_t) { return "The solver failed because the input matrix is singular."; }

std::string not_invertible(int64_t info) {
  return concat_to_string("The diagonal element ", info,
                          " is zero, the inversion could not be completed because the input matrix "
                          "is singular.");
}

// Returns X of A X = B, or of A^T X = B, from the factors of A.
Tensor solve_by(const kernels::LuFactors& factors, const Tensor& b, bool of_transpose) {
  const Tensor x = kernels::lu_solve(factors, b.transpose(-2, -1), of_transpose);
  return contiguous(transposed(x));
}

// Solves A X = B for a [batch, n, n] and b [batch, n, k].
Tensor solve_batch(const Tensor& a, const Tensor& b, bool is_batch) {
  const kernels::LuFactors factors = kernels::lu_factor(a);
  check_info("linalg.solve", factors.info, is_batch, singular);
  Tensor x;
  {
    const NoGradGuard no_grad;
    x = solve_by(factors, b, false);
  }
  trace("linalg.solve", x, {a, b});
  if (!needs_grad({a, b})) return x;
  return record("LinalgSolveExBackward0", x, {a, b},
                [a = SavedTensor(a), x = SavedTensor::output(x), f = SavedLu(factors),
                 is_batch](Gradients& g) {
                  const Tensor db = is_grad_enabled()
                                        ? solve_batch(transposed(a.get(g)), g.dy(), is_batch)
                                        : solve_by(f.get(g), g.dy(), true);
                  if (g.needs(0)) g.dx(0) = neg(matmul(db, transposed(x.get(g))));
                  g.dx(1) = db;
                });
}

// Returns whether b counts as one vector for each matrix of a.
bool is_vectors(const Tensor& a, const Tensor& b) {
  const Shape without_last(a.shape().begin(), a.shape().end() - 1);
  return b.dim() == 1 || (b.dim() + 1 == a.dim() && b.shape() == without_last);
}

// Throws Error unless the sizes of a and b [..., n, k] (or [..., k, n] for X A = B) match.
void check_sizes(const char* op, const Tensor& a, const Tensor& b, bool left) {
  require(b.dim() >= 2, op,
          ": The input tensor B must have at least 2 dimensions, but its shape is ", b.shape());
  const int64_t n = b.size(left ? -2 : -1);
  require(a.size(-1) == n, op, ": Incompatible shapes of A and B for the equation ",
          left ? "AX = B" : "XA = B", " (", a.size(-2), "x", a.size(-1), " and ", b.size(-2), "x",
          b.size(-1), ")");
}

// Solves A X = B with the batches of a and b broadcast; `f` solves it for batches [batch, ...].
template <class F> Tensor broadcast_solve(const Tensor& a, const Tensor& b, F f) {
  const Shape batch = broadcast_shapes(batch_of(a), batch_of(b), "the batch dimensions of A and B");
  return from_batch(f(as_batch(expand_batch(a, batch)), as_batch(expand_batch(b, batch))), batch);
}

// Returns X with A X = B, or with A^T X = B, for triangular a [batch, n, n] and b [batch, n, k].
Tensor triangular_batch(const Tensor& a, const Tensor& b, kernels::TriangularForm form) {
  Tensor x;
  {
    const NoGradGuard no_grad;
    x = contiguous(transposed(kernels::solve_triangular(a, b.transpose(-2, -1), form)));
  }
  trace("linalg.solve_triangular", x, {a, b});
  if (!needs_grad({a, b})) return x;
  return record("LinalgSolveTriangularBackward0", x, {a, b},
                [a = SavedTensor(a), x = SavedTensor::output(x), form](Gradients& g) {
                  kernels::TriangularForm adjoint = form;
                  adjoint.transposed = !form.transposed;
                  const Tensor db = triangular_batch(a.get(g), g.dy(), adjoint);
                  if (g.needs(0)) {
                    const Tensor y = x.get(g);
                    const Tensor da = neg(form.transposed ? matmul(y, transposed(db))
                                                          : matmul(db, transposed(y)));
                    const int64_t off = form.unitriangular ? 1 : 0;
                    g.dx(0) = form.upper ? triu(da, off) : tril(da, -off);
                  }
                  g.dx(1) = db;
                });
}

// Returns the inverse of a [batch, n, n].
Tensor inv_batch(const Tensor& a, bool is_batch) {
  const kernels::LuFactors factors = kernels::lu_factor(a);
  check_info("linalg.inv", factors.info, is_batch, not_invertible);
  Tensor y;
  {
    const NoGradGuard no_grad;
    // A^T x = e_i gives row i of the inverse.
    const Tensor identity = expand(eye(a.size(-1), options_of(a)), a.shape());
    y = kernels::lu_solve(factors, identity, true);
  }
  trace("linalg.inv", y, {a});
  return differentiable("LinalgInvExBackward0", a, y, [](auto& dy, auto&, auto& inverse) {
    const Tensor t = transposed(inverse);
    return neg(matmul(t, matmul(dy, t)));
  });
}

}  // namespace

Tensor solve(const Tensor& a, const Tensor& b, const SolveOptions& options) {
  if (autocasts(a)) return in_float32(solve, a, b, options);
  check_square("linalg.solve", a);
  check_pair("linalg.solve", a, b);
  if (is_vectors(a, b)) {
    require(options.left,
            "linalg.solve: Vector broadcasting of the left hand side is not supported "
            "for left=false. In this case linalg.solve is equivalent to B / A.squeeze(-1)");
    const Tensor column = unsqueeze(b, -1);
    check_sizes("linalg.solve", a, column, true);
    return squeeze(solve(a, column), -1);
  }
  check_sizes("linalg.solve", a, b, options.left);
  if (!options.left) return contiguous(transposed(solve(transposed(a), transposed(b))));
  const bool is_batch = a.dim() > 2 || b.dim() > 2;
  return broadcast_solve(
      a, b, [=](const Tensor& x, const Tensor& y) { return solve_batch(x, y, is_batch); });
}

Tensor solve_triangular(const Tensor& a, const Tensor& b, const SolveTriangularOptions& options) {
  if (autocasts(a)) return in_float32(solve_triangular, a, b, options);
  check_square("linalg.solve_triangular", a);
  check_pair("linalg.solve_triangular", a, b);
  check_sizes("linalg.solve_triangular", a, b, options.left);
  const kernels::TriangularForm form{options.upper, !options.left, options.unitriangular};
  // X A = B is A^T X^T = B^T.
  const Tensor x = broadcast_solve(
      a, options.left ? b : transposed(b),
      [&](const Tensor& u, const Tensor& v) { return triangular_batch(u, v, form); });
  return options.left ? x : contiguous(transposed(x));
}

Tensor inv(const Tensor& a) {
  if (autocasts(a)) return in_float32(inv, a);
  check_square("linalg.inv", a);
  return from_batch(inv_batch(as_batch(a), a.dim() > 2), batch_of(a));
}

}  // namespace taper::v0::linalg
