// Indexing as it is written in brackets (https://pytorch.org/cppdocs/notes/tensor_indexing.html):
//
//   x[1:-1, mask]             index(x, {Slice(1, -1), mask})
//   x[..., None, ::2, 0]      index(x, {Ellipsis, None, Slice(None, None, 2), 0})
//   x[rows, columns] = 1      index_put_(x, {rows, columns}, 1)
//
// Numbers, slices, None and Ellipsis alone give a view. Tensors of integers (negative ones count
// from the end) broadcast together, and give a copy; their dimensions stand where the first of
// theirs stood when they are neighbours, else in front. An index out of range throws IndexError: on
// the CPU at once, on the GPU at the next synchronising call. A mask (bool or uint8) stands for as
// many dimensions as it has and picks where it is true: how many is read from the device, so the
// GPU is waited for, as for a 0-dim integer, which counts as a number. masked_fill and where keep
// shapes and do not wait.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <vector>

#include "framework/scalar.h"
#include "framework/tensor.h"

namespace taper::v0 {

inline constexpr std::nullopt_t None = std::nullopt;
struct EllipsisIndexType {};
inline constexpr EllipsisIndexType Ellipsis;

// start:stop:step; step > 0.
struct Slice {
  Slice(std::optional<IntArg> from = None, std::optional<IntArg> to = None,
        std::optional<IntArg> by = None)
      : start(from), stop(to), step(by.value_or(1)) {}
  std::optional<int64_t> start, stop;
  int64_t step;
};

// One place of x.index({...}): None, "..." or Ellipsis, a number, a Slice, or a tensor.
struct TensorIndex {
  enum class Kind : uint8_t { none, ellipsis, number, boolean, slice, tensor };

  TensorIndex(std::nullopt_t) : kind(Kind::none) {}
  TensorIndex(EllipsisIndexType) : kind(Kind::ellipsis) {}
  // "..."
  TensorIndex(const char* ellipsis);
  template <std::integral T>
  TensorIndex(T x)
      : kind(std::same_as<T, bool> ? Kind::boolean : Kind::number), number(int64_t(x)) {}
  TensorIndex(const Slice& x) : kind(Kind::slice), slice(x) {}
  TensorIndex(const Tensor& x) : kind(Kind::tensor), tensor(x) {}

  Kind kind;
  int64_t number = 0;  // or a boolean: a mask without dimensions
  Slice slice = {};
  Tensor tensor = {};
};

// As LibTorch has them.
namespace indexing {
using taper::Ellipsis;
using taper::None;
using taper::Slice;
using taper::TensorIndex;
}  // namespace indexing

// One tensor by itself may be a 0-dim integer without waiting.
Tensor index(const Tensor& x, const Tensor& index);
Tensor index(const Tensor& x, const std::vector<TensorIndex>& indices);
Tensor index(const Tensor& x, std::initializer_list<TensorIndex> indices);
// x[indices] = value (accumulate: +=), for a value of x's dtype that broadcasts to x[indices].
// Where an element is named several times the last of the values stays, and has the gradient alone;
// with accumulate all are added, in their order.
Tensor index_put_(const Tensor& x, const std::vector<TensorIndex>& indices, const Tensor& value,
                  BoolArg accumulate = false);
Tensor index_put_(const Tensor& x, const std::vector<TensorIndex>& indices, Scalar value);
// The same in a copy of x.
Tensor index_put(const Tensor& x, const std::vector<TensorIndex>& indices, const Tensor& value,
                 BoolArg accumulate = false);

// Where mask, which broadcasts with x, is true: [n].
Tensor masked_select(const Tensor& x, const Tensor& mask);
// x with elements of source, in their order, where mask is true. Waits for the GPU.
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);
// The indices of the elements that are not 0: int64 [n, dimensions], row by row. Waits for the GPU.
Tensor nonzero(const Tensor& x);

}  // namespace taper::v0
