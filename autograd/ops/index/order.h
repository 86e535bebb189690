// Order statistics (https://pytorch.org/docs/stable/torch.html#reduction-ops). NaN takes precedence
// in all of them. With a dimension, the selected element receives the gradient. Without one, all
// elements equal to the result share it. Nothing here synchronizes.
#pragma once

#include <optional>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"

namespace taper::v0 {

Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
// Among equal elements, these select the first.
Sorted max(const Tensor& x, IntArg dim, BoolArg keepdim = false);
Sorted min(const Tensor& x, IntArg dim, BoolArg keepdim = false);
inline Tensor max(const Tensor& a, const Tensor& b) { return maximum(a, b); }
inline Tensor min(const Tensor& a, const Tensor& b) { return minimum(a, b); }

// Returns the median. For an even number of elements, this is the lower of the two in the middle.
// For no elements, returns NaN.
Tensor median(const Tensor& x);
// Also returns the index of the median. Among equal elements, it is the index of the element that a
// stable sort puts in the middle.
Sorted median(const Tensor& x, IntArg dim, BoolArg keepdim = false);

// Returns the elements at position q * (n - 1) of the sorted x, along dim or of all elements. q is
// in [0, 1]: a number, or a tensor of x's dtype with at most one dimension, which becomes the first
// of the result. float32 and float64 only. Throws Error for a q outside [0, 1]. A q on the GPU is
// not read, so a value outside [0, 1] is reported as an index out of range at the next
// synchronizing call.
//
//   quantile(x, 0.9, -1);  // the 90th percentile of each row
//   quantile(x, 0.9, {.dim = -1, .interpolation = "lower"});
Tensor quantile(const Tensor& x, const Tensor& q, std::optional<IntArg> dim = std::nullopt,
                BoolArg keepdim = false, QuantileMode interpolation = QuantileMode::kLinear);
Tensor quantile(const Tensor& x, RealArg q, std::optional<IntArg> dim = std::nullopt,
                BoolArg keepdim = false, QuantileMode interpolation = QuantileMode::kLinear);
Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options);
Tensor quantile(const Tensor& x, RealArg q, const QuantileOptions& options);

}  // namespace taper::v0
