// A matrix with few elements that are not zero, times a dense one.
#pragma once

#include "framework/kernels/common/dispatch.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// Where the elements of a matrix are, row by row: element k of row r, crow[r] <= k < crow[r + 1],
// stands in column col[k]. int64, dense, on one device.
struct SparseRows {
  Tensor crow, row, col;  // [rows + 1], [nnz], [nnz]
};

// y [rows, width]: y[r] is the sum of values[k] * x[col[k]] over the elements of row r, in order.
// Half types are summed in float.
Tensor sparse_mm(const SparseRows& at, const Tensor& values, const Tensor& x);
// [nnz]: of the product of a and b transposed, [rows, width] times [width, columns], only the
// elements where the matrix has some: a[row[k]] . b[col[k]].
Tensor sampled_mm(const SparseRows& at, const Tensor& a, const Tensor& b);

// Operands are dense, and of one floating dtype.
template <class Backend> struct SparseKernels {
  static void mm(const Tensor& y, const SparseRows& at, const Tensor& values, const Tensor& x);
  static void sampled(const Tensor& y, const SparseRows& at, const Tensor& a, const Tensor& b);
};

}  // namespace taper::v0::kernels
