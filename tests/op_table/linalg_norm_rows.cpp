// Rows of least squares, pseudoinverses and norms of matrices.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/linalg/linalg_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/shape_ops.h"
#include "tests/op_table/linalg_references.h"
#include "tests/op_table/op_table.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

// Most of these functions are compositions of factorizations, so float32 has a larger error.
Row row(const char* name, const char* variant, Function f, Reference reference, Samples samples) {
  Row out = matrix_row(name, variant, std::move(f), std::move(reference), std::move(samples));
  out.tolerance.float32 = 4e-5;
  return out;
}

// Returns the pseudoinverse of a matrix of rank `rank`.
Matrix pinv_of(const Matrix& a, size_t rank) {
  const SvdReference f = svd_of(a);
  Matrix v = f.vh.transposed();
  for (int64_t i = 0; i < v.m; ++i) {
    for (int64_t j = 0; j < v.n; ++j) {
      const bool is_kept = size_t(j) < rank;
      v(i, j) *= is_kept ? 1 / f.s[size_t(j)] : 0;
    }
  }
  return v * f.u.transposed();
}

size_t full_rank(const Matrix& a) { return size_t(std::min(a.m, a.n)); }

std::vector<Row> pinv_rows() {
  const auto turned = [](int64_t m, int64_t n) { return Shape{n, m}; };
  Row any = row(
      "pinv", "", [](const Tensors& x) { return linalg::pinv(rectangular(x[0])); },
      of_matrices(turned, [](const Matrix& x) { return pinv_of(rectangular(x), full_rank(x)).v; }),
      {{{3, 2}}, {{2, 3}}, {{3, 3}}, {{1, 1}}, {{2, 4, 2}}, {{0, 2}}, {{2, 0}}, {{0, 3, 2}}});
  const auto f = [](const Tensor& x) { return linalg::pinv(x); };
  any.refusals = {
      {"rank", call_with_ones(f, {3}),
       "linalg.pinv: The input tensor A must have at least 2 dimensions"},
      {"half", call_with_ones(f, {2, 2}, kFloat16),
       "linalg.pinv: Low precision dtypes not supported"},
      {"nan",
       [](Device d) {
         return linalg::pinv(full({2, 2}, NAN).to(d));
       },
       "linalg.pinv: The algorithm failed to converge because the input matrix contained "
       "non-finite values."},
      {"rectangle",
       call_with_ones([](const Tensor& x) { return linalg::pinv(x, {.hermitian = true}); }, {3, 2}),
       "linalg.pinv: A must be batches of square matrices, but they are 3 by 2 matrices"}};
  Row lower = row(
      "pinv", "lower rank",
      [](const Tensors& x) {
        return linalg::pinv(matmul(rectangular(x[0]), rectangular(x[1])), {.rtol = 1e-3});
      },
      [](const std::vector<Array>& x) {
        const Matrix a = rectangular(matrix_of(x[0], 0)) * rectangular(matrix_of(x[1], 0));
        return Array{{a.n, a.m}, pinv_of(a, 2).v};
      },
      {{{3, 2}, {2, 3}}, {{4, 2}, {2, 3}}, {{3, 2}, {2, 5}}});
  Row symmetric = row("pinv", "hermitian",
                      [](const Tensors& x) {
                        const Tensor a = rectangular(x[0] + transpose(x[0], -2, -1));
                        return linalg::pinv(a, {.hermitian = true});
                      },
                      of_matrices(turned,
                                  [](const Matrix& x) {
                                    Matrix a = x.transposed();
                                    for (size_t i = 0; i < a.v.size(); ++i) a.v[i] += x.v[i];
                                    return pinv_of(rectangular(a), full_rank(a)).v;
                                  }),
                      {{{3, 3}}, {{1, 1}}, {{2, 3, 3}}, {{0, 0}}});
  return {any, lower, symmetric};
}

// Returns the solution of least norm of a [m, n] and b [m, k] or [m].
Reference least_squares(
    std::function<std::vector<double>(const Matrix& a, const Matrix& x, const Matrix& b)> part) {
  return [=](const std::vector<Array>& x) {
    const bool is_vector = x[1].shape.size() == 1;
    Array b = x[1];
    if (is_vector) b.shape = {b.shape[0], 1};
    Array y{Shape(b.shape.begin(), b.shape.end() - 2), {}};
    int64_t parts = 0;
    for (int64_t i = 0; i < batch_count(b); ++i) {
      const Matrix a = rectangular(matrix_of(x[0], batch_count(x[0]) == 1 ? 0 : i));
      const Matrix c = matrix_of(b, i);
      const std::vector<double> values = part(a, pinv_of(a, full_rank(a)) * c, c);
      parts = int64_t(values.size());
      y.v.insert(y.v.end(), values.begin(), values.end());
    }
    if (is_vector) return Array{{parts}, y.v};
    const int64_t k = b.shape[-1];
    if (parts != k || x[0].shape[-1] == 1) y.shape.push_back(parts / k);
    y.shape.push_back(k);
    return y;
  };
}

std::vector<Row> lstsq_rows() {
  const Samples samples = {{{3, 2}, {3, 2}}, {{2, 3}, {2, 2}},       {{3, 3}, {3}},
                           {{4, 2}, {4}},    {{2, 3, 2}, {2, 3, 2}}, {{3, 2}, {2, 3, 3}}};
  const Reference solution =
      least_squares([](const Matrix&, const Matrix& x, const Matrix&) { return x.v; });
  Row any = row(
      "lstsq", "", [](const Tensors& x) { return linalg::lstsq(rectangular(x[0]), x[1]).solution; },
      solution, samples);
  any.refusals = {
      {"rank", call_with_ones([](const Tensor& x) { return linalg::lstsq(x, x).solution; }, {3}),
       "linalg.lstsq: The input tensor A must have at least 2 dimensions"},
      {"rows",
       [](Device d) {
         return linalg::lstsq(ones({3, 2}, {.device = d}), ones({2, 2}, {.device = d})).solution;
       },
       "linalg.lstsq: A and B must have the same number of rows, but got the shapes [3, 2] and "
       "[2, 2]"},
      {"dtypes",
       [](Device d) {
         return linalg::lstsq(ones({3, 2}, {.device = d}),
                              ones({3, 2}, {.dtype = kFloat64, .device = d}))
             .solution;
       },
       "linalg.lstsq: Expected A and B to have the same dtype, but found A of type Float and B of "
       "type Double instead"}};
  Row gels = row(
      "lstsq", "gels",
      [](const Tensors& x) {
        return linalg::lstsq(rectangular(x[0]), x[1], {.driver = "gels"}).solution;
      },
      solution, samples);
  Row residuals =
      row("lstsq", "residuals",
          [](const Tensors& x) {
            return linalg::lstsq(rectangular(x[0]), x[1], {.driver = "gelsd"}).residuals;
          },
          least_squares([](const Matrix& a, const Matrix& x, const Matrix& b) {
            const Matrix y = a * x;
            std::vector<double> squares(size_t(b.n));
            for (int64_t i = 0; i < b.m; ++i) {
              for (int64_t j = 0; j < b.n; ++j) {
                squares[size_t(j)] += (y(i, j) - b(i, j)) * (y(i, j) - b(i, j));
              }
            }
            return squares;
          }),
          {{{3, 2}, {3, 2}}, {{4, 2}, {4, 3}}, {{2, 3, 2}, {2, 3, 3}}});
  return {any, gels, residuals};
}

using OfMatrix = std::function<double(const Matrix&)>;

// Returns the largest or smallest sum of absolute values in a column.
OfMatrix of_columns(bool largest) {
  return [=](const Matrix& x) {
    std::vector<double> sums(size_t(x.n));
    for (int64_t i = 0; i < x.m; ++i) {
      for (int64_t j = 0; j < x.n; ++j) sums[size_t(j)] += std::abs(x(i, j));
    }
    return largest ? *std::max_element(sums.begin(), sums.end())
                   : *std::min_element(sums.begin(), sums.end());
  };
}
OfMatrix of_rows(bool largest) {
  return [=](const Matrix& x) { return of_columns(largest)(x.transposed()); };
}

std::vector<Row> matrix_norm_rows() {
  const double inf = INFINITY;
  const struct {
    const char* variant;
    linalg::MatrixNormOrder ord;
    OfMatrix value;
  } kNorms[] = {{"", "fro",
                 [](const Matrix& x) {
                   return std::sqrt(std::inner_product(x.v.begin(), x.v.end(), x.v.begin(), 0.0));
                 }},
                {"nuclear", "nuc",
                 [](const Matrix& x) {
                   const std::vector<double> s = svd_of(x).s;
                   return std::accumulate(s.begin(), s.end(), 0.0);
                 }},
                {"2", 2, [](const Matrix& x) { return svd_of(x).s.front(); }},
                {"-2", -2, [](const Matrix& x) { return svd_of(x).s.back(); }},
                {"1", 1, of_columns(true)},
                {"-1", -1, of_columns(false)},
                {"infinity", inf, of_rows(true)},
                {"-infinity", -inf, of_rows(false)}};
  std::vector<Row> rows;
  for (const auto& norm : kNorms) {
    const auto value = [v = norm.value](const Matrix& x) { return std::vector{v(rectangular(x))}; };
    Row r = row(
        "matrix_norm", norm.variant,
        [ord = norm.ord](const Tensors& x) { return linalg::matrix_norm(rectangular(x[0]), ord); },
        of_matrices([](int64_t, int64_t) { return Shape{}; }, value),
        {{{3, 2}}, {{2, 3}}, {{3, 3}}, {{1, 1}}, {{2, 3, 2}}, {{0, 3, 2}}});
    if (std::string(norm.variant).empty()) r.dtypes = floating();
    rows.push_back(r);
  }
  rows[0].tolerance.float16 = 4e-3;
  rows[0].tolerance.bfloat16 = 3e-2;
  Row moved = row(
      "matrix_norm", "2, of dimensions 2 and 0, keepdim",
      [](const Tensors& x) {
        return linalg::matrix_norm(x[0], 2, {.dim = {2, 0}, .keepdim = true});
      },
      [](const std::vector<Array>& x) {
        Array y{{1, x[0].shape[1], 1}, {}};
        for (int64_t j = 0; j < x[0].shape[1]; ++j) {
          Matrix a(x[0].shape[2], x[0].shape[0]);
          for (int64_t i = 0; i < a.m; ++i) {
            for (int64_t k = 0; k < a.n; ++k) {
              a(i, k) = x[0].v[size_t(flat_index(x[0].shape, {k, j, i}))];
            }
          }
          y.v.push_back(svd_of(a).s.front());
        }
        return y;
      },
      {{{3, 2, 4}}, {{2, 3, 2}}});
  rows.push_back(moved);
  rows[0].refusals = {
      {"rank", call_with_ones([](const Tensor& x) { return linalg::matrix_norm(x); }, {3}),
       "linalg.matrix_norm: The input tensor A must have at least 2 dimensions"},
      {"integers",
       call_with_ones([](const Tensor& x) { return linalg::matrix_norm(x); }, {2, 2}, kInt64),
       "linalg.matrix_norm: Expected a floating point tensor as input. Got Long"},
      {"half",
       call_with_ones([](const Tensor& x) { return linalg::matrix_norm(x, "nuc"); }, {2, 2},
                      kFloat16),
       "linalg.matrix_norm: Low precision dtypes not supported. Got Half"},
      {"number", call_with_ones([](const Tensor& x) { return linalg::matrix_norm(x, 3); }, {2, 2}),
       "linalg.matrix_norm: Order 3 not supported; expected 1, -1, 2, -2, infinity or -infinity"},
      {"word",
       call_with_ones([](const Tensor& x) { return linalg::matrix_norm(x, "max"); }, {2, 2}),
       "linalg.matrix_norm: Order max not supported; expected fro, nuc or a number"},
      {"one dimension",
       call_with_ones([](const Tensor& x) { return linalg::matrix_norm(x, "fro", {.dim = {0}}); },
                      {2, 2}),
       "linalg.matrix_norm: dim must be a 2-tuple. Got [0]"},
      {"equal dimensions",
       call_with_ones(
           [](const Tensor& x) {
             return linalg::matrix_norm(x, 1, {.dim = {0, -2}});
           },
           {2, 2}),
       "linalg.matrix_norm: dims must be different. Got (0, 0)"},
      {"no elements",
       call_with_ones([](const Tensor& x) { return linalg::matrix_norm(x, 2); }, {2, 0}),
       "linalg.matrix_norm: the order 2 is not defined for matrices without elements"}};
  return rows;
}

}  // namespace

std::vector<Row> linalg_norm_rows() {
  std::vector<Row> rows;
  for (const std::vector<Row>& family : {pinv_rows(), lstsq_rows(), matrix_norm_rows()}) {
    rows.insert(rows.end(), family.begin(), family.end());
  }
  return rows;
}

}  // namespace taper::v0::test
