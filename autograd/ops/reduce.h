// Reductions (https://pytorch.org/docs/stable/torch.html#reduction-ops), without dims over all; and
// softmax. With a dtype x is cast to it first, and the result has it.
#pragma once

#include <optional>

#include "framework/tensor.h"

namespace taper::v0 {

Tensor sum(const Tensor& x, std::optional<DType> dtype = std::nullopt);
Tensor sum(const Tensor& x, const Shape& dims, BoolArg keepdim = false,
           std::optional<DType> dtype = std::nullopt);
// Floating dtypes only.
Tensor mean(const Tensor& x, std::optional<DType> dtype = std::nullopt);
Tensor mean(const Tensor& x, const Shape& dims, BoolArg keepdim = false,
            std::optional<DType> dtype = std::nullopt);
Tensor prod(const Tensor& x, std::optional<DType> dtype = std::nullopt);
Tensor prod(const Tensor& x, IntArg dim, BoolArg keepdim = false,
            std::optional<DType> dtype = std::nullopt);
// Mean squared distance from the mean (and its root), with n - correction for n: nan where nothing
// is left to divide by. Floating dtypes only, computed in double: no square overflows or vanishes.
Tensor var(const Tensor& x, const Shape& dims = {}, RealArg correction = 1,
           BoolArg keepdim = false);
Tensor std(const Tensor& x, const Shape& dims = {}, RealArg correction = 1,
           BoolArg keepdim = false);
// var, or std, and the mean of the same elements.
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
// (sum |x|^p)^(1/p); for p = inf the largest |x|, for -inf the smallest, for 0 the number of
// elements that are not 0 (which has no gradient). The gradient at 0 is 0. Floating dtypes only; a
// dtype must hold what x's does.
Tensor norm(const Tensor& x, RealArg p = 2, const Shape& dims = {}, BoolArg keepdim = false,
            std::optional<DType> dtype = std::nullopt);
// a [..., n, d], b [..., m, d]: the norms of the differences of their rows, [..., n, m]. Computed
// from all differences, which take memory: n * m * d elements.
Tensor cdist(const Tensor& a, const Tensor& b, RealArg p = 2);
// log(sum(exp(x))) without overflow.
Tensor logsumexp(const Tensor& x, const Shape& dims, BoolArg keepdim = false);
// exp(x) / sum(exp(x)) along dim, and its logarithm
// (https://pytorch.org/docs/stable/nn.functional.html).
Tensor softmax(const Tensor& x, IntArg dim, std::optional<DType> dtype = std::nullopt);
Tensor log_softmax(const Tensor& x, IntArg dim, std::optional<DType> dtype = std::nullopt);
// Largest and smallest; nan wins; equal elements share the gradient.
Tensor amax(const Tensor& x, const Shape& dims = {}, BoolArg keepdim = false);
Tensor amin(const Tensor& x, const Shape& dims = {}, BoolArg keepdim = false);
// Index of the first largest or smallest element, int64; no gradient. Without dim: of x flattened.
Tensor argmax(const Tensor& x);
Tensor argmin(const Tensor& x);
Tensor argmax(const Tensor& x, IntArg dim, BoolArg keepdim = false);
Tensor argmin(const Tensor& x, IntArg dim, BoolArg keepdim = false);
// bool; no gradient.
Tensor all(const Tensor& x, const Shape& dims = {}, BoolArg keepdim = false);
Tensor any(const Tensor& x, const Shape& dims = {}, BoolArg keepdim = false);

}  // namespace taper::v0
