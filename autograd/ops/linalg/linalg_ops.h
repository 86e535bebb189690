// Linear algebra (https://pytorch.org/docs/stable/linalg.html). A matrix is the last two dimensions
// of a tensor; the dimensions before them are a batch, whose matrices are independent. Matrices and
// batches may be empty.
//
// All functions take float32 and float64 and throw Error for other dtypes. Under autocast, half
// types are converted to float32. They use LAPACK on the CPU and cuSOLVER on the GPU, which are
// loaded by the first call; Error names the package if one is missing. Results do not depend on the
// number of threads.
//
// Unless a function says otherwise, it is differentiable as often as needed, and on the GPU it
// waits, because it reads whether the computation failed. On the GPU, all functions but some orders
// of matrix_norm throw Error while a graph is captured.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

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

// --- least squares and norms ---

struct PinvOptions {
  std::optional<double> atol = std::nullopt;  // default: 0
  std::optional<double> rtol = std::nullopt;  // default: max(m, n) * epsilon, or 0 if atol > 0
  bool hermitian = false;                     // a is symmetric, and only its lower triangle is read
};
// Returns the pseudoinverses [..., n, m] of matrices [..., m, n]. Singular values of at most
// max(atol, rtol * the largest one) count as 0. The gradient is that for matrices of the same rank.
// Throws LinAlgError for elements that are not finite.
//
//   pinv(a, {.rtol = 1e-3});
Tensor pinv(const Tensor& a, const PinvOptions& options = {});

// The algorithms of lstsq, named after LAPACK's: by QR for matrices of full rank (kGels), or by
// singular values for any rank. kGelsy, kGelsd and kGelss compute the same here and differ in what
// they return.
struct LstsqDriverValues {
  enum class Value : uint8_t { kGelsy, kGels, kGelsd, kGelss };
  static constexpr Value kGelsy = Value::kGelsy, kGels = Value::kGels, kGelsd = Value::kGelsd,
                         kGelss = Value::kGelss;
  static constexpr const char* kOption = "driver";
  static constexpr const char* kWords[] = {"gelsy", "gels", "gelsd", "gelss"};
};
using LstsqDriver = TextEnum<LstsqDriverValues>;

struct LstsqOptions {
  std::optional<double> rcond = std::nullopt;  // default: max(m, n) * epsilon
  LstsqDriver driver = LstsqDriver::kGelsy;
};
struct Lstsq {
  Tensor solution;         // [..., n, k]
  Tensor residuals;        // [..., k], squared; [0] for gelsy, unless m > n and for lower ranks
  Tensor rank;             // [...], int64; [0] for gels
  Tensor singular_values;  // [..., min(m, n)] for gelsd and gelss, otherwise [0]
};
// Returns the X [..., n, k] of least norm that minimizes the norm of A X - B for a [..., m, n] and
// b [..., m, k]. b may also be a vector [m] or vectors [..., m], as in solve. The batches
// broadcast. Singular values of at most rcond times the largest one count as 0; kGels does not look
// at them, and gives infinities or NaN for matrices of lower rank. The solution and the residuals
// are differentiable, for matrices of the same rank. Throws LinAlgError for elements that are not
// finite, except by kGels.
//
//   const Tensor x = lstsq(a, b).solution;
//   lstsq(a, b, {.driver = "gels"});  // faster
Lstsq lstsq(const Tensor& a, const Tensor& b, const LstsqOptions& options = {});

// The order of a matrix norm: "fro", "nuc", or one of the numbers 1, -1, 2, -2, infinity and
// -infinity.
class MatrixNormOrder {
 public:
  // Throw ValueError for another word, and Error for another number.
  template <std::convertible_to<std::string_view> T>
  requires(!std::same_as<T, std::nullptr_t>) MatrixNormOrder(const T& word) { set_word(word); }
  template <class T>
  requires(std::integral<T> || std::floating_point<T>) MatrixNormOrder(T number) {
    set_number(RealArg(number));
  }
  bool is_frobenius() const { return !is_number_ && !is_nuclear_; }
  bool is_nuclear() const { return is_nuclear_; }
  double number() const { return number_; }

 private:
  void set_word(std::string_view word);
  void set_number(double number);

  bool is_number_ = false, is_nuclear_ = false;
  double number_ = 0;
};

struct MatrixNormOptions {
  Shape dim = {-2, -1};  // rows and columns
  bool keepdim = false;
  std::optional<DType> dtype = std::nullopt;  // of the computation and the result
};
// Returns norms of matrices: the root of the sum of squares ("fro"), the sum of the singular values
// ("nuc"), the largest or smallest one (2, -2), and the largest or smallest sum of absolute values
// of a column (1, -1) or a row (infinity, -infinity). "fro", 1 and infinity also take half types
// and do not synchronize.
//
//   matrix_norm(a);
//   matrix_norm(a, "nuc", {.dim = {0, 1}, .keepdim = true});
Tensor matrix_norm(const Tensor& a, const MatrixNormOrder& ord = "fro",
                   const MatrixNormOptions& options = {});

}  // namespace linalg
}  // namespace taper::v0
