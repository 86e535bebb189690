// Factorizations of batches of matrices: LAPACK on the CPU, cuSOLVER and cuBLAS on the GPU.
//
// A batch is a dense tensor [batch, rows, columns], float32 or float64. Functions that work in
// place take such tensors, none of them empty. A failure is reported in `info`, an int32 tensor
// [batch] on the device: 0 for success, otherwise what LAPACK reports. On the GPU, the functions do
// not wait for the results, except where cuSOLVER does. They throw Error while the stream is
// captured.
#pragma once

#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// Returns why the CPU has no factorizations, in one sentence; empty if it has them.
const char* missing_lapack();

// The factors P L U of the transposes of matrices, as LAPACK stores them, and the interchanged rows
// (int32 [batch, n], counted from 1). info is the number of the first zero on the diagonal of U.
struct LuFactors {
  Tensor lu, pivots, info = {};
};
LuFactors lu_factor(const Tensor& a);
// Returns x [batch, k, n] with A x^T = b^T for the factors of A and b [batch, k, n]. If
// `transposed`, solves A^T x^T = b^T. Zeros on the diagonal of U give infinities or NaN.
Tensor lu_solve(const LuFactors& factors, const Tensor& b, bool transposed);

// A result, and the info of its computation.
struct Factor {
  Tensor factor, info;
};
// Returns the lower triangle L of the factorization A = L L^T. The elements above it are not set.
// Reads the lower triangle of a. info is the order of the first leading minor that is not positive.
Factor cholesky(const Tensor& a);

struct TriangularForm {
  bool upper = false, transposed = false, unitriangular = false;
};
// Returns x [batch, k, n] with A x^T = b^T for a triangular A [batch, n, n], or with A^T if
// `transposed`. `upper` names the triangle of A that is read.
Tensor solve_triangular(const Tensor& a, const Tensor& b, const TriangularForm& form);

// Returns the factors of A = Q R for the transpose of A, at [batch, n, m]: the transpose of Q, at
// [batch, columns, m], where `columns` is at least min(m, n) and at most m, and the transpose of R,
// at [batch, n, m], whose elements that are zero in R are not set.
struct QrFactors {
  Tensor qt, rt;
};
QrFactors qr(const Tensor& at, int64_t columns);

// The eigenvalues [batch, n] in ascending order, and the eigenvectors as rows. Reads the lower
// triangle of a, or the upper one.
struct EigenPairs {
  Tensor values, vectors_t, info;
};
EigenPairs eigh(const Tensor& a, bool upper);

// The factors of A = U S Vh for A [batch, m, n] with m <= n: U [batch, m, m], S [batch, m] in
// descending order, Vh [batch, m, n], or [batch, n, n] if `full`.
struct SvdFactors {
  Tensor u, s, vh, info;
};
SvdFactors svd(const Tensor& a, bool full);

// The same functions without checks and allocations. Arguments that are not const in LAPACK are
// overwritten.
namespace cpu {
void lu_factor(const Tensor& lu, const Tensor& pivots, const Tensor& info);
void lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& x, bool transposed);
void cholesky(const Tensor& a, const Tensor& info);
void solve_triangular(const Tensor& a, const Tensor& x, const TriangularForm& form);
void qr(const Tensor& rt, const Tensor& qt);
void eigh(const Tensor& a, const Tensor& values, const Tensor& info, bool upper);
void svd(const Tensor& a, const SvdFactors& out);
}  // namespace cpu
namespace cuda {
void lu_factor(const Tensor& lu, const Tensor& pivots, const Tensor& info);
void lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& x, bool transposed);
void cholesky(const Tensor& a, const Tensor& info);
void solve_triangular(const Tensor& a, const Tensor& x, const TriangularForm& form);
void qr(const Tensor& rt, const Tensor& qt);
void eigh(const Tensor& a, const Tensor& values, const Tensor& info, bool upper);
void svd(const Tensor& a, const SvdFactors& out);
}  // namespace cuda

}  // namespace taper::v0::kernels
