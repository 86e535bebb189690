// Rows of a tensor by number, on the tape (framework/kernels/index/index.h says what a row is).
#pragma once

#include "autograd/node.h"
#include "framework/kernels/index/index.h"

namespace taper::v0 {

// Which rows of `width` elements; distinct: no two keys are equal.
struct Rows {
  Tensor key;
  int64_t width = 1;
  bool distinct = false;
};

bool is_index(const Tensor& index);
// Refuses an index that does not name elements of x, or of src, which is called `self`.
void check_elements(const char* op, const char* self, const Tensor& x, const Tensor& index);
// The first dimension, apart from one, in which x is larger than limit; -1 for none.
int dim_beyond(const Tensor& x, const Tensor& limit, int apart_from);
// A tensor without dimensions counts as one with a single element.
Shape at_least_1d(const Shape& shape);
// Whole slices of x along d by an index of one dimension.
Rows slice_rows(const kernels::IndexRules& rules, const Tensor& x, int d, const Tensor& index);
// Single elements of a tensor of `shape`, along d, by an index of its own shape.
Rows element_rows(const char* op, const Shape& shape, int d, const Tensor& index,
                  bool distinct = false);
// Of n elements in runs, of which each begins where begins [runs] says: the number (int64) of the
// run that each is in.
Tensor run_of_each(const Tensor& begins, int64_t n);

// Both are each other's gradient. base undefined: zeros.
Tensor take_rows(const char* name, const Tensor& x, const Rows& rows, const Shape& shape);
Tensor add_rows(const Tensor& base, const Shape& shape, const Rows& rows, const Tensor& src);

// Puts src's rows in the place of x's (of one key's the last stays) or adds them, in x's memory, as
// the in-place function `op`. src has x's dtype and rows.key.numel() * rows.width elements. Stands
// in autograd/ops/inplace.cpp.
Tensor put_rows_(const char* op, const Tensor& x, const Rows& rows, const Tensor& src);
Tensor add_rows_(const char* op, const Tensor& x, const Rows& rows, const Tensor& src);
// The gradient of putting a tensor of `shape` into what has dy.
Tensor put_backward(const Tensor& dy, const Rows& rows, const Shape& shape);

}  // namespace taper::v0
