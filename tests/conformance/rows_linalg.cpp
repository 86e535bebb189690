// Rows of linear algebra: what it computes and refuses. operators.py stores PyTorch's answers.
#include <limits>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/linalg/linalg_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/print.h"
#include "framework/factory/factories.h"
#include "framework/kernels/linalg/factorizations.h"
#include "tests/conformance/families.h"
#include "tests/conformance/python.h"

namespace taper::v0::conformance {
namespace {

template <class F> Row& prints(Rows& rows, const char* name, F make) {
  return rows(concat_to_string("op.linalg.", name), 0,
              [make]() -> std::string { return to_string(make()); });
}

Tensor matrix() { return tensor({{2.0, 1.0}, {1.0, 3.0}}); }
Tensor tall() { return tensor({{1.0, 0.0}, {1.0, 1.0}, {1.0, 2.0}}); }
Tensor singular() { return ones({2, 2}); }
Tensor batch() { return stack({eye(2), zeros({2, 2})}); }
Tensor with_nan() { return full({2, 2}, std::numeric_limits<double>::quiet_NaN()); }

void values(Rows& rows) {
  prints(rows, "solve.vector", [] { return linalg::solve(matrix(), tensor({1.0, 2.0})); });
  prints(rows, "solve.right", [] { return linalg::solve(matrix(), matrix(), {.left = false}); });
  prints(rows, "solve.empty", [] { return linalg::solve(ones({0, 0}), ones({0, 2})); });
  prints(rows, "solve_triangular.upper",
         [] { return linalg::solve_triangular(matrix(), eye(2), {.upper = true}); });
  prints(rows, "inv.value", [] { return linalg::inv(matrix()); });
  prints(rows, "det.value", [] { return linalg::det(matrix()); });
  prints(rows, "det.empty", [] { return linalg::det(ones({0, 0})); });
  prints(rows, "det.singular", [] { return linalg::det(singular()); });
  prints(rows, "slogdet.singular", [] { return linalg::slogdet(singular()).logabsdet; });
  prints(rows, "cholesky.upper", [] { return linalg::cholesky(matrix(), {.upper = true}); });
  prints(rows, "eigh.values", [] { return linalg::eigh(matrix()).eigenvalues; });
  prints(rows, "eigh.upper_triangle",
         [] { return linalg::eigh(matrix(), {.uplo = "U"}).eigenvalues; });
  prints(rows, "svd.values", [] { return linalg::svd(matrix()).s; });
  prints(rows, "pinv.value", [] { return linalg::pinv(matrix()); });
  prints(rows, "pinv.singular", [] { return linalg::pinv(singular()); });
  prints(rows, "lstsq.solution", [] {
    return linalg::lstsq(tall(), tensor({{1.0}, {2.0}, {4.0}})).solution;
  });
  prints(rows, "lstsq.rank", [] { return linalg::lstsq(singular(), ones({2, 1})).rank; });
  prints(rows, "matrix_norm.nuc", [] { return linalg::matrix_norm(matrix(), "nuc"); });
  prints(rows, "matrix_norm.minus_one", [] { return linalg::matrix_norm(matrix(), -1); });
}

void errors(Rows& rows) {
  constexpr const char* kNamesShape = "the error names the shapes";
  constexpr const char* kNoPrefix = "names of functions have no 'torch.' prefix";
  constexpr const char* kChoice = "the error of every choice lists its words";
  prints(rows, "solve.singular", [] { return linalg::solve(singular(), singular()); })
      .differs_in(
          kNoPrefix,
          "_LinAlgError: linalg.solve: The solver failed because the input matrix is singular.");
  prints(rows, "solve.singular_in_batch", [] { return linalg::solve(batch(), batch()); })
      .differs_in(kNoPrefix,
                  "_LinAlgError: linalg.solve: (Batch element 1): The solver failed because the "
                  "input matrix is singular.");
  prints(rows, "solve.rectangle", [] { return linalg::solve(tall(), tall()); });
  prints(rows, "solve.sizes", [] { return linalg::solve(matrix(), ones({3, 2})); });
  prints(rows, "solve.dtypes", [] { return linalg::solve(matrix(), matrix().to(kFloat64)); });
  prints(rows, "inv.singular", [] { return linalg::inv(singular()); });
  prints(rows, "inv.singular_in_batch", [] { return linalg::inv(batch()); });
  prints(rows, "inv.rectangle", [] { return linalg::inv(tall()); });
  prints(rows, "inv.vector", [] { return linalg::inv(ones({3})); })
      .differs_in(
          kNamesShape,
          "RuntimeError: linalg.inv: The input tensor A must have at least 2 dimensions, but "
          "its shape is [3]");
  prints(rows, "inv.half", [] { return linalg::inv(matrix().to(kFloat16)); });
  prints(rows, "inv.integers", [] { return linalg::inv(matrix().to(kInt64)); })
      .differs_in("there are no complex dtypes",
                  "RuntimeError: linalg.inv: Expected a floating point tensor as input. Got Long");
  prints(rows, "cholesky.indefinite", [] { return linalg::cholesky(singular() - 2 * eye(2)); });
  prints(rows, "cholesky.indefinite_in_batch", [] { return linalg::cholesky(batch()); });
  prints(rows, "eigh.nan", [] { return linalg::eigh(with_nan()).eigenvalues; })
      .differs_in("refused like NaN in svd, on every device",
                  "_LinAlgError: linalg.eigh: The algorithm failed to converge because the input "
                  "matrix contained non-finite values.");
  prints(rows, "svd.nan", [] { return linalg::svd(with_nan()).s; });
  prints(rows, "qr.mode", [] { return linalg::qr(matrix(), {.mode = "full"}).r; })
      .differs_in(kChoice,
                  "ValueError: 'full' is not a valid value for mode, which is 'reduced', "
                  "'complete' or 'r'");
  prints(rows, "eigh.uplo", [] {
    return linalg::eigh(matrix(), {.uplo = "X"}).eigenvalues;
  }).differs_in(kChoice, "ValueError: 'X' is not a valid value for uplo, which is 'L' or 'U'");
  prints(rows, "lstsq.rows",
         [] {
           return linalg::lstsq(tall(), ones({2, 1})).solution;
         })
      .differs_in(kNamesShape,
                  "RuntimeError: linalg.lstsq: A and B must have the same number of rows, but got "
                  "the shapes [3, 2] and [2, 1]");
  prints(rows, "matrix_norm.order", [] { return linalg::matrix_norm(matrix(), 3); })
      .differs_in("the error lists the orders",
                  "RuntimeError: linalg.matrix_norm: Order 3 not supported; expected 1, -1, 2, -2, "
                  "infinity or -infinity");
  prints(rows, "matrix_norm.word", [] { return linalg::matrix_norm(matrix(), "max"); })
      .differs_in(
          "the error lists the orders",
          "ValueError: linalg.matrix_norm: Order max not supported; expected fro, nuc or a number");
  prints(rows, "matrix_norm.dims", [] {
    return linalg::matrix_norm(matrix(), 1, {.dim = {0, -2}});
  });
}

}  // namespace

void linalg_rows(Rows& rows) {
  if (*kernels::missing_lapack()) return;
  values(rows);
  errors(rows);
}

}  // namespace taper::v0::conformance
