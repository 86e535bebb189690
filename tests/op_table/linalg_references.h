// Factorizations in double precision by other algorithms than LAPACK's: elimination, Gram-Schmidt
// and Jacobi rotations. Signs follow the convention of taper::linalg. Also the parts that the
// tables of linear algebra share.
#pragma once

#include <functional>
#include <vector>

#include "tests/op_table/op_table.h"

namespace taper::v0::test {

struct Matrix {
  int64_t m = 0, n = 0;
  std::vector<double> v;  // by rows

  Matrix(int64_t rows, int64_t columns) : m(rows), n(columns), v(size_t(rows * columns)) {}
  double& operator()(int64_t i, int64_t j) { return v[size_t(i * n + j)]; }
  double operator()(int64_t i, int64_t j) const { return v[size_t(i * n + j)]; }
  Matrix transposed() const;
};

Matrix operator*(const Matrix& a, const Matrix& b);
Matrix identity(int64_t n);

// Returns matrix i of a batch [..., m, n].
Matrix matrix_of(const Array& x, int64_t i);
int64_t batch_count(const Array& x);
// Applies f to each matrix of the first argument. f returns the elements of its result, which has
// the shape `shape(m, n)` behind the batch dimensions.
Reference of_matrices(std::function<Shape(int64_t m, int64_t n)> shape,
                      std::function<std::vector<double>(const Matrix&)> f);

// Solves a x = b by elimination with pivoting, and returns the determinant in `det`, if given.
Matrix eliminated(Matrix a, Matrix b, double* det = nullptr);
Matrix cholesky_of(const Matrix& a);
struct QrReference {
  Matrix q, r;
};
QrReference qr_of(const Matrix& a);  // the reduced factors
struct EighReference {
  std::vector<double> w;
  Matrix v;
};
EighReference eigh_of(Matrix a);
struct SvdReference {
  Matrix u;
  std::vector<double> s;
  Matrix vh;
};
SvdReference svd_of(const Matrix& a);  // the reduced factors

// Add 4, 5, 6, ... to the diagonals of matrices, so that they have full rank in every layout.
Tensor rectangular(const Tensor& x);
Matrix rectangular(Matrix x);

// Arguments of a row: the shapes of each call.
using Samples = std::vector<std::vector<Shape>>;
// Returns square matrices and batches of them, with empty ones.
Samples square_samples();
// Returns a row for random matrices with elements in [-1, 1], in float32 and float64.
Row matrix_row(const char* name, const char* variant, Function f, Reference reference,
               Samples samples = square_samples());
// Returns a call of f with a tensor of ones, for refusals.
std::function<Tensor(Device)> call_with_ones(std::function<Tensor(const Tensor&)> f, Shape shape,
                                             DType dtype = kFloat32);

// The rows of least squares, pseudoinverses and norms, a part of linalg_rows().
std::vector<Row> linalg_norm_rows();

}  // namespace taper::v0::test
