// Placing elements and slices by index
// (https://pytorch.org/docs/stable/torch.html#indexing-slicing-joining). An index is int64 or
// int32; one out of range throws IndexError: on the CPU at once, on the GPU at the next
// synchronising call. Where several go to one place they do so in their order, on every device: of
// what is put the last stays, and has the gradient alone. Names that end in "_" change x
// (autograd/ops/inplace.h).
#pragma once

#include <string>

#include "framework/scalar.h"
#include "framework/tensor.h"

namespace taper::v0 {

// A copy of x with src put in, for dim 0: y[index[i][j]][j] = src[i][j]. index is no larger than
// src, and than x but along dim; x and src have one dtype.
Tensor scatter(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& src);
Tensor scatter(const Tensor& x, IntArg dim, const Tensor& index, Scalar value);
// src is added.
Tensor scatter_add(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& src);
// reduce: "sum", "prod", "mean", "amax" or "amin" of x's element and all of src's that go there;
// include_self false: of src's alone, where there are any. Means of integers are rounded down.
Tensor scatter_reduce(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& src,
                      const std::string& reduce, BoolArg include_self = true);
// index [k]: alpha times the k slices of source along dim are added to x's.
Tensor index_add(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& source,
                 Scalar alpha = 1);
// They take the place of x's. An int64 index.
Tensor index_copy(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& source);
// Negative numbers count from the end.
Tensor index_fill(const Tensor& x, IntArg dim, const Tensor& index, Scalar value);

Tensor scatter_(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& src);
Tensor scatter_(const Tensor& x, IntArg dim, const Tensor& index, Scalar value);
Tensor scatter_add_(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& src);
Tensor index_add_(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& source,
                  Scalar alpha = 1);
Tensor index_copy_(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& source);
Tensor index_fill_(const Tensor& x, IntArg dim, const Tensor& index, Scalar value);

}  // namespace taper::v0
