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

// Returns the dtype in which x is sorted.
DType sorted_type(const Tensor& x) {
  return !x.is_cpu() && x.is_floating_point() ? x.dtype() : compute_type(x.dtype());
}

}  // namespace

bool sorts_values(const Tensor& x, int64_t dim) {
  return !x.is_cpu() && x.dim() > 0 && cuda::fits_block(x.size(wrap_dim(dim, x.dim())));
}

Tensor argsort(const Tensor& x, int64_t dim, bool descending, std::optional<int64_t> first,
               Tensor* values) {
  const int d = wrap_dim(dim, x.dim());
  const Tensor rows = packed(swapped(x, d), sorted_type(x));
  const int64_t n = row_length(rows);
  const SortRows how{n, first.value_or(n), descending};
  const bool selects = x.is_cpu() ? cpu::selects(how) : cuda::selects(how);
  Shape shape = rows.shape();
  if (selects && x.dim() > 0) shape[x.dim() - 1] = how.first;
  const Tensor order = Tensor::make(shape, kInt64, x.device());
  const bool with_values = values && sorts_values(x, d);
  const Tensor sorted = with_values ? Tensor::make(shape, rows.dtype(), x.device()) : Tensor();
  if (order.numel() > 0) {
    dispatch(
        x.device(), [&] { cpu::argsort(order, rows, how); },
        [&] { cuda::argsort(order, sorted, rows, how); });
  }
  if (with_values) *values = traced("sort", packed(swapped(sorted, d), x.dtype()), {x});
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

Tensor place_of_median(const Tensor& x, Tensor* values) {
  const Tensor rows = packed(x, sorted_type(x));
  Shape shape = x.shape();
  shape[x.dim() - 1] = 1;
  const Tensor place = Tensor::make(shape, kInt64, x.device());
  const Tensor medians = Tensor::make(shape, rows.dtype(), x.device());
  if (place.numel() > 0) {
    dispatch(
        x.device(), [] {}, [&] { cuda::place_of_median(place, medians, rows); });
  }
  *values = traced("median", packed(medians, x.dtype()), {x});
  trace("place_of_median", place, {x});
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
