#include "framework/kernels/index/index.h"

#include "framework/kernels/elementwise/copy.h"
#include "framework/profiler/trace.h"

namespace taper::v0::kernels {
namespace {

// Throws PyTorch's message, which the kernel does not contain.
void check_on_host(const IndexRules& rules, const Tensor& index, int64_t bound, int dim) {
  const auto* at = pointer<const int64_t>(index);
  const int64_t lowest = rules.wrap ? -bound : 0;
  if (cpu::are_within(at, index.numel(), lowest, bound)) return;
  for (int64_t i = 0; i < index.numel(); ++i) {
    if (at[i] >= lowest && at[i] < bound) continue;
    throw IndexError(
        rules.text ? concat_to_string(rules.text, ".")
                   : concat_to_string("index ", at[i], " is out of bounds for dimension ",
                                      rules.named < 0 ? dim : rules.named, " with size ", bound),
        " (", rules.op, ": element ", i, " of index is ", at[i], ", it must be in [", lowest, ", ",
        bound, "))");
  }
}

}  // namespace

Tensor row_keys(const IndexRules& rules, const Tensor& index, const Shape& shape, int dim) {
  Tensor key = Tensor::make(index.shape(), kInt64, index.device());
  if (key.numel() == 0) return key;
  const Tensor at = packed(index, kInt64);
  if (at.is_cpu()) check_on_host(rules, at, shape[dim], dim);
  on_device<IndexKernels>(key.device(), [&](auto k) { k.row_keys(rules, key, at, shape, dim); });
  trace("row_keys", key, {index});
  return key;
}

Tensor gather(const IndexRules& rules, const Tensor& x, const Tensor& index, int dim) {
  Tensor y = Tensor::make(index.shape(), x.dtype(), x.device());
  if (y.numel() == 0) return y;
  const Tensor at = packed(index, kInt64);
  if (!cpu::gather(y, dense(x), at, dim)) check_on_host(rules, at, x.size(dim), dim);
  return y;
}

Tensor scatter_add(const IndexRules& rules, const Tensor& x, const Tensor& index, int dim,
                   const Tensor& src) {
  const Tensor y = Tensor::make(x.shape(), x.dtype(), x.device());
  copy_into(y, x);
  if (index.numel() == 0) return y;
  const Tensor at = packed(index, kInt64);
  if (y.numel() == 0 || !cpu::scatter_add(y, at, dim, dense(src))) {
    check_on_host(rules, at, x.size(dim), dim);
  }
  return y;
}

Tensor take_rows(const Tensor& x, const Tensor& key, int64_t width, const Shape& shape) {
  Tensor y = Tensor::make(shape, x.dtype(), x.device());
  if (y.numel() == 0) return y;
  if (x.numel() == 0) {  // every key is out of range
    fill(y, 0);
    return y;
  }
  dispatch<cpu::take_rows, cuda::take_rows>(y.device(), y, dense(x), key, width);
  return y;
}

Tensor take_slices(const Tensor& x, const Tensor& key, int64_t outer, int64_t width,
                   const Shape& shape) {
  Tensor y = Tensor::make(shape, x.dtype(), x.device());
  if (y.numel() > 0) cpu::take_slices(y, dense(x), key, outer, width);
  return y;
}

Tensor add_slices(const Tensor& src, const Tensor& key, int64_t outer, int64_t width,
                  const Shape& shape) {
  const DType wide = accumulate_type(src.dtype());
  const Tensor y = Tensor::make(shape, wide, src.device());
  fill(y, 0);
  if (src.numel() > 0) cpu::add_slices(y, packed(src, wide), key, outer, width);
  return packed(y, src.dtype());
}

Tensor add_rows(const Tensor& base, const Shape& shape, const Tensor& key, int64_t width,
                const Tensor& src, bool distinct) {
  Tensor y = Tensor::make(shape, src.dtype(), src.device());
  if (base.defined()) copy_into(y, base);
  if (!base.defined()) fill(y, 0);
  // If no two keys are equal and there is no base, each sum is a single row.
  const bool alone = distinct && !base.defined();
  fold_rows(alone ? RowOp::kPut : RowOp::kSum, y, key, width, src, distinct);
  return y;
}

void fold_rows(RowOp op, const Tensor& y, const Tensor& key, int64_t width, const Tensor& src,
               bool distinct) {
  if (y.numel() == 0 || src.numel() == 0) return;
  // RowOp::kPut keeps the dtype. Other ops compute integers in int64, and the low bits are the
  // result.
  const DType wide = op == RowOp::kPut || src.is_floating_point() ? src.dtype() : kInt64;
  const Tensor out = packed(y, wide), rows = packed(src, wide);
  dispatch(
      y.device(), [&] { cpu::fold_rows(op, out, key, width, rows); },
      [&] { cuda::fold_rows(op, out, key, width, rows, distinct); });
  if (out.storage() != y.storage()) copy_into(y, out);
  trace("scatter", y, {y, key, src});
}

Tensor nonzero(const Tensor& x) {
  note_read(x);  // its values determine a size
  const Tensor mask = packed(x, kBool);
  Tensor places = Tensor::make({0}, kInt64, x.device());
  if (mask.numel() == 0) return places;
  dispatch(
      x.device(), [&] { places = cpu::nonzero(mask); }, [&] { places = cuda::nonzero(mask); });
  return places;
}

Tensor band(const Tensor& x, int64_t diagonal, bool lower) {
  Tensor y = Tensor::make(x.shape(), x.dtype(), x.device());
  if (y.numel() == 0) return y;
  const Tensor from = dense(x);
  on_device<IndexKernels>(x.device(), [&](auto k) { k.band(y, from, diagonal, lower); });
  trace(lower ? "tril" : "triu", y, {x}, Shape{diagonal});
  return y;
}

Tensor searchsorted(const Tensor& sorted, const Tensor& x, bool right) {
  Tensor y = Tensor::make(x.shape(), kInt64, x.device());
  if (y.numel() == 0) return y;
  const DType wide = sorted.is_floating_point() || x.is_floating_point() ? kFloat64 : kInt64;
  const Tensor rows = packed(sorted, wide), values = packed(x, wide);
  const int64_t m = sorted.dim() == 1 ? x.numel() : x.size(-1);
  on_device<IndexKernels>(x.device(),
                          [&](auto k) { k.search(y, rows, values, sorted.size(-1), m, right); });
  trace("searchsorted", y, {sorted, x});
  return y;
}

void require_all(const char* sentence, const Tensor& holds) {
  const Tensor all = packed(holds, kBool);
  on_device<IndexKernels>(all.device(), [&](auto k) { k.require_all(sentence, all); });
}

}  // namespace taper::v0::kernels
