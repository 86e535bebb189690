// Gathers and scatters rows of a tensor by index, with gradients. framework/kernels/index/index.h
// defines a row.
#pragma once

#include "autograd/node.h"
#include "framework/kernels/index/index.h"

namespace taper::v0 {

// A selection of rows of `width` elements. `distinct` asserts that no two keys are equal.
struct Rows {
  Tensor key;
  int64_t width = 1;
  bool distinct = false;
};

bool is_index(const Tensor& index);
// Throws Error unless index has a valid shape for selecting elements of x. `self` is the name of
// that argument in messages: input, self or src.
void check_elements(const char* op, const char* self, const Tensor& x, const Tensor& index);
// Returns the first dimension other than apart_from in which x is larger than limit, or -1 if there
// is none.
int dim_beyond(const Tensor& x, const Tensor& limit, int apart_from);
// Returns the shape itself, or [1] for a tensor without dimensions.
Shape at_least_1d(const Shape& shape);
// Selects whole slices of a tensor of `shape` along dimension d by a 1-d index.
Rows slice_rows(const kernels::IndexRules& rules, const Shape& shape, int d, const Tensor& index);
// Selects single elements of a tensor of `shape` along dimension d, by an index with its own shape.
Rows element_rows(const char* op, const Shape& shape, int d, const Tensor& index,
                  bool distinct = false);
// Returns the int64 number of the run that contains each of n elements. The elements are divided
// into runs, which start at the positions begins [runs].
Tensor run_of_each(const Tensor& begins, int64_t n);

// take_rows returns the selected rows of x, as a tensor of `shape`. add_rows adds rows to `base`,
// or to zeros if that is undefined. Each computes the gradient of the other.
Tensor take_rows(const char* name, const Tensor& x, const Rows& rows, const Shape& shape);
Tensor add_rows(const Tensor& base, const Shape& shape, const Rows& rows, const Tensor& src);
// Returns the slices of x along dimension d that a 1-d index selects, as a tensor of `shape`.
Tensor take_slices(const char* name, const kernels::IndexRules& rules, const Tensor& x, int d,
                   const Tensor& index, const Shape& shape);

// Overwrite (put) or increase (add) rows of x by the rows of src, in place. `op` is the name of the
// in-place function in messages. If a row is selected several times, put keeps the last. src has
// x's dtype and rows.key.numel() * rows.width elements. Defined in autograd/ops/index/inplace.cpp.
Tensor put_rows_(const char* op, const Tensor& x, const Rows& rows, const Tensor& src);
Tensor add_rows_(const char* op, const Tensor& x, const Rows& rows, const Tensor& src);
// Returns the gradient of a source of `shape` whose rows were put into a tensor. dy is the gradient
// of the result.
Tensor put_backward(const Tensor& dy, const Rows& rows, const Shape& shape);

}  // namespace taper::v0
