// Counting, and finding places (https://pytorch.org/docs/stable/torch.html#other-operations). What
// is said to wait reads the size of its result from the device.
#pragma once

#include <optional>

#include "framework/scalar.h"
#include "framework/tensor.h"

namespace taper::v0 {

// How many elements are not 0: int64, of all or along dims.
Tensor count_nonzero(const Tensor& x, const Shape& dims = {});
// x [n] of integers from 0 on: how often each occurs, int64 [max(largest + 1, minlength)]; with
// weights [n] the sum of theirs, float32 of float32, else float64. Waits.
Tensor bincount(const Tensor& x, const Tensor& weights = {}, IntArg minlength = 0);
// Each element (slice along dim) so many times, one after the other; without dim of x flattened.
// repeats [n] or [1] of int64 or int32 waits unless output_size says what they add up to.
Tensor repeat_interleave(const Tensor& x, IntArg repeats, std::optional<IntArg> dim = std::nullopt);
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats,
                         std::optional<IntArg> dim = std::nullopt,
                         std::optional<IntArg> output_size = std::nullopt);
// gather along dim, with the other dimensions broadcast, and negative numbers counted from the end;
// without dim of both flattened, where negative ones are refused.
Tensor take_along_dim(const Tensor& x, const Tensor& indices,
                      std::optional<IntArg> dim = std::nullopt);
// sorted_sequence [..., n] in rising order, x [..., m] with the same leading sizes, or of any shape
// for [n]: the places (int64) at which x's elements would be put in before equal ones (right:
// behind).
Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& x, BoolArg right = false);
Tensor searchsorted(const Tensor& sorted_sequence, Scalar value, BoolArg right = false);
// The same for boundaries [n].
Tensor bucketize(const Tensor& x, const Tensor& boundaries, BoolArg right = false);

// The different elements [n] in rising order; where each element of x stands among them (x's shape)
// and how often it occurs [n], both int64, where asked for. No two nans are equal. Waits; no
// gradient.
struct Uniques {
  Tensor output, inverse_indices, counts;
};
Uniques unique(const Tensor& x, BoolArg sorted = true, BoolArg return_inverse = false,
               BoolArg return_counts = false);

}  // namespace taper::v0
