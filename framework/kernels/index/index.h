// Rows of a tensor by number: taking them, and joining others to them. A tensor of any shape counts
// as dense rows of `width` elements.
#pragma once

#include "framework/kernels/common/dispatch.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// How an index is read, and what is said of one that is out of range.
struct IndexRules {
  const char* op;
  // The message's first sentence; null for "index 5 is out of bounds for dimension 0 with size 3".
  const char* text = nullptr;
  bool wrap = false;  // negative numbers count from the end
  int named = -1;     // the dimension that messages name; -1: the one along which the index points
};

// How a row joins the row of its key; nan wins in amax and amin.
enum class RowOp : uint8_t { put, sum, prod, amax, amin };

// index (int64 or int32, any strides) has as many dimensions as `shape`, with sizes no larger but
// along dim. Gives, for each position c of index, the number in a dense tensor of `shape` of the
// element at c with c[dim] replaced by the index (int64, dense). One out of range throws IndexError
// on the CPU; on the GPU it is reported to the next synchronising call, and gives -1.
Tensor row_keys(const IndexRules& rules, const Tensor& index, const Shape& shape, int dim);

// Rows of x by key, as a dense tensor of `shape`; zeros for -1.
Tensor take_rows(const Tensor& x, const Tensor& key, int64_t width, const Shape& shape);
// Joins row i of src to row key[i] of y, which has its dtype and any strides: the rows of one key
// in the order of i, so that the last is what `put` leaves, without atomics. Half types are
// computed in float. Passes over -1. distinct: no two keys are equal, which saves sorting them.
void fold_rows(RowOp op, const Tensor& y, const Tensor& key, int64_t width, const Tensor& src,
               bool distinct = false);
// The sums in a dense copy of base (undefined: zeros) of `shape`.
Tensor add_rows(const Tensor& base, const Shape& shape, const Tensor& key, int64_t width,
                const Tensor& src, bool distinct = false);
// The places (int64 [n]) of the elements of x, flattened, that are not 0. Waits for the GPU.
Tensor nonzero(const Tensor& x);
// sorted [..., n] in rising order, x [..., m] with the same leading sizes (sorted [n]: any shape):
// how many elements of its row are less than each element of x (right: less or equal), int64. nan
// counts as the largest in x.
Tensor searchsorted(const Tensor& sorted, const Tensor& x, bool right);

// Throws Error(sentence) where an element of `holds` (bool) is false: on the CPU at once, on the
// GPU at the next synchronizing call. The sentence must be a string literal.
void require_all(const char* sentence, const Tensor& holds);

template <class Backend> struct IndexKernels {
  static void require_all(const char* sentence, const Tensor& holds);
  static void row_keys(const IndexRules& rules, const Tensor& key, const Tensor& index,
                       const Shape& shape, int dim);
  // Of rows of n elements for rows of m in x, both float64 or int64; one row of n serves all.
  static void search(const Tensor& y, const Tensor& sorted, const Tensor& x, int64_t n, int64_t m,
                     bool right);
};

namespace cpu {
void take_rows(const Tensor& y, const Tensor& x, const Tensor& key, int64_t width);
void fold_rows(RowOp op, const Tensor& y, const Tensor& key, int64_t width, const Tensor& src);
Tensor nonzero(const Tensor& mask);
}  // namespace cpu
namespace cuda {
void take_rows(const Tensor& y, const Tensor& x, const Tensor& key, int64_t width);
void fold_rows(RowOp op, const Tensor& y, const Tensor& key, int64_t width, const Tensor& src,
               bool distinct);
Tensor nonzero(const Tensor& mask);
}  // namespace cuda

}  // namespace taper::v0::kernels
