// Sparse matrices, as far as networks on graphs need them: times dense ones, differentiated by both
// (https://docs.pytorch.org/docs/stable/sparse.html).
//
//   const SparseTensor adjacency = sparse_coo_tensor(edges, weights, {nodes, nodes});
//   const Tensor y = mm(adjacency, linear(x));
#pragma once

#include <optional>

#include "framework/memory/pointers.h"
#include "framework/tensor.h"

namespace taper::v0 {

// A matrix by its elements that are not zero, row by row; of one row in the order in which they
// were given. Those of one place add up. What is read from it lies on its device; values are on the
// tape.
class SparseTensor {
 public:
  const Shape& shape() const;
  int64_t size(int64_t dim) const;
  // The number of elements that are kept.
  int64_t nnz() const { return values_.numel(); }
  DType dtype() const { return values_.dtype(); }
  Device device() const { return values_.device(); }

  Tensor indices() const;               // [2, nnz] int64: rows, columns
  const Tensor& crow_indices() const&;  // [rows + 1] int64: where each row begins
  const Tensor& col_indices() const&;   // [nnz] int64
  const Tensor& values() const& { return values_; }

  // The same places with other values [nnz], in the order of values().
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
  using PatternPtr = Shared<const Pattern>;
  SparseTensor(PatternPtr pattern, Tensor values)
      : pattern_(std::move(pattern)), values_(std::move(values)) {}
  static PatternPtr make_pattern(const Tensor& row, const Tensor& col, const Shape& shape);
  static Tensor product(const PatternPtr& at, bool transposed, const Tensor& values,
                        const Tensor& x);
  static Tensor sampled(const PatternPtr& at, bool transposed, const Tensor& a, const Tensor& b);

  PatternPtr pattern_;
  Tensor values_;
};

// indices [2, nnz] (int64 or int32: rows, columns, in any order), values [nnz] of a floating dtype
// on their device. Without a size: what holds them all. Waits for the GPU. Throws Error for an
// index that is out of range.
SparseTensor sparse_coo_tensor(const Tensor& indices, const Tensor& values,
                               std::optional<Shape> size = std::nullopt);
// crow_indices [rows + 1], col_indices [nnz], values [nnz]. Throws Error where crow_indices do not
// rise from 0 to nnz.
SparseTensor sparse_csr_tensor(const Tensor& crow_indices, const Tensor& col_indices,
                               const Tensor& values, std::optional<Shape> size = std::nullopt);

// a [n, k] times x [k, m], dense: [n, m], of one dtype. Each element is summed in the order of its
// row: the same bits with any number of threads.
Tensor mm(const SparseTensor& a, const Tensor& x);
// The same; x [k] gives [n].
Tensor matmul(const SparseTensor& a, const Tensor& x);

}  // namespace taper::v0
