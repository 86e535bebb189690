// Rows of a tensor by number: taking them, and adding into them. A tensor of any shape counts as
// dense rows of `width` elements.
#pragma once

#include "framework/kernels/dispatch.h"
#include "framework/tensor.h"

namespace taper::inline v0::kernels {

// How an index is read, and what is said of one that is out of range.
struct IndexRules {
  const char* op;
  // The message's first sentence; null for "index 5 is out of bounds for dimension 0 with size 3".
  const char* text = nullptr;
  bool wrap = false;  // negative numbers count from the end
};

// index (int64 or int32, any strides) has as many dimensions as `shape`, with sizes no larger but
// along dim. Gives, for each position c of index, the number in a dense tensor of `shape` of the
// element at c with c[dim] replaced by the index (int64, dense). One out of range throws IndexError
// on the CPU; on the GPU it is reported to the next synchronising call, and gives -1.
Tensor row_keys(const IndexRules& rules, const Tensor& index, const Shape& shape, int dim);

// Rows of x by key, as a dense tensor of `shape`; zeros for -1.
Tensor take_rows(const Tensor& x, const Tensor& key, int64_t width, const Shape& shape);
// A dense copy of base (undefined: zeros) of `shape`, to which row i of src is added at key[i]: the
// rows of one key in the order of i, without atomics. Half types are summed in float.
Tensor add_rows(const Tensor& base, const Shape& shape, const Tensor& key, int64_t width,
                const Tensor& src);

template <class Backend> struct IndexKernels {
  static void row_keys(const IndexRules& rules, const Tensor& key, const Tensor& index,
                       const Shape& shape, int dim);
  // Unsigned numbers, as int64, in the order of x (float64 or int64); nan is the largest.
  static void sort_keys(const Tensor& key, const Tensor& x, bool descending);
};

namespace cpu {
void take_rows(const Tensor& y, const Tensor& x, const Tensor& key, int64_t width);
void add_rows(const Tensor& y, const Tensor& key, int64_t width, const Tensor& src);
}  // namespace cpu
namespace cuda {
void take_rows(const Tensor& y, const Tensor& x, const Tensor& key, int64_t width);
void add_rows(const Tensor& y, const Tensor& key, int64_t width, const Tensor& src);
}  // namespace cuda

}  // namespace taper::inline v0::kernels
