// Picking elements by index, sorting and running sums
// (https://pytorch.org/docs/stable/torch.html#indexing-slicing-joining). An index is an int64 or
// int32 tensor; one out of range throws IndexError: on the CPU at once, on the GPU at the next
// synchronising call.
#pragma once

#include <optional>
#include <vector>

#include "framework/scalar.h"
#include "framework/tensor.h"

namespace taper::v0 {

// weight [rows, dim...], index of any shape: rows of weight. The row padding_idx (negative: counted
// from the end) gets no gradient.
Tensor embedding(const Tensor& weight, const Tensor& index,
                 std::optional<IntArg> padding_idx = std::nullopt);
// index [k]: x with k slices along dim.
Tensor index_select(const Tensor& x, IntArg dim, const Tensor& index);
// Result of index's shape: for dim 0, y[i][j] = x[index[i][j]][j].
Tensor gather(const Tensor& x, IntArg dim, const Tensor& index);
// index [...] int64: [..., num_classes] int64, 1 at each index.
Tensor one_hot(const Tensor& index, IntArg num_classes);

// value (as x's dtype holds it) where the mask is true, else x; the two broadcast.
[[nodiscard]] Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);
// Matrices [..., n, m] with zeros above (tril) or below (triu) a diagonal.
Tensor tril(const Tensor& x, IntArg diagonal = 0);
Tensor triu(const Tensor& x, IntArg diagonal = 0);
Tensor flip(const Tensor& x, const Shape& dims);
// {before, after} of the last dimension, then of the one before it, ...; negative ones crop.
Tensor pad(const Tensor& x, const std::vector<int64_t>& padding, Scalar value = 0);

// Elements along a dimension, and the places (int64) that they come from.
struct Sorted {
  Tensor values, indices;
};
// Stable; nan counts as the largest.
Sorted sort(const Tensor& x, IntArg dim = -1, BoolArg descending = false);
Tensor argsort(const Tensor& x, IntArg dim = -1, BoolArg descending = false);
// The k largest or smallest, sorted; of equals the first.
Sorted topk(const Tensor& x, IntArg k, IntArg dim = -1, BoolArg largest = true);
// Running sums and products along dim, in a dtype as the reductions have it; integers give int64.
Tensor cumsum(const Tensor& x, IntArg dim, std::optional<DType> dtype = std::nullopt);
Tensor cumprod(const Tensor& x, IntArg dim, std::optional<DType> dtype = std::nullopt);

}  // namespace taper::v0
