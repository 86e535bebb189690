// Indexing as with Python's brackets (https://pytorch.org/cppdocs/notes/tensor_indexing.html):
//
//   x[1:-1, mask]             index(x, {Slice(1, -1), mask})
//   x[..., None, ::2, 0]      index(x, {Ellipsis, None, Slice(None, None, 2), 0})
//   x[rows, columns] = 1      index_put_(x, {rows, columns}, 1)
//
// Numbers, slices, None and Ellipsis alone give a view; with a tensor among the indices the result
// is a copy. Integer tensors broadcast together, and negative values count from the end. Their
// dimensions replace the first indexed dimension if the tensors are adjacent, and come first
// otherwise. An index out of range throws IndexError: on the CPU at once, on the GPU at the next
// synchronizing call.
//
// A mask (bool or uint8) indexes as many dimensions as it has and selects the elements where it is
// true. It synchronizes, because the host needs the number of selected elements. A 0-dim integer
// tensor counts as a number and synchronizes too. masked_fill and where do not.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <vector>

#include "framework/base/scalar.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

inline constexpr std::nullopt_t None = std::nullopt;
struct EllipsisIndexType {};
inline constexpr EllipsisIndexType Ellipsis;

// Selects start:stop:step. step must be positive.
struct Slice {
  Slice(std::optional<IntArg> from = None, std::optional<IntArg> to = None,
        std::optional<IntArg> by = None)
      : start(from), stop(to), step(by.value_or(1)) {}
  std::optional<int64_t> start, stop;
  int64_t step;
};

// One index of x.index({...}): None, "..." or Ellipsis, a number, a Slice, or a tensor.
struct TensorIndex {
  enum class IndexKind : uint8_t { kNone, kEllipsis, kNumber, kBoolean, kSlice, kTensor };

  TensorIndex(std::nullopt_t) : kind(IndexKind::kNone) {}
  TensorIndex(EllipsisIndexType) : kind(IndexKind::kEllipsis) {}
  // "..."
  TensorIndex(const char* ellipsis);
  template <std::integral T>
  TensorIndex(T x)
      : kind(std::same_as<T, bool> ? IndexKind::kBoolean : IndexKind::kNumber),
        number(int64_t(x)) {}
  TensorIndex(const Slice& x) : kind(IndexKind::kSlice), slice(x) {}
  TensorIndex(const Tensor& x) : kind(IndexKind::kTensor), tensor(x) {}

  IndexKind kind;
  int64_t number = 0;  // for IndexKind::kBoolean, 0 or 1: a mask without dimensions
  Slice slice = {};
  Tensor tensor = {};
};

// The names that LibTorch uses.
namespace indexing {
using taper::Ellipsis;
using taper::None;
using taper::Slice;
using taper::TensorIndex;
}  // namespace indexing

// Returns x[index]. If a single 0-dim integer tensor is the only index, it does not synchronize.
Tensor index(const Tensor& x, const Tensor& index);
Tensor index(const Tensor& x, const std::vector<TensorIndex>& indices);
Tensor index(const Tensor& x, std::initializer_list<TensorIndex> indices);
// Assigns x[indices] = value, or adds with accumulate, and returns x. value has x's dtype and
// broadcasts to x[indices]. If an element is selected several times, the last value is stored and
// receives the whole gradient. With accumulate all values are added, in their order.
Tensor index_put_(const Tensor& x, const std::vector<TensorIndex>& indices, const Tensor& value,
                  BoolArg accumulate = false);
Tensor index_put_(const Tensor& x, const std::vector<TensorIndex>& indices, Scalar value);
// Like index_put_, but returns a changed copy of x.
Tensor index_put(const Tensor& x, const std::vector<TensorIndex>& indices, const Tensor& value,
                 BoolArg accumulate = false);

// Returns the elements of x where mask is true, as [n]. x and mask broadcast. Synchronizes.
Tensor masked_select(const Tensor& x, const Tensor& mask);
// Returns a copy of x in which the elements where mask is true are replaced by the elements of
// source, in order. Synchronizes.
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);
// Returns the indices of the nonzero elements, int64 [n, x.dim()], in row-major order. Not
// differentiable. Synchronizes.
Tensor nonzero(const Tensor& x);

}  // namespace taper::v0
