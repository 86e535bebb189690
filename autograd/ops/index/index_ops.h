// Selecting elements by index, sorting and cumulative sums
// (https://pytorch.org/docs/stable/torch.html#indexing-slicing-joining).
//
// An index is an int64 or int32 tensor. An index out of range throws IndexError: on the CPU at
// once, on the GPU at the next synchronizing call. Functions are differentiable with respect to x
// and do not synchronize.
#pragma once

#include <optional>
#include <vector>

#include "framework/base/scalar.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

// Returns rows of weight [rows, dim...], as index.shape + [dim...]. The row padding_idx receives no
// gradient; a negative value counts from the end.
Tensor embedding(const Tensor& weight, const Tensor& index,
                 std::optional<IntArg> padding_idx = std::nullopt);
// Returns the k slices of x along dim that index [k] selects.
Tensor index_select(const Tensor& x, IntArg dim, const Tensor& index);
// Returns a tensor of index's shape; for dim 0, y[i][j] = x[index[i][j]][j].
//
//   gather(logits, 1, unsqueeze(labels, 1));  // [N, 1]: the logit of each row's label
Tensor gather(const Tensor& x, IntArg dim, const Tensor& index);
// Returns int64 [..., num_classes] for an int64 index [...]: 1 at each index and 0 elsewhere. The
// default -1 means the largest index plus 1, which is read from the device: this synchronizes, and
// throws Error for an empty index.
Tensor one_hot(const Tensor& index, IntArg num_classes = -1);

// Returns value, converted to x's dtype, where mask is true and x elsewhere. The two tensors
// broadcast.
[[nodiscard]] Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);
// Return matrices [..., n, m] with zeros above (tril) or below (triu) a diagonal.
Tensor tril(const Tensor& x, IntArg diagonal = 0);
Tensor triu(const Tensor& x, IntArg diagonal = 0);
Tensor flip(const Tensor& x, const Shape& dims);
// Pads with `value`. padding holds {before, after} of the last dimension, then of the one before
// it, and so on. Negative values crop.
//
//   pad(x, {1, 1, 2, 0});  // one column on each side, two rows before the first
Tensor pad(const Tensor& x, const std::vector<int64_t>& padding, Scalar value = 0);

// Elements along a dimension and their int64 indices in the input.
struct Sorted {
  Tensor values, indices;
};
// Sorts x along dim. The sort is stable, and NaN counts as the largest value.
Sorted sort(const Tensor& x, IntArg dim = -1, BoolArg descending = false);
Tensor argsort(const Tensor& x, IntArg dim = -1, BoolArg descending = false);
// Returns the k largest or smallest elements, sorted. Of equal elements, the first is taken.
//
//   const auto [values, indices] = topk(logits, 5);
Sorted topk(const Tensor& x, IntArg k, IntArg dim = -1, BoolArg largest = true);
// Return the cumulative sums or products along dim. `dtype` has the same meaning as in reductions.
// Integers give int64.
Tensor cumsum(const Tensor& x, IntArg dim, std::optional<DType> dtype = std::nullopt);
Tensor cumprod(const Tensor& x, IntArg dim, std::optional<DType> dtype = std::nullopt);
// Returns the logarithm of the cumulative sum of exp(x) along dim, without overflow. Floating
// dtypes only.
Tensor logcumsumexp(const Tensor& x, IntArg dim);
struct DiffOptions {
  int64_t n = 1;
  int64_t dim = -1;
  Tensor prepend = {}, append = {};
};
// Returns the n-th differences along dim: n times, each element is subtracted from the next one.
// prepend and append, if defined, are joined to x first and agree with it in all other sizes. bool
// gives whether neighbors differ.
//
//   diff(tensor({1, 3, 6}));                            // [2, 3]
//   diff(tensor({1, 3, 6}), {.prepend = tensor({0})});  // [1, 2, 3]
Tensor diff(const Tensor& x, IntArg n = 1, IntArg dim = -1, const Tensor& prepend = {},
            const Tensor& append = {});
Tensor diff(const Tensor& x, const DiffOptions& options);

}  // namespace taper::v0
