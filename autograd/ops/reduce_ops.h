// Reductions (https://pytorch.org/docs/stable/torch.html#reduction-ops) and softmax.
//
// Empty `dims` reduce over all dimensions. keepdim keeps the reduced dimensions with size 1. If
// `dtype` is given, x is converted first and the result has that dtype. Half types accumulate in
// float32. The order of summation is fixed: the same input gives the same bits. Unless noted,
// functions are differentiable as often as needed and do not synchronize.
#pragma once

#include <optional>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

Tensor sum(const Tensor& x, std::optional<DType> dtype = std::nullopt);
Tensor sum(const Tensor& x, const Shape& dims, BoolArg keepdim = false,
           std::optional<DType> dtype = std::nullopt);
// Return the mean, which requires a floating dtype, of x or in `dtype`.
Tensor mean(const Tensor& x, std::optional<DType> dtype = std::nullopt);
Tensor mean(const Tensor& x, const Shape& dims, BoolArg keepdim = false,
            std::optional<DType> dtype = std::nullopt);
Tensor prod(const Tensor& x, std::optional<DType> dtype = std::nullopt);
Tensor prod(const Tensor& x, IntArg dim, BoolArg keepdim = false,
            std::optional<DType> dtype = std::nullopt);
// Return the variance, or its root, of n elements: the sum of squared distances from the mean,
// divided by n - correction. If n - correction is not positive, the result is NaN, or infinite if
// the elements differ. Floating dtypes only. Computed in double, so that squares neither overflow
// nor underflow.
Tensor var(const Tensor& x, const Shape& dims = {}, RealArg correction = 1,
           BoolArg keepdim = false);
Tensor std(const Tensor& x, const Shape& dims = {}, RealArg correction = 1,
           BoolArg keepdim = false);
// The variance or standard deviation, together with the mean of the same elements.
struct VarMean {
  Tensor var, mean;
};
struct StdMean {
  Tensor std, mean;
};
VarMean var_mean(const Tensor& x, const Shape& dims = {}, RealArg correction = 1,
                 BoolArg keepdim = false);
StdMean std_mean(const Tensor& x, const Shape& dims = {}, RealArg correction = 1,
                 BoolArg keepdim = false);
// Returns the p-norm (sum |x|^p)^(1/p). p = inf gives the largest |x| and p = -inf the smallest.
// p = 0 gives the number of nonzero elements, which is not differentiable. The gradient at 0 is 0.
// Floating dtypes only. Throws Error for a `dtype` narrower than x's.
//
//   norm(x, 2, {1});  // the length of each row
//   norm(x, {.dims = {1}, .keepdim = true});
Tensor norm(const Tensor& x, RealArg p = 2, const Shape& dims = {}, BoolArg keepdim = false,
            std::optional<DType> dtype = std::nullopt);
Tensor norm(const Tensor& x, const NormOptions& options);
// Returns the p-norms of the differences between the rows of a [..., n, d] and the rows of
// b [..., m, d], as [..., n, m]. Stores all differences: n * m * d elements.
Tensor cdist(const Tensor& a, const Tensor& b, RealArg p = 2);
// Returns log(sum(exp(x))) without overflow.
Tensor logsumexp(const Tensor& x, const Shape& dims, BoolArg keepdim = false);
// Return exp(x) / sum(exp(x)) along dim, and its logarithm
// (https://pytorch.org/docs/stable/nn.functional.html).
Tensor softmax(const Tensor& x, IntArg dim, std::optional<DType> dtype = std::nullopt);
Tensor log_softmax(const Tensor& x, IntArg dim, std::optional<DType> dtype = std::nullopt);
// Return the largest and the smallest elements. NaN takes precedence. Equal elements share the
// gradient.
Tensor amax(const Tensor& x, const Shape& dims = {}, BoolArg keepdim = false);
Tensor amin(const Tensor& x, const Shape& dims = {}, BoolArg keepdim = false);
// Return the int64 index of the first largest or smallest element along dim, or in the flattened x.
// Not differentiable.
Tensor argmax(const Tensor& x);
Tensor argmin(const Tensor& x);
Tensor argmax(const Tensor& x, IntArg dim, BoolArg keepdim = false);
Tensor argmin(const Tensor& x, IntArg dim, BoolArg keepdim = false);
// Return bool tensors. Not differentiable.
Tensor all(const Tensor& x, const Shape& dims = {}, BoolArg keepdim = false);
Tensor any(const Tensor& x, const Shape& dims = {}, BoolArg keepdim = false);

}  // namespace taper::v0
