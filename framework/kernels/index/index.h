// Gathering and combining rows of a tensor by index. A tensor of any shape counts as dense rows of
// `width` elements.
#pragma once

#include <utility>

#include "framework/kernels/common/dispatch.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// How an index is interpreted, and how one out of range is reported.
struct IndexRules {
  const char* op;
  // First sentence of the message. Null selects "index 5 is out of bounds for dimension 0 with size
  // 3".
  const char* text = nullptr;
  bool wrap = false;  // negative numbers count from the end
  int named = -1;     // dimension named in messages; -1: the indexed dimension
};

// How a row is combined with the row at its key. In amax and amin NaN takes precedence.
enum class RowOp : uint8_t { kPut, kSum, kProd, kAmax, kAmin };

// Converts an index to element numbers, int64 and dense. For a matrix [rows, n] and dim 0:
// key[i][j] = index[i][j] * n + j.
//
// In general, index (int64 or int32, any strides) has as many dimensions as `shape`, with sizes
// that are not larger except along dim. key[c] is a flat element number in a dense tensor of
// `shape`: that of the position c in which c[dim] is replaced by index[c]. An index out of range
// throws IndexError on the CPU. On the GPU it gives -1 and is reported by the next synchronizing
// call.
Tensor row_keys(const IndexRules& rules, const Tensor& index, const Shape& shape, int dim);

// Returns the elements of x at row_keys(rules, index, x.shape(), dim), as a dense tensor of the
// index's shape. Neither is a single number. CPU only.
Tensor gather(const IndexRules& rules, const Tensor& x, const Tensor& index, int dim);
// Returns a dense copy of x with each element of src, which has the index's shape, added at its
// row_keys(rules, index, x.shape(), dim), in order. x and src have the same dtype: float32, float64
// or int64. Neither is a single number. CPU only.
Tensor scatter_add(const IndexRules& rules, const Tensor& x, const Tensor& index, int dim,
                   const Tensor& src);
// Returns the rows of x at the keys as a dense tensor of `shape`. A key of -1 gives zeros.
Tensor take_rows(const Tensor& x, const Tensor& key, int64_t width, const Shape& shape);
// Returns the slices of x, dense as [outer, n, width], at the numbers key [count] of its middle
// dimension, as a dense tensor of `shape`. CPU only.
Tensor take_slices(const Tensor& x, const Tensor& key, int64_t outer, int64_t width,
                   const Shape& shape);
// Returns the gradient of take_slices(): dense zeros of `shape`, [outer, n, width], with each slice
// of the floating src [outer, count, width] added at its number, in order. Half types compute in
// float. CPU only.
Tensor add_slices(const Tensor& src, const Tensor& key, int64_t outer, int64_t width,
                  const Shape& shape);
// Combines row i of src with row key[i] of y, which has src's dtype and any strides. Rows with the
// same key are combined in the order of i, without atomics, so `put` leaves the last. Half types
// compute in float. Keys of -1 are skipped. `distinct` asserts that no two keys are equal, which
// avoids sorting them.
void fold_rows(RowOp op, const Tensor& y, const Tensor& key, int64_t width, const Tensor& src,
               bool distinct = false);
// Returns a dense tensor of `shape`: base, or zeros if it is undefined, with the rows of src added.
Tensor add_rows(const Tensor& base, const Shape& shape, const Tensor& key, int64_t width,
                const Tensor& src, bool distinct = false);
// Returns the flat positions (int64 [n]) of the nonzero elements of x. Synchronizes.
Tensor nonzero(const Tensor& x);
// Returns the smallest and the largest element of x, which is int64, dense and not empty. CPU only.
std::pair<int64_t, int64_t> range_of(const Tensor& x);
// Returns how often each number of [0, bins) occurs in x (int64 and dense, without other numbers),
// as int64. If `weights` of x's shape (float32 or float64) are defined, returns their sums in their
// dtype, added in x's order. CPU only.
Tensor count_numbers(const Tensor& x, const Tensor& weights, int64_t bins);
// Returns x [..., n, m], dense, with zeros where column - row > diagonal, or < diagonal unless
// `lower`.
Tensor band(const Tensor& x, int64_t diagonal, bool lower);
// Returns an int64 number for each element of x: how many elements of its row of `sorted` are less
// than it, or not greater if `right`. sorted is ascending, [..., n], and x has the same leading
// sizes [..., m]. If sorted is [n], x may have any shape. A NaN in x counts as the largest value.
Tensor searchsorted(const Tensor& sorted, const Tensor& x, bool right);

// Throws Error(sentence) if an element of `holds` (bool) is false: on the CPU at once, on the GPU
// at the next synchronizing call. The sentence must be a string literal.
void require_all(const char* sentence, const Tensor& holds);

template <class Backend> struct IndexKernels {
  static void require_all(const char* sentence, const Tensor& holds);
  static void row_keys(const IndexRules& rules, const Tensor& key, const Tensor& index,
                       const Shape& shape, int dim);
  static void band(const Tensor& y, const Tensor& x, int64_t diagonal, bool lower);
  // Searches rows of n elements for rows of m elements of x. Both are float64 or int64. A single
  // sorted row is used for all rows of x.
  static void search(const Tensor& y, const Tensor& sorted, const Tensor& x, int64_t n, int64_t m,
                     bool right);
};

namespace cpu {
// Returns whether all indices are in range. Otherwise y is undefined.
bool gather(const Tensor& y, const Tensor& x, const Tensor& index, int dim);
bool scatter_add(const Tensor& y, const Tensor& index, int dim, const Tensor& src);
void take_rows(const Tensor& y, const Tensor& x, const Tensor& key, int64_t width);
// y is [outer, count, width] and x is [outer, n, width].
void take_slices(const Tensor& y, const Tensor& x, const Tensor& key, int64_t outer, int64_t width);
void add_slices(const Tensor& y, const Tensor& src, const Tensor& key, int64_t outer,
                int64_t width);
void fold_rows(RowOp op, const Tensor& y, const Tensor& key, int64_t width, const Tensor& src);
Tensor nonzero(const Tensor& mask);
// Returns whether all n numbers are in [lowest, bound), where lowest <= 0 <= bound.
bool are_within(const int64_t* x, int64_t n, int64_t lowest, int64_t bound);
}  // namespace cpu
namespace cuda {
void take_rows(const Tensor& y, const Tensor& x, const Tensor& key, int64_t width);
void fold_rows(RowOp op, const Tensor& y, const Tensor& key, int64_t width, const Tensor& src,
               bool distinct);
Tensor nonzero(const Tensor& mask);
}  // namespace cuda

}  // namespace taper::v0::kernels
