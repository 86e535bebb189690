// Counting and searching (https://pytorch.org/docs/stable/torch.html#other-operations). Functions
// documented to synchronize read the size of their result from the device. repeat_interleave and
// take_along_dim are differentiable with respect to x, bincount with respect to weights.
#pragma once

#include <optional>

#include "framework/base/scalar.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

// Returns the number of nonzero elements as int64, of all elements or along dims.
Tensor count_nonzero(const Tensor& x, const Shape& dims = {});
// Counts how often each integer occurs in x [n], which must not be negative. Returns int64
// [max(largest + 1, minlength)]. With weights [n] it sums the weights instead, in float32 for
// float32 weights and in float64 otherwise. Synchronizes.
//
//   bincount(tensor({0, 2, 2}));  // [1, 0, 2]
Tensor bincount(const Tensor& x, const Tensor& weights = {}, IntArg minlength = 0);
// Repeats each element of the flattened x, or each slice along dim, consecutively. repeats is one
// number, or an int64 or int32 tensor [n] with one number per slice ([1] applies to all). A tensor
// synchronizes unless output_size, the sum of the repeats, is given.
//
//   repeat_interleave(tensor({7, 8}), tensor({2, 1}));  // [7, 7, 8]
Tensor repeat_interleave(const Tensor& x, IntArg repeats, std::optional<IntArg> dim = std::nullopt);
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats,
                         std::optional<IntArg> dim = std::nullopt,
                         std::optional<IntArg> output_size = std::nullopt);
// Like gather along dim, but the other dimensions broadcast and negative indices count from the
// end. Without dim both tensors are flattened, and negative indices throw IndexError.
Tensor take_along_dim(const Tensor& x, const Tensor& indices,
                      std::optional<IntArg> dim = std::nullopt);
// Returns the int64 positions at which the elements of x would be inserted into sorted_sequence to
// keep it sorted: before equal elements, or after them if `right`. sorted_sequence is ascending,
// [..., n], and x has the same leading sizes [..., m]. For a sequence [n], x may have any shape.
//
//   searchsorted(tensor({1, 3, 5}), tensor({0, 3, 6}));  // [0, 1, 3]
Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& x, BoolArg right = false);
Tensor searchsorted(const Tensor& sorted_sequence, Scalar value, BoolArg right = false);
// Like searchsorted with `boundaries` [n] as the sorted sequence.
Tensor bucketize(const Tensor& x, const Tensor& boundaries, BoolArg right = false);

// Returns the sorted unique values [n] and, if requested, the inverse indices (shape of x) and
// counts [n], both int64. NaNs compare unequal. Synchronizes. Not differentiable.
//
//   const auto [values, places, counts] = unique(x, {.return_counts = true});
struct Uniques {
  Tensor output, inverse_indices, counts;
};
Uniques unique(const Tensor& x, BoolArg sorted = true, BoolArg return_inverse = false,
               BoolArg return_counts = false);
Uniques unique(const Tensor& x, const UniqueOptions& options);

}  // namespace taper::v0
