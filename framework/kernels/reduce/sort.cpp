#include "framework/kernels/reduce/sort.h"

#include <utility>

#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/profiler/trace.h"

namespace taper::v0::kernels {
namespace {

// Returns a view of x in which dimension `dim` and the last one are exchanged. The function is its
// own inverse.
Tensor swapped(const Tensor& x, int dim) {
  Shape shape = x.shape(), strides = x.strides();
  const int last = x.dim() - 1;
  if (last > 0) std::swap(shape[dim], shape[last]);
  if (last > 0) std::swap(strides[dim], strides[last]);
  return view_as(x, shape, strides, x.storage_offset());
}

int64_t row_length(const Tensor& rows) { return rows.dim() == 0 ? 1 : rows.size(-1); }

// Returns the number of low bits that are zero in half-type values converted to float32.
int unused_bits(DType dtype) { return dtype == kBFloat16 ? 16 : dtype == kFloat16 ? 13 : 0; }

}  // namespace

Tensor argsort(const Tensor& x, int64_t dim, bool descending, std::optional<int64_t> first) {
  const int d = wrap_dim(dim, x.dim());
  const Tensor rows = packed(swapped(x, d), compute_type(x.dtype()));
  const int64_t n = row_length(rows);
  const SortRows how{n, first.value_or(n), descending, unused_bits(x.dtype())};
  Shape shape = rows.shape();
  if (x.is_cpu() && cpu::selects(how) && x.dim() > 0) shape[x.dim() - 1] = how.first;
  const Tensor order = Tensor::make(shape, kInt64, x.device());
  if (order.numel() > 0) dispatch<cpu::argsort, cuda::argsort>(x.device(), order, rows, how);
  Tensor y = dense(swapped(order, d));
  trace("argsort", y, {x});
  return y;
}

Tensor place_of_rank(const Tensor& x, const Tensor& rank) {
  const Tensor place = Tensor::make(rank.shape(), kInt64, x.device());
  const Tensor rows = packed(x, compute_type(x.dtype()));
  if (place.numel() > 0) cpu::place_of_rank(place, rows, dense(rank));
  trace("place_of_rank", place, {x, rank});
  return place;
}

Tensor cumulate(ReductionOp op, const Tensor& x, int64_t dim, Running how, const Tensor& added) {
  const ReduceSizes sizes = sizes_along(x, dim);
  const DType type = compute_type(x.dtype());
  const Tensor y = Tensor::make(x.shape(), type, x.device());
  if (y.numel() > 0) {
    const Tensor terms = added.defined() ? packed(added, type) : added;
    dispatch<cpu::cumulate, cuda::cumulate>(x.device(), op, y, packed(x, type), terms, sizes, how);
  }
  return packed(y, x.is_floating_point() ? x.dtype() : kInt64);
}

}  // namespace taper::v0::kernels
