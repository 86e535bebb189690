// Sparse matrices for graph networks: products with dense matrices, differentiable with respect to
// both (https://docs.pytorch.org/docs/stable/sparse.html).
//
//   const SparseTensor adjacency = sparse_coo_tensor(edges, weights, {nodes, nodes});
//   const Tensor y = mm(adjacency, linear(x));
#pragma once

#include <memory>
#include <optional>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

// A sparse matrix: its stored elements, ordered by row and, within a row, in the order in which
// they were given. Duplicates of an element add up. Its tensors are on the matrix's device, and
// values() is on the tape.
class SparseTensor {
 public:
  const Shape& shape() const;
  int64_t size(int64_t dim) const;
  // Returns the number of stored elements.
  int64_t nnz() const { return values_.numel(); }
  DType dtype() const { return values_.dtype(); }
  Device device() const { return values_.device(); }

  Tensor indices() const;               // [2, nnz] int64: rows, columns
  const Tensor& crow_indices() const&;  // [rows + 1] int64: index of each row's first element
  const Tensor& col_indices() const&;   // [nnz] int64
  const Tensor& values() const& { return values_; }

  // Returns a matrix with the same stored positions and other values [nnz], in the order of
  // values().
  SparseTensor with_values(const Tensor& values) const;
  SparseTensor t() const;
  Tensor to_dense() const;
  SparseTensor to(Device device) const;
  SparseTensor to(DType dtype) const { return with_values(values_.to(dtype)); }

 private:
  struct Pattern;
  friend SparseTensor sparse_coo_tensor(const Tensor&, const Tensor&, std::optional<Shape>);
  friend SparseTensor sparse_csr_tensor(const Tensor&, const Tensor&, const Tensor&,
                                        std::optional<Shape>);
  friend Tensor mm(const SparseTensor&, const Tensor&);
  using PatternPtr = std::shared_ptr<const Pattern>;
  SparseTensor(PatternPtr pattern, Tensor values)
      : pattern_(std::move(pattern)), values_(std::move(values)) {}
  static PatternPtr make_pattern(const Tensor& row, const Tensor& col, const Shape& shape);
  static Tensor product(const PatternPtr& at, bool transposed, const Tensor& values,
                        const Tensor& x);
  static Tensor sampled(const PatternPtr& at, bool transposed, const Tensor& a, const Tensor& b);

  PatternPtr pattern_;
  Tensor values_;
};

// Creates a sparse matrix from indices [2, nnz] (rows, then columns; int64 or int32, any order) and
// values [nnz] (floating dtype) on the same device. The default size is the smallest that contains
// all indices. Throws Error for an index out of range. Synchronizes.
SparseTensor sparse_coo_tensor(const Tensor& indices, const Tensor& values,
                               std::optional<Shape> size = std::nullopt);
// Creates a sparse matrix from crow_indices [rows + 1], col_indices [nnz] and values [nnz]. Throws
// Error unless crow_indices rises from 0 to nnz. Synchronizes.
SparseTensor sparse_csr_tensor(const Tensor& crow_indices, const Tensor& col_indices,
                               const Tensor& values, std::optional<Shape> size = std::nullopt);

// Returns the dense product [n, m] of a [n, k] and the dense x [k, m], which have the same dtype.
// Each element is summed in the order of its row, so the result has the same bits for any number of
// threads.
Tensor mm(const SparseTensor& a, const Tensor& x);
// Like mm; x may also be a vector [k], which gives [n].
Tensor matmul(const SparseTensor& a, const Tensor& x);

}  // namespace taper::v0
