// Products of a sparse and a dense matrix.
#pragma once

#include "framework/kernels/common/dispatch.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// The positions of a matrix's elements, row by row. The elements k of row r are crow[r] <= k <
// crow[r + 1], and element k is in column col[k]. All tensors are int64, dense and on one device.
struct SparseRows {
  Tensor crow, row, col;  // [rows + 1], [nnz], [nnz]
};

// Returns y [rows, width], where y[r] is the sum of values[k] * x[col[k]] over the elements k of
// row r, in order. Half types are summed in float.
Tensor sparse_mm(const SparseRows& at, const Tensor& values, const Tensor& x);
// Returns values [nnz] with values[k] = dot(a[row[k]], b[col[k]]) at the matrix's positions. a is
// [rows, width], and b is [columns, width].
Tensor sampled_mm(const SparseRows& at, const Tensor& a, const Tensor& b);

// Operands are dense and have the same floating dtype.
template <class Backend> struct SparseKernels {
  static void mm(const Tensor& y, const SparseRows& at, const Tensor& values, const Tensor& x);
  static void sampled(const Tensor& y, const SparseRows& at, const Tensor& a, const Tensor& b);
};

}  // namespace taper::v0::kernels
