// Order statistics (https://pytorch.org/docs/stable/torch.html#reduction-ops). nan wins in all.
// Along a dimension the gradient goes to the element that was taken; of all elements, in equal
// parts to those that equal the result.
#pragma once

#include <optional>

#include "autograd/ops/binary.h"
#include "autograd/ops/index/index.h"

namespace taper::v0 {

Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
// Of equals the first.
Sorted max(const Tensor& x, IntArg dim, BoolArg keepdim = false);
Sorted min(const Tensor& x, IntArg dim, BoolArg keepdim = false);
inline Tensor max(const Tensor& a, const Tensor& b) { return maximum(a, b); }
inline Tensor min(const Tensor& a, const Tensor& b) { return minimum(a, b); }

// The lower of two in the middle; nan of no elements.
Tensor median(const Tensor& x);
// Of equals the one that a stable sort puts there.
Sorted median(const Tensor& x, IntArg dim, BoolArg keepdim = false);

// What stands for a place between two elements: a mixture, one of them, their mean, or the nearer
// (halfway the even place).
enum class QuantileMode { linear, lower, higher, midpoint, nearest };
// The elements at q (n - 1) in sorted order, for q in [0, 1]: a number, or a tensor of x's dtype of
// at most one dimension, which comes first in the result. Without dim of all elements. float32 and
// float64 only. q on the GPU is not looked at: outside of [0, 1] it is an index out of range.
Tensor quantile(const Tensor& x, const Tensor& q, std::optional<IntArg> dim = std::nullopt,
                BoolArg keepdim = false, QuantileMode interpolation = QuantileMode::linear);
Tensor quantile(const Tensor& x, RealArg q, std::optional<IntArg> dim = std::nullopt,
                BoolArg keepdim = false, QuantileMode interpolation = QuantileMode::linear);

}  // namespace taper::v0
