// Linear algebra (https://pytorch.org/docs/stable/linalg.html). A matrix is the last two dimensions
// of a tensor; the dimensions before them are a batch, whose matrices are independent. Matrices and
// batches may be empty.
//
// All functions take float32 and float64 and throw Error for other dtypes. Under autocast, half
// types are converted to float32. They use LAPACK on the CPU and cuSOLVER on the GPU, which are
// loaded by the first call; Error names the package if one is missing. Results do not depend on the
// number of threads.
//
// Unless a function says otherwise, it is differentiable as often as needed. On the GPU it waits,
// because it reads whether the computation failed, and throws Error while a graph is captured.
#pragma once

#include <optional>

#include "framework/base/arguments.h"
#include "framework/base/text_enum.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {
namespace linalg {

// Thrown if a matrix does not have the property that a function needs: a singular matrix in solve,
// one that is not positive-definite in cholesky, NaN in svd. For a batch, the message names the
// first such matrix.
struct LinAlgError : Error {
  using Error::Error;
};

// --- systems of equations ---

struct SolveOptions {
  bool left = true;  // solve A X = B, otherwise X A = B
};
// Returns X with A X = B for square matrices a [..., n, n] and b [..., n, k]. b may also be a
// vector [n], or vectors [..., n] if a's shape is [..., n, n] with the same batch; the result then
// has b's shape. The batches broadcast. Throws LinAlgError if a matrix is singular.
//
//   solve(a, b);                   // more accurate and faster than matmul(inv(a), b)
//   solve(a, b, {.left = false});  // X A = B
Tensor solve(const Tensor& a, const Tensor& b, const SolveOptions& options = {});

struct SolveTriangularOptions {
  bool upper = false;          // which triangle of a is read
  bool left = true;            // solve A X = B, otherwise X A = B
  bool unitriangular = false;  // take the diagonal as ones, without reading it
};
// Returns X with A X = B for triangular matrices a [..., n, n] and b [..., n, k]. The batches
// broadcast. A zero on the diagonal gives infinities or NaN. Does not synchronize.
//
//   solve_triangular(cholesky(a), b);                      // L X = B
//   solve_triangular(u, b, {.upper = true, .left = false});
Tensor solve_triangular(const Tensor& a, const Tensor& b,
                        const SolveTriangularOptions& options = {});

// Returns the inverses of square matrices [..., n, n]. Throws LinAlgError if a matrix is singular.
Tensor inv(const Tensor& a);

// Returns the determinants [...] of square matrices [..., n, n]. The gradient is also right for
// singular matrices; its derivative needs different singular values there. Does not synchronize,
// except in a recorded backward pass.
Tensor det(const Tensor& a);

struct SignLogDet {
  Tensor sign, logabsdet;
};
// Returns the signs and the logarithms of the absolute values of determinants, which do not
// overflow. A singular matrix gives 0 and -infinity, and an infinite gradient. The sign has no
// gradient. Does not synchronize.
SignLogDet slogdet(const Tensor& a);

// --- factorizations ---

struct CholeskyOptions {
  bool upper = false;  // return the transpose of L
};
// Returns the lower triangular L with A = L L^T for symmetric positive-definite matrices
// [..., n, n]. Reads only the lower triangle of a. The gradient is symmetric: a derivative by an
// element below the diagonal is divided between it and its mirror image. Throws LinAlgError with
// the order of the first leading minor that is not positive.
Tensor cholesky(const Tensor& a, const CholeskyOptions& options = {});

// The sizes of Q and R for a matrix [m, n] with k = min(m, n): [m, k] and [k, n] (kReduced), [m, m]
// and [m, n] (kComplete), or [0] and [k, n], without computing Q (kR).
struct QrModeValues {
  enum class Value : uint8_t { kReduced, kComplete, kR };
  static constexpr Value kReduced = Value::kReduced, kComplete = Value::kComplete, kR = Value::kR;
  static constexpr const char* kOption = "mode";
  static constexpr const char* kWords[] = {"reduced", "complete", "r"};
};
using QrMode = TextEnum<QrModeValues>;

struct QrOptions {
  QrMode mode = QrMode::kReduced;
};
struct Qr {
  Tensor q, r;
};
// Returns the factors of A = Q R for matrices [..., m, n]: Q has orthonormal columns, and R is
// upper triangular with a non-negative diagonal. (PyTorch leaves the signs to LAPACK.) The first
// min(m, n) columns of A must be linearly independent for the gradient to be finite. The mode "r",
// and "complete" for m > n, have no gradient: the backward pass throws NotImplementedError. Does
// not synchronize.
//
//   const auto [q, r] = linalg::qr(a);
//   linalg::qr(a, {.mode = "complete"});
Qr qr(const Tensor& a, const QrOptions& options = {});

// Which triangle of a symmetric matrix is read: the lower or the upper one.
struct UploValues {
  enum class Value : uint8_t { kL, kU };
  static constexpr Value kL = Value::kL, kU = Value::kU;
  static constexpr const char* kOption = "uplo";
  static constexpr const char* kWords[] = {"L", "U"};
};
using Uplo = TextEnum<UploValues>;

struct EighOptions {
  Uplo uplo = Uplo::kL;
};
struct Eigh {
  Tensor eigenvalues, eigenvectors;
};
// Returns the eigenvalues [..., n] of symmetric matrices [..., n, n] in ascending order, and their
// eigenvectors as the columns of [..., n, n]. Reads one triangle of a. In each eigenvector, the
// component of largest magnitude is positive, or the first of several; magnitudes that differ by
// less than a thousandth count as equal. (PyTorch leaves the sign to LAPACK.)
//
// The gradient is symmetric, as that of cholesky. The gradient of eigenvectors contains the inverse
// differences of the eigenvalues: equal ones give infinities or NaN, and a loss must not depend on
// the signs. Throws LinAlgError if the algorithm does not converge or an element is not finite.
//
//   const auto [w, v] = linalg::eigh(a);   // A = V diag(w) V^T
Eigh eigh(const Tensor& a, const EighOptions& options = {});

struct SvdOptions {
  bool full_matrices = true;  // U and Vh are square, otherwise [..., m, k] and [..., k, n]
};
struct Svd {
  Tensor u, s, vh;
};
// Returns the factors of A = U diag(S) Vh for matrices [..., m, n] with k = min(m, n): orthonormal
// U and Vh, and the singular values S [..., k] in descending order. In each column of U, the
// component of largest magnitude is positive, with the rule of eigh for several; the rows of Vh
// follow. The further rows of a square Vh have the rule of their own.
//
// The gradients of U and Vh contain the inverse differences of the squared singular values, and the
// inverse singular values unless A is square: equal ones and zeros give infinities or NaN. They are
// only defined for full_matrices = false; the backward pass throws NotImplementedError otherwise.
// Throws LinAlgError if the algorithm does not converge or an element is not finite.
//
//   const auto [u, s, vh] = linalg::svd(a, {.full_matrices = false});
Svd svd(const Tensor& a, const SvdOptions& options = {});

}  // namespace linalg
}  // namespace taper::v0
