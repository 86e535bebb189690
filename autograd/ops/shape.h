// Views, copies and moves (https://pytorch.org/docs/stable/torch.html#indexing-slicing-joining).
// Each has a method of the same name on Tensor. A view shares its tensor's memory.
#pragma once

#include "framework/tensor.h"

namespace taper {

// A view; refuses a shape that the strides cannot express, with the advice to use reshape.
Tensor view(const Tensor& x, const Shape& shape);
// A view where possible, else a copy. One size may be -1.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor flatten(const Tensor& x, int64_t start_dim = 0, int64_t end_dim = -1);
Tensor squeeze(const Tensor& x, int64_t dim);
Tensor unsqueeze(const Tensor& x, int64_t dim);
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1);
Tensor permute(const Tensor& x, const Shape& order);
// -1 keeps a size.
Tensor expand(const Tensor& x, const Shape& shape);
Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length);
Tensor select(const Tensor& x, int64_t dim, int64_t index);

// Always a new tensor; keeps a dense layout.
Tensor clone(const Tensor& x);
// x itself when it is dense row-major.
Tensor contiguous(const Tensor& x);
// x on a device in a dtype: x itself when it is that already.
Tensor to_copy(const Tensor& x, Device device, DType dtype, ToOptions options = {});

}  // namespace taper
