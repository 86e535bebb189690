// Order, running sums and running products along one dimension.
#pragma once

#include <optional>

#include "framework/kernels/reduce/reduce.h"

namespace taper::v0::kernels {

// The places (int64) of x's elements along dim in rising or falling order; equal elements keep
// theirs, nan counts as the largest. With `first`, what follows so many is in any order.
Tensor argsort(const Tensor& x, int64_t dim, bool descending, std::optional<int64_t> first = {});
// Of each row of x [..., n] the place (int64 [..., 1]) that has the rank (int64 [..., 1]) in its
// rising order. On the CPU alone.
Tensor place_of_rank(const Tensor& x, const Tensor& rank);
// How something runs along a dimension: from its end, and whether without the element itself.
struct Running {
  bool backwards = false, exclusive = false;
};
// Each element and all before it along dim, joined (sum or prod) in a fixed order. Integers and
// bool give int64; half types are joined in float. With `added`, of x's shape, the op is another:
// y = added + factor * (the y before), where the factor is x at the later place of the two.
Tensor cumulate(ReduceOp op, const Tensor& x, int64_t dim, Running how = {},
                const Tensor& added = {});

// Rows of n elements, whose sort_key() begin with `unused` bits that are the same in all numbers.
struct SortRows {
  int64_t n, first;
  bool descending;
  int unused;
};

// Dense rows, x of float32, float64 or int64; cumulate: along n, all of one dtype.
namespace cpu {
void argsort(const Tensor& order, const Tensor& x, SortRows how);
void place_of_rank(const Tensor& place, const Tensor& x, const Tensor& rank);
void cumulate(ReduceOp op, const Tensor& y, const Tensor& x, const Tensor& added, ReduceSizes sizes,
              Running how);
}  // namespace cpu
namespace cuda {
// Pairs (key, number), all int64, by the low `bits` bits of their keys, which count as unsigned;
// equal keys keep their order, so the result is the same in every run. What is given stays.
void sort_pairs(const Tensor& sorted_keys, const Tensor& sorted_numbers, const Tensor& keys,
                const Tensor& numbers, int bits);
void argsort(const Tensor& order, const Tensor& x, SortRows how);
void cumulate(ReduceOp op, const Tensor& y, const Tensor& x, const Tensor& added, ReduceSizes sizes,
              Running how);
}  // namespace cuda

}  // namespace taper::v0::kernels
