// Rows of linear algebra. The functions add a diagonal to random matrices, so that these are
// regular and have different eigenvalues. tests/op_table/linalg_test.cpp tests other matrices.
#include <cmath>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/linalg/linalg_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "tests/op_table/linalg_references.h"
#include "tests/op_table/op_table.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

// Returns x with 4, 5, 6, ... added to the diagonal.
Tensor regular(const Tensor& x) {
  const TensorOptions options{.dtype = x.dtype(), .device = x.device()};
  return x + diag_embed(arange(4, 4 + x.size(-1), 1, options));
}
Matrix regular(Matrix x) {
  for (int64_t i = 0; i < x.n; ++i) x(i, i) += 4.0 + double(i);
  return x;
}
// Returns regular(x) with its first row multiplied by the sign of the first element of x, which
// decides the sign of the determinant.
Tensor of_either_sign(const Tensor& x) {
  if (x.size(-1) == 0) return x;
  const Tensor rows = regular(x), first = x.narrow(-2, 0, 1).narrow(-1, 0, 1);
  return cat({rows.narrow(-2, 0, 1) * sign(first), rows.narrow(-2, 1, x.size(-1) - 1)}, -2);
}
Matrix of_either_sign(Matrix x) {
  if (x.n == 0) return x;
  const double first = x(0, 0) < 0 ? -1 : 1;
  x = regular(std::move(x));
  for (int64_t j = 0; j < x.n; ++j) x(0, j) *= first;
  return x;
}
// Returns a symmetric matrix.
Tensor symmetric(const Tensor& x) { return regular(x + transpose(x, -2, -1)); }
Matrix symmetric(const Matrix& x) {
  Matrix y = x.transposed();
  for (size_t i = 0; i < y.v.size(); ++i) y.v[i] += x.v[i];
  return regular(y);
}
Shape square(int64_t n, int64_t) { return {n, n}; }
Shape scalar(int64_t, int64_t) { return {}; }

using OfOne = std::function<Tensor(const Tensor&)>;

// Returns the refusals that all functions of one matrix share.
std::vector<Refusal> refusals_of(const std::string& op, const OfOne& f, bool is_square = true) {
  std::vector<Refusal> out = {
      {"rank", call_with_ones(f, {3}), op + ": The input tensor A must have at least 2 dimensions"},
      {"half", call_with_ones(f, {2, 2}, kFloat16),
       op + ": Low precision dtypes not supported. Got Half"},
      {"bfloat16", call_with_ones(f, {2, 2}, kBFloat16),
       op + ": Low precision dtypes not supported. Got BFloat16"},
      {"integers", call_with_ones(f, {2, 2}, kInt64),
       op + ": Expected a floating point tensor as input. Got Long"}};
  if (is_square) {
    out.push_back({"rectangle", call_with_ones(f, {3, 2}),
                   op + ": A must be batches of square matrices, but they are 3 by 2 matrices"});
  }
  return out;
}

// --- systems of equations ---

// Solves A X = B per matrix of the batch of b; a has the same batch or none.
Reference solved(std::function<Matrix(Matrix)> made, bool left = true) {
  return [=](const std::vector<Array>& x) {
    Array y = x[1];
    const bool is_vector = x[1].shape.size() == 1;
    Array b = x[1];
    if (is_vector) b.shape = {b.shape[0], 1};
    y.v.clear();
    for (int64_t i = 0; i < batch_count(b); ++i) {
      const Matrix a = made(matrix_of(x[0], batch_count(x[0]) == 1 ? 0 : i)), c = matrix_of(b, i);
      const Matrix out =
          left ? eliminated(a, c) : eliminated(a.transposed(), c.transposed()).transposed();
      y.v.insert(y.v.end(), out.v.begin(), out.v.end());
    }
    return y;
  };
}

Matrix as_regular(Matrix x) { return regular(std::move(x)); }
Matrix lower_of(Matrix x) {
  x = regular(std::move(x));
  for (int64_t i = 0; i < x.m; ++i) {
    for (int64_t j = i + 1; j < x.n; ++j) x(i, j) = 0;
  }
  return x;
}
Matrix unit_upper_of(const Matrix& x) {
  Matrix y = lower_of(x.transposed()).transposed();
  for (int64_t i = 0; i < x.m; ++i) y(i, i) = 1;
  return y;
}

std::vector<Row> systems() {
  const Samples samples = {{{3, 3}, {3, 2}},       {{1, 1}, {1, 1}},       {{4, 4}, {4}},
                           {{2, 3, 3}, {2, 3, 1}}, {{3, 3}, {2, 3, 2}},    {{0, 0}, {0, 2}},
                           {{3, 3}, {3, 0}},       {{0, 3, 3}, {0, 3, 2}}, {{17, 17}, {17, 3}}};
  Row left = matrix_row(
      "solve", "", [](const Tensors& x) { return linalg::solve(regular(x[0]), x[1]); },
      solved(as_regular), samples);
  left.refusals =
      refusals_of("linalg.solve", [](const Tensor& x) { return linalg::solve(x, ones_like(x)); });
  const auto pair = [](Shape a, Shape b, DType second = kFloat32) {
    return [=](Device d) {
      return linalg::solve(eye(3, {.device = d}).expand(a),
                           ones(b, {.dtype = second, .device = d}));
    };
  };
  left.refusals.push_back({"sizes", pair({3, 3}, {4, 2}),
                           "linalg.solve: Incompatible shapes of A and B for the equation AX = B "
                           "(3x3 and 4x2)"});
  left.refusals.push_back({"dtypes", pair({3, 3}, {3, 2}, kFloat64),
                           "linalg.solve: Expected A and B to have the same dtype, but found A of "
                           "type Float and B of type Double instead"});
  left.refusals.push_back({"batches", pair({2, 3, 3}, {5, 3, 2}),
                           "The size of tensor a (2) must match the size of tensor b (5)"});
  left.refusals.push_back(
      {"singular", call_with_ones([](const Tensor& x) { return linalg::solve(x, x); }, {2, 2}),
       "linalg.solve: The solver failed because the input matrix is singular."});
  left.bench = {{512, 512}, {512, 1}};
  Row right = matrix_row(
      "solve", "from the right",
      [](const Tensors& x) { return linalg::solve(regular(x[0]), x[1], {.left = false}); },
      solved(as_regular, false),
      {{{3, 3}, {2, 3}}, {{2, 3, 3}, {2, 1, 3}}, {{0, 0}, {2, 0}}, {{2, 2}, {3, 2, 2}}});
  Row lower =
      matrix_row("solve_triangular", "",
                 [](const Tensors& x) { return linalg::solve_triangular(regular(x[0]), x[1]); },
                 solved(lower_of),
                 {{{3, 3}, {3, 2}},
                  {{1, 1}, {1, 1}},
                  {{2, 3, 3}, {2, 3, 1}},
                  {{3, 3}, {2, 3, 2}},
                  {{0, 0}, {0, 2}},
                  {{0, 3, 3}, {0, 3, 2}}});
  lower.refusals = refusals_of("linalg.solve_triangular", [](const Tensor& x) {
    return linalg::solve_triangular(x, ones_like(x));
  });
  Row upper = matrix_row("solve_triangular", "upper, unit diagonal, from the right",
                         [](const Tensors& x) {
                           return linalg::solve_triangular(
                               x[0], x[1], {.upper = true, .left = false, .unitriangular = true});
                         },
                         solved(unit_upper_of, false),
                         {{{3, 3}, {2, 3}}, {{2, 3, 3}, {2, 1, 3}}, {{2, 2}, {3, 2, 2}}});
  return {left, right, lower, upper};
}

std::vector<Row> of_square_matrices() {
  Row inverse = matrix_row(
      "inv", "", [](const Tensors& x) { return linalg::inv(regular(x[0])); },
      of_matrices(square, [](const Matrix& x) { return eliminated(regular(x), identity(x.n)).v; }));
  inverse.refusals = refusals_of("linalg.inv", linalg::inv);
  inverse.refusals.push_back(
      {"singular", call_with_ones(linalg::inv, {2, 2}),
       "linalg.inv: The diagonal element 2 is zero, the inversion could not be completed because "
       "the input matrix is singular."});
  inverse.refusals.push_back({"singular in a batch",
                              [](Device d) {
                                return linalg::inv(stack({eye(2), zeros({2, 2})}).to(d));
                              },
                              "linalg.inv: (Batch element 1): The diagonal element 1 is zero"});
  const auto det_of = [](const Matrix& x) {
    double det = 1;
    (void)eliminated(regular(x), identity(x.n), &det);
    return det;
  };
  Row determinant = matrix_row(
      "det", "", [](const Tensors& x) { return linalg::det(regular(x[0])); },
      of_matrices(scalar, [=](const Matrix& x) { return std::vector{det_of(x)}; }));
  determinant.refusals = refusals_of("linalg.det", linalg::det);
  Row logarithm = matrix_row(
      "slogdet", "", [](const Tensors& x) { return linalg::slogdet(regular(x[0])).logabsdet; },
      of_matrices(scalar, [=](const Matrix& x) { return std::vector{std::log(det_of(x))}; }));
  logarithm.refusals =
      refusals_of("linalg.slogdet", [](const Tensor& x) { return linalg::slogdet(x).sign; });
  Row sign = matrix_row("slogdet", "sign",
                        [](const Tensors& x) { return linalg::slogdet(of_either_sign(x[0])).sign; },
                        of_matrices(scalar,
                                    [](const Matrix& x) {
                                      double det = 1;
                                      (void)eliminated(of_either_sign(x), identity(x.n), &det);
                                      return std::vector<double>{det < 0 ? -1.0 : 1.0};
                                    }),
                        {{{3, 3}}, {{4, 4}}, {{5, 2, 2}}, {{0, 0}}, {{7, 3, 3}}});
  sign.derivative = Derivative::kNone;
  return {inverse, determinant, logarithm, sign};
}

// --- factorizations ---

Row cholesky_row(bool upper) {
  Row r = matrix_row(
      "cholesky", upper ? "upper" : "",
      [=](const Tensors& x) { return linalg::cholesky(symmetric(x[0]), {.upper = upper}); },
      of_matrices(square, [=](const Matrix& x) {
        const Matrix l = cholesky_of(symmetric(x));
        return upper ? l.transposed().v : l.v;
      }));
  if (upper) return r;
  const OfOne f = [](const Tensor& x) { return linalg::cholesky(x); };
  r.refusals = refusals_of("linalg.cholesky", f);
  r.refusals.push_back({"indefinite",
                        [](Device d) {
                          return linalg::cholesky(diag(tensor({1.0, -1.0})).to(d));
                        },
                        "linalg.cholesky: The factorization could not be completed because the "
                        "input is not positive-definite (the leading minor of order 2 is not "
                        "positive-definite)."});
  r.refusals.push_back({"indefinite in a batch",
                        [](Device d) {
                          return linalg::cholesky(stack({eye(2), zeros({2, 2})}).to(d));
                        },
                        "linalg.cholesky: (Batch element 1): "});
  return r;
}

const Samples kRectangles = {{{3, 2}},    {{3, 3}}, {{2, 3}}, {{1, 1}},
                             {{2, 4, 2}}, {{0, 2}}, {{2, 0}}, {{0, 3, 2}}};

std::vector<Row> qr_rows() {
  Row q = matrix_row(
      "qr", "Q", [](const Tensors& x) { return linalg::qr(rectangular(x[0])).q; },
      of_matrices(
          [](int64_t m, int64_t n) {
            return Shape{m, std::min(m, n)};
          },
          [](const Matrix& x) { return qr_of(rectangular(x)).q.v; }),
      kRectangles);
  q.refusals = refusals_of(
      "linalg.qr", [](const Tensor& x) { return linalg::qr(x).q; }, false);
  const auto size_of_r = [](int64_t m, int64_t n) { return Shape{std::min(m, n), n}; };
  Row r = matrix_row(
      "qr", "R", [](const Tensors& x) { return linalg::qr(rectangular(x[0])).r; },
      of_matrices(size_of_r, [](const Matrix& x) { return qr_of(rectangular(x)).r.v; }),
      kRectangles);
  Row only = matrix_row(
      "qr", "only R",
      [](const Tensors& x) { return linalg::qr(rectangular(x[0]), {.mode = "r"}).r; },
      of_matrices(size_of_r, [](const Matrix& x) { return qr_of(rectangular(x)).r.v; }),
      kRectangles);
  only.derivative = Derivative::kNone;
  Row complete = matrix_row(
      "qr", "complete",
      [](const Tensors& x) { return linalg::qr(rectangular(x[0]), {.mode = "complete"}).q; },
      of_matrices(square, [](const Matrix& x) { return qr_of(rectangular(x)).q.v; }),
      {{{3, 3}}, {{2, 3}}, {{2, 2, 4}}});
  return {q, r, only, complete};
}

std::vector<Row> eigh_rows() {
  const Samples samples = {{{3, 3}}, {{1, 1}}, {{4, 4}}, {{2, 3, 3}}, {{0, 0}}, {{0, 3, 3}}};
  Row values = matrix_row(
      "eigh", "eigenvalues",
      [](const Tensors& x) { return linalg::eigh(symmetric(x[0])).eigenvalues; },
      of_matrices([](int64_t n, int64_t) { return Shape{n}; },
                  [](const Matrix& x) { return eigh_of(symmetric(x)).w; }),
      samples);
  values.refusals =
      refusals_of("linalg.eigh", [](const Tensor& x) { return linalg::eigh(x).eigenvalues; });
  values.refusals.push_back(
      {"nan",
       [](Device d) {
         return linalg::eigh(full({2, 2}, NAN).to(d)).eigenvalues;
       },
       "linalg.eigh: The algorithm failed to converge because the input matrix contained "
       "non-finite values."});
  Row vectors = matrix_row(
      "eigh", "eigenvectors",
      [](const Tensors& x) { return linalg::eigh(symmetric(x[0]), {.uplo = "U"}).eigenvectors; },
      of_matrices(square, [](const Matrix& x) { return eigh_of(symmetric(x)).v.v; }), samples);
  return {values, vectors};
}

std::vector<Row> svd_rows() {
  const Samples samples = {{{3, 2}}, {{3, 3}}, {{2, 3}}, {{1, 1}}, {{2, 3, 2}}, {{0, 3, 2}}};
  const auto reduced_svd = [](const Tensors& x) {
    return linalg::svd(rectangular(x[0]), {.full_matrices = false});
  };
  Row s = matrix_row("svd", "S", [=](const Tensors& x) { return reduced_svd(x).s; },
                     of_matrices([](int64_t m, int64_t n) { return Shape{std::min(m, n)}; },
                                 [](const Matrix& x) { return svd_of(rectangular(x)).s; }),
                     {{{3, 2}}, {{3, 3}}, {{2, 3}}, {{1, 1}}, {{2, 3, 2}}, {{0, 2}}, {{2, 0}}});
  s.refusals = refusals_of(
      "linalg.svd", [](const Tensor& x) { return linalg::svd(x).s; }, false);
  s.refusals.push_back({"infinite",
                        [](Device d) {
                          return linalg::svd(full({2, 3, 2}, INFINITY).to(d)).s;
                        },
                        "linalg.svd: (Batch element 0): The algorithm failed to converge because "
                        "the input matrix contained non-finite values."});
  Row u = matrix_row(
      "svd", "U", [=](const Tensors& x) { return reduced_svd(x).u; },
      of_matrices(
          [](int64_t m, int64_t n) {
            return Shape{m, std::min(m, n)};
          },
          [](const Matrix& x) { return svd_of(rectangular(x)).u.v; }),
      samples);
  Row vh = matrix_row(
      "svd", "Vh", [=](const Tensors& x) { return reduced_svd(x).vh; },
      of_matrices(
          [](int64_t m, int64_t n) {
            return Shape{std::min(m, n), n};
          },
          [](const Matrix& x) { return svd_of(rectangular(x)).vh.v; }),
      samples);
  Row full_s = matrix_row("svd", "S of full matrices",
                          [](const Tensors& x) { return linalg::svd(rectangular(x[0])).s; },
                          of_matrices([](int64_t m, int64_t n) { return Shape{std::min(m, n)}; },
                                      [](const Matrix& x) { return svd_of(rectangular(x)).s; }),
                          {{{4, 2}}, {{2, 4}}, {{2, 2, 3}}});
  return {s, u, vh, full_s};
}

}  // namespace

std::vector<Row> linalg_rows() {
  std::vector<Row> rows;
  for (const std::vector<Row>& family :
       {systems(), of_square_matrices(), qr_rows(), eigh_rows(), svd_rows(), linalg_norm_rows()}) {
    rows.insert(rows.end(), family.begin(), family.end());
  }
  rows.push_back(cholesky_row(false));
  rows.push_back(cholesky_row(true));
  return rows;
}

}  // namespace taper::v0::test
