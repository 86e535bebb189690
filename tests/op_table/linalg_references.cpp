#include "tests/op_table/linalg_references.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/shape_ops.h"

namespace taper::v0::test {
namespace {

// Rotates columns p and q of x by the angle with cosine c and sine s.
void rotate_columns(Matrix& x, int64_t p, int64_t q, double c, double s) {
  for (int64_t i = 0; i < x.m; ++i) {
    const double a = x(i, p), b = x(i, q);
    x(i, p) = c * a - s * b;
    x(i, q) = s * a + c * b;
  }
}

// Returns the sign that makes the first of the largest components of column j positive.
double sign_of_column(const Matrix& x, int64_t j) {
  double largest = 0;
  for (int64_t i = 0; i < x.m; ++i) largest = std::max(largest, std::abs(x(i, j)));
  for (int64_t i = 0; i < x.m; ++i) {
    if (std::abs(x(i, j)) >= 0.999 * largest) return x(i, j) < 0 ? -1 : 1;
  }
  return 1;
}

// Returns the columns of x in the given order, each times its sign.
Matrix picked(const Matrix& x, const std::vector<int64_t>& order, const std::vector<double>& sign) {
  Matrix y(x.m, int64_t(order.size()));
  for (int64_t j = 0; j < y.n; ++j) {
    for (int64_t i = 0; i < x.m; ++i) y(i, j) = x(i, order[size_t(j)]) * sign[size_t(j)];
  }
  return y;
}

std::vector<int64_t> sorted_order(const std::vector<double>& w, bool descending) {
  std::vector<int64_t> order(w.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return descending ? w[size_t(a)] > w[size_t(b)] : w[size_t(a)] < w[size_t(b)];
  });
  return order;
}

// Subtracts a multiple of row `from` from row `to`, from column `first` on.
void subtract_row(Matrix& x, int64_t to, int64_t from, double factor, int64_t first) {
  for (int64_t j = first; j < x.n; ++j) x(to, j) -= factor * x(from, j);
}

void swap_rows(Matrix& x, int64_t a, int64_t b) {
  for (int64_t j = 0; j < x.n; ++j) std::swap(x(a, j), x(b, j));
}

}  // namespace

Matrix Matrix::transposed() const {
  Matrix y(n, m);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) y(j, i) = (*this)(i, j);
  }
  return y;
}

Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix y(a.m, b.n);
  for (int64_t i = 0; i < a.m; ++i) {
    for (int64_t k = 0; k < a.n; ++k) {
      for (int64_t j = 0; j < b.n; ++j) y(i, j) += a(i, k) * b(k, j);
    }
  }
  return y;
}

Matrix identity(int64_t n) {
  Matrix y(n, n);
  for (int64_t i = 0; i < n; ++i) y(i, i) = 1;
  return y;
}

Matrix matrix_of(const Array& x, int64_t i) {
  Matrix y(x.shape[-2], x.shape[-1]);
  std::copy_n(x.v.begin() + i * y.m * y.n, y.m * y.n, y.v.begin());
  return y;
}

int64_t batch_count(const Array& x) { return Shape(x.shape.begin(), x.shape.end() - 2).numel(); }

Reference of_matrices(std::function<Shape(int64_t, int64_t)> shape,
                      std::function<std::vector<double>(const Matrix&)> f) {
  return [=](const std::vector<Array>& x) {
    Array y{Shape(x[0].shape.begin(), x[0].shape.end() - 2), {}};
    for (const int64_t size : shape(x[0].shape[-2], x[0].shape[-1])) y.shape.push_back(size);
    for (int64_t i = 0; i < batch_count(x[0]); ++i) {
      const std::vector<double> part = f(matrix_of(x[0], i));
      y.v.insert(y.v.end(), part.begin(), part.end());
    }
    return y;
  };
}

Matrix eliminated(Matrix a, Matrix b, double* det) {
  double product = 1;
  for (int64_t k = 0; k < a.n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k; i < a.n; ++i) {
      if (std::abs(a(i, k)) > std::abs(a(pivot, k))) pivot = i;
    }
    if (pivot != k) {
      swap_rows(a, k, pivot);
      swap_rows(b, k, pivot);
      product = -product;
    }
    product *= a(k, k);
    for (int64_t i = 0; i < a.n; ++i) {
      const double factor = i == k || a(k, k) == 0 ? 0 : a(i, k) / a(k, k);
      subtract_row(a, i, k, factor, k);
      subtract_row(b, i, k, factor, 0);
    }
  }
  for (int64_t i = 0; i < b.m; ++i) {
    for (int64_t j = 0; j < b.n; ++j) b(i, j) /= a(i, i);
  }
  if (det) *det = product;
  return b;
}

Matrix cholesky_of(const Matrix& a) {
  Matrix l(a.n, a.n);
  for (int64_t j = 0; j < a.n; ++j) {
    for (int64_t i = j; i < a.n; ++i) {
      double rest = a(i, j);
      for (int64_t k = 0; k < j; ++k) rest -= l(i, k) * l(j, k);
      l(i, j) = i == j ? std::sqrt(rest) : rest / l(j, j);
    }
  }
  return l;
}

QrReference qr_of(const Matrix& a) {
  const int64_t k = std::min(a.m, a.n);
  Matrix q(a.m, k);
  for (int64_t j = 0; j < k; ++j) {
    for (int64_t i = 0; i < a.m; ++i) q(i, j) = a(i, j);
    for (int64_t twice = 0; twice < 2 * j; ++twice) {  // Gram-Schmidt, repeated for its accuracy
      const int64_t p = twice % j;
      double dot = 0;
      for (int64_t i = 0; i < a.m; ++i) dot += q(i, p) * q(i, j);
      for (int64_t i = 0; i < a.m; ++i) q(i, j) -= dot * q(i, p);
    }
    double norm = 0;
    for (int64_t i = 0; i < a.m; ++i) norm += q(i, j) * q(i, j);
    for (int64_t i = 0; i < a.m; ++i) q(i, j) /= std::sqrt(norm);
  }
  Matrix r = q.transposed() * a;
  for (int64_t i = 0; i < r.m; ++i) {
    for (int64_t j = 0; j < std::min(i, r.n); ++j) r(i, j) = 0;
  }
  return {q, r};
}

EighReference eigh_of(Matrix a) {
  Matrix v = identity(a.n);
  for (int sweep = 0; sweep < 40; ++sweep) {
    for (int64_t p = 0; p < a.n; ++p) {
      for (int64_t q = p + 1; q < a.n; ++q) {
        if (a(p, q) == 0) continue;
        const double angle = 0.5 * std::atan2(2 * a(p, q), a(q, q) - a(p, p));
        const double c = std::cos(angle), s = std::sin(angle);
        rotate_columns(a, p, q, c, s);
        a = a.transposed();
        rotate_columns(a, p, q, c, s);
        a = a.transposed();
        rotate_columns(v, p, q, c, s);
      }
    }
  }
  std::vector<double> w, sign;
  for (int64_t i = 0; i < a.n; ++i) w.push_back(a(i, i));
  const std::vector<int64_t> order = sorted_order(w, false);
  for (const int64_t j : order) sign.push_back(sign_of_column(v, j));
  std::sort(w.begin(), w.end());
  return {w, picked(v, order, sign)};
}

// Rotates the columns of a matrix until they are orthogonal (one-sided Jacobi).
SvdReference svd_of(const Matrix& a) {
  const bool is_wide = a.n > a.m;
  Matrix x = is_wide ? a.transposed() : a, v = identity(x.n);
  for (int sweep = 0; sweep < 60; ++sweep) {
    for (int64_t p = 0; p < x.n; ++p) {
      for (int64_t q = p + 1; q < x.n; ++q) {
        double pp = 0, qq = 0, pq = 0;
        for (int64_t i = 0; i < x.m; ++i) {
          pp += x(i, p) * x(i, p);
          qq += x(i, q) * x(i, q);
          pq += x(i, p) * x(i, q);
        }
        const double angle = 0.5 * std::atan2(2 * pq, qq - pp);
        rotate_columns(x, p, q, std::cos(angle), std::sin(angle));
        rotate_columns(v, p, q, std::cos(angle), std::sin(angle));
      }
    }
  }
  std::vector<double> s;
  for (int64_t j = 0; j < x.n; ++j) {
    double square = 0;
    for (int64_t i = 0; i < x.m; ++i) square += x(i, j) * x(i, j);
    s.push_back(std::sqrt(square));
    for (int64_t i = 0; i < x.m; ++i) x(i, j) /= s.back();
  }
  const Matrix &left = is_wide ? v : x, &right = is_wide ? x : v;
  const std::vector<int64_t> order = sorted_order(s, true);
  std::vector<double> sign;
  for (const int64_t j : order) sign.push_back(sign_of_column(left, j));
  std::sort(s.rbegin(), s.rend());
  return {picked(left, order, sign), s, picked(right, order, sign).transposed()};
}

Tensor rectangular(const Tensor& x) {
  const int64_t m = x.size(-2), n = x.size(-1);
  const TensorOptions options{.dtype = x.dtype(), .device = x.device()};
  const Tensor d = diag_embed(arange(4, 4 + std::max(m, n), 1, options));
  return x + narrow(narrow(d, 0, 0, m), 1, 0, n);
}

Matrix rectangular(Matrix x) {
  for (int64_t i = 0; i < std::min(x.m, x.n); ++i) x(i, i) += 4.0 + double(i);
  return x;
}

Samples square_samples() {
  return {{{3, 3}},       {{1, 1}}, {{4, 4}},    {{2, 3, 3}},
          {{2, 1, 2, 2}}, {{0, 0}}, {{0, 3, 3}}, {{2, 0, 0}}};
}

Row matrix_row(const char* name, const char* variant, Function f, Reference reference,
               Samples samples) {
  return {.name = name,
          .variant = variant,
          .f = std::move(f),
          .reference = std::move(reference),
          .samples = std::move(samples),
          .domains = {{-1, 1}},
          .dtypes = {kFloat32, kFloat64},
          .tolerance = {.float64 = 1e-11, .float32 = 2e-5, .gradient = 16}};
}

std::function<Tensor(Device)> call_with_ones(std::function<Tensor(const Tensor&)> f, Shape shape,
                                             DType dtype) {
  return [=](Device d) { return f(ones(shape, {.dtype = dtype, .device = d})); };
}

}  // namespace taper::v0::test
