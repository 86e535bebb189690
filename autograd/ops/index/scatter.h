// Writing elements and slices by index
// (https://pytorch.org/docs/stable/torch.html#indexing-slicing-joining).
//
// An index is int64 or int32. An index out of range throws IndexError: on the CPU at once, on the
// GPU at the next synchronizing call. If several values are written to one element, they are
// applied in their order on every device: of overwritten values the last is stored and receives the
// whole gradient. Functions whose names end in "_" change x (autograd/ops/index/inplace.h); the
// others return a changed copy. All are differentiable with respect to x and the source and do not
// synchronize.
#pragma once

#include <string>

#include "framework/base/scalar.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

// Returns a copy of x with src written into it; for dim 0, y[index[i][j]][j] = src[i][j]. index
// must not be larger than src, nor than x in dimensions other than dim. x and src have the same
// dtype.
//
//   scatter(zeros({n, classes}), 1, unsqueeze(labels, 1), 1);  // one-hot rows
Tensor scatter(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& src);
Tensor scatter(const Tensor& x, IntArg dim, const Tensor& index, Scalar value);
// Like scatter, but adds the elements of src to those of x.
Tensor scatter_add(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& src);
// Combines each element of x with all elements of src that are sent to it. reduce is "sum", "prod",
// "mean", "amax" or "amin". With include_self = false, x's own element does not take part if there
// is any from src. Means of integers are rounded down.
Tensor scatter_reduce(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& src,
                      ScatterReduce reduce, BoolArg include_self = true);
// Adds alpha times the k slices of source along dim to the slices of x selected by index [k].
//
//   index_add(x, 0, index, rows);  // y[index[i]] += rows[i]
Tensor index_add(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& source,
                 Scalar alpha = 1);
// Replaces the slices of x selected by index by those of source. index is int64.
Tensor index_copy(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& source);
// Fills the slices selected by index with value. Negative indices count from the end.
Tensor index_fill(const Tensor& x, IntArg dim, const Tensor& index, Scalar value);

Tensor scatter_(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& src);
Tensor scatter_(const Tensor& x, IntArg dim, const Tensor& index, Scalar value);
Tensor scatter_add_(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& src);
Tensor index_add_(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& source,
                  Scalar alpha = 1);
Tensor index_copy_(const Tensor& x, IntArg dim, const Tensor& index, const Tensor& source);
Tensor index_fill_(const Tensor& x, IntArg dim, const Tensor& index, Scalar value);

}  // namespace taper::v0
