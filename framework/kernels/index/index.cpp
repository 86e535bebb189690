#include "framework/kernels/index/index.h"

#include "framework/kernels/dispatch.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::inline v0::kernels {
namespace {

// PyTorch's words, which the kernel does not know.
void check_on_host(const IndexRules& rules, const Tensor& index, int64_t bound, int dim) {
  const int64_t* at = index.data<int64_t>();
  const int64_t lowest = rules.wrap ? -bound : 0;
  for (int64_t i = 0; i < index.numel(); ++i) {
    if (at[i] >= lowest && at[i] < bound) continue;
    throw IndexError(cat(rules.text ? cat(rules.text, ".")
                                    : cat("index ", at[i], " is out of bounds for dimension ", dim,
                                          " with size ", bound),
                         " (", rules.op, ": element ", i, " of index is ", at[i],
                         ", it must be in [", lowest, ", ", bound, "))"));
  }
}

}  // namespace

Tensor row_keys(const IndexRules& rules, const Tensor& index, const Shape& shape, int dim) {
  Tensor key = Tensor::make(index.shape(), kInt64, index.device());
  if (key.numel() == 0) return key;
  const Tensor at = packed(index, kInt64);
  if (at.is_cpu()) check_on_host(rules, at, shape[dim], dim);
  on_device<IndexKernels>(key.device(), [&](auto k) { k.row_keys(rules, key, at, shape, dim); });
  return key;
}

Tensor take_rows(const Tensor& x, const Tensor& key, int64_t width, const Shape& shape) {
  Tensor y = Tensor::make(shape, x.dtype(), x.device());
  if (y.numel() == 0) return y;
  if (x.numel() == 0) {  // every key was out of range
    fill(y, 0);
    return y;
  }
  const Tensor rows = dense(x);
  dispatch(
      y.device(), [&] { cpu::take_rows(y, rows, key, width); },
      [&] { cuda::take_rows(y, rows, key, width); });
  return y;
}

Tensor add_rows(const Tensor& base, const Shape& shape, const Tensor& key, int64_t width,
                const Tensor& src) {
  // Sums of integers do not care where they are cut to size.
  const DType wide = src.is_floating_point() ? src.dtype() : kInt64;
  Tensor y = Tensor::make(shape, wide, src.device());
  if (base.defined()) copy_into(y, base);
  if (!base.defined()) fill(y, 0);
  if (y.numel() == 0 || src.numel() == 0) return packed(y, src.dtype());
  const Tensor rows = packed(src, wide);
  dispatch(
      y.device(), [&] { cpu::add_rows(y, key, width, rows); },
      [&] { cuda::add_rows(y, key, width, rows); });
  return packed(y, src.dtype());
}

}  // namespace taper::inline v0::kernels
