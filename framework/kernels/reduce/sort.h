// Sorting, running sums and running products along one dimension.
#pragma once

#include <optional>

#include "framework/kernels/reduce/reduce.h"

namespace taper::v0::kernels {

// Returns the int64 indices that sort x along dim, ascending or descending. The sort is stable, and
// NaN counts as the largest value. If `first` is given, the result may have only the first that
// many indices. If `values` is given and sorts_values(x, dim) holds, it is set to the elements at
// these indices, which the kernel writes together with them. Otherwise it is not changed.
Tensor argsort(const Tensor& x, int64_t dim, bool descending, std::optional<int64_t> first = {},
               Tensor* values = nullptr);
// Returns whether argsort() can also store the sorted elements of x: if a GPU sorts each row in a
// block.
bool sorts_values(const Tensor& x, int64_t dim);
// Returns, for each row of x [..., n], the index (int64 [..., 1]) of the element with the given
// rank (int64 [..., 1]) in ascending order. CPU only.
Tensor place_of_rank(const Tensor& x, const Tensor& rank);
// Returns the index (int64 [..., 1]) of the median of each row of x [..., n]. Stores the medians
// themselves, also [..., 1], in `values`. The median is element (n - 1) / 2 of the sorted row or,
// if there is a NaN, the first NaN. GPU only, for rows for which sorts_values(x, -1) holds.
Tensor place_of_median(const Tensor& x, Tensor* values);
// Options of running sums and products.
struct Running {
  bool backwards = false;      // run from the end
  bool exclusive = false;      // exclude the element itself
  bool of_logarithms = false;  // log(exp(a) + exp(b)) instead of a + b; floating dtypes only
};
// Combines each element with all elements before it along dim (sum or prod), in a fixed order.
// Integers and bool give int64; half types compute in float. If `added` (x's shape) is given,
// computes a linear recurrence instead: y[i] = added[i] + x[i] * y[i - 1] or, from the end, y[i] =
// added[i] + x[i + 1] * y[i + 1].
Tensor cumulate(ReductionOp op, const Tensor& x, int64_t dim, Running how = {},
                const Tensor& added = {});

// How rows of n elements are sorted. The indices of the first `first` elements are needed.
struct SortRows {
  int64_t n, first;
  bool descending;
};

// All tensors consist of dense rows. x is float32, float64 or int64, on the GPU also of a half
// type. cumulate combines elements along n, and all its tensors have one dtype.
namespace cpu {
// Returns whether argsort writes only the first indices of each row.
constexpr bool selects(SortRows how) { return 64 * how.first <= how.n; }
void argsort(const Tensor& order, const Tensor& x, SortRows how);
void place_of_rank(const Tensor& place, const Tensor& x, const Tensor& rank);
void cumulate(ReductionOp op, const Tensor& y, const Tensor& x, const Tensor& added,
              ReduceSizes sizes, Running how);
}  // namespace cpu
namespace cuda {
// Sorts pairs (key, number), all int64, by the low `bits` bits of the keys, which count as
// unsigned. The sort is stable, so the result is the same in every run. The inputs are not changed.
void sort_pairs(const Tensor& sorted_keys, const Tensor& sorted_numbers, const Tensor& keys,
                const Tensor& numbers, int bits);
// The lengths of rows that a block sorts. For shorter rows, most of the block would be idle.
inline constexpr int64_t kMinBlockRow = 128, kMaxBlockRow = 4096;
constexpr bool fits_block(int64_t n) { return n >= kMinBlockRow && n <= kMaxBlockRow; }
// Returns whether argsort selects the first elements of each row without sorting the others, and
// writes only their indices.
inline constexpr int64_t kMaxSelected = 256;
constexpr bool selects(SortRows how) {
  return fits_block(how.n) && how.first <= kMaxSelected && 4 * how.first <= how.n;
}
// Also stores the elements in `values`, which has x's dtype, unless it is undefined. It must be
// undefined if a row does not fit in a block.
void argsort(const Tensor& order, const Tensor& values, const Tensor& x, SortRows how);
// The part of argsort for which selects(how) holds.
void select_first(const Tensor& order, const Tensor& values, const Tensor& x, SortRows how);
void place_of_median(const Tensor& place, const Tensor& values, const Tensor& x);
void cumulate(ReductionOp op, const Tensor& y, const Tensor& x, const Tensor& added,
              ReduceSizes sizes, Running how);
}  // namespace cuda

}  // namespace taper::v0::kernels
