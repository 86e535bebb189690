// Norms of matrices.
#include <algorithm>
#include <cmath>

#include "autograd/ops/linalg/linalg_checks.h"
#include "autograd/ops/op_helpers.h"

namespace taper::v0::linalg {
namespace {

constexpr const char* kName = "linalg.matrix_norm";

// Returns the norm that the singular values define, without the dimensions of the matrices.
Tensor norm_of_singular_values(const Tensor& a, const MatrixNormOrder& ord) {
  const Tensor s = svd(a, {.full_matrices = false}).s;
  if (ord.is_nuclear()) return sum(s, {-1});
  require(s.size(-1) > 0, kName, ": the order ", ord.number(),
          " is not defined for matrices without elements, got shape ", a.shape());
  return ord.number() > 0 ? amax(s, {-1}) : amin(s, {-1});
}

// Returns the largest or smallest sum of absolute values along a row or a column of [..., m, n].
Tensor norm_of_sums(const Tensor& a, double ord) {
  const Tensor sums = sum(abs(a), {std::isinf(ord) ? -1 : -2});
  require(sums.size(-1) > 0, kName, ": the order ", ord,
          " is not defined for matrices without elements, got shape ", a.shape());
  return ord > 0 ? amax(sums, {-1}) : amin(sums, {-1});
}

// Inserts dimensions of size 1 at the positions of the matrix, which are not negative.
Tensor with_matrix_dims(const Tensor& y, int rows, int columns) {
  return unsqueeze(unsqueeze(y, std::min(rows, columns)), std::max(rows, columns));
}

}  // namespace

void MatrixNormOrder::set_word(std::string_view word) {
  require<ValueError>(word == "fro" || word == "nuc", kName, ": Order ", word,
                      " not supported; expected fro, nuc or a number");
  is_nuclear_ = word == "nuc";
}

void MatrixNormOrder::set_number(double number) {
  const double size = std::abs(number);
  require(size == 1 || size == 2 || std::isinf(size), kName, ": Order ", number,
          " not supported; expected 1, -1, 2, -2, infinity or -infinity");
  is_number_ = true;
  number_ = number;
}

Tensor matrix_norm(const Tensor& a, const MatrixNormOrder& ord, const MatrixNormOptions& options) {
  if (autocasts(a)) return in_float32(matrix_norm, a, ord, options);
  require(a.is_floating_point(), kName, ": Expected a floating point tensor as input. Got ",
          scalar_type_name(a.dtype()));
  require(a.dim() >= 2, kName,
          ": The input tensor A must have at least 2 dimensions, but its shape is ", a.shape());
  require(options.dim.size() == 2, kName, ": dim must be a 2-tuple. Got ", options.dim);
  const int rows = wrap_dim(options.dim[0], a.dim()), columns = wrap_dim(options.dim[1], a.dim());
  require(rows != columns, kName, ": dims must be different. Got (", rows, ", ", columns, ")");
  if (ord.is_frobenius()) return norm(a, 2, {rows, columns}, options.keepdim, options.dtype);
  const Tensor x = options.dtype ? a.to(*options.dtype) : a;
  const bool before = rows < columns;
  // Moves the columns to the end first, and then the rows in front of them.
  const Tensor matrices = movedim(movedim(x, columns, -1), before ? rows : rows - 1, -2);
  const bool by_sums = !ord.is_nuclear() && std::abs(ord.number()) != 2;
  if (!by_sums) check_matrix(kName, matrices);
  const Tensor y =
      by_sums ? norm_of_sums(matrices, ord.number()) : norm_of_singular_values(matrices, ord);
  return options.keepdim ? with_matrix_dims(y, rows, columns) : y;
}

}  // namespace taper::v0::linalg
