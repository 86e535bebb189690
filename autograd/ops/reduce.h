// Reductions (https://pytorch.org/docs/stable/torch.html#reduction-ops). Without dims: over all.
#pragma once

#include "framework/tensor.h"

namespace taper {

Tensor sum(const Tensor& x);
Tensor sum(const Tensor& x, const Shape& dims, bool keepdim = false);
// Floating dtypes only.
Tensor mean(const Tensor& x);
Tensor mean(const Tensor& x, const Shape& dims, bool keepdim = false);
Tensor prod(const Tensor& x);
// Largest and smallest; nan wins; equal elements share the gradient.
Tensor amax(const Tensor& x, const Shape& dims = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const Shape& dims = {}, bool keepdim = false);
// Index of the first largest or smallest element, int64; no gradient.
Tensor argmax(const Tensor& x, int64_t dim, bool keepdim = false);
Tensor argmin(const Tensor& x, int64_t dim, bool keepdim = false);
// bool; no gradient.
Tensor all(const Tensor& x, const Shape& dims = {}, bool keepdim = false);
Tensor any(const Tensor& x, const Shape& dims = {}, bool keepdim = false);

}  // namespace taper
