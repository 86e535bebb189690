#include "framework/kernels/elementwise/copy.h"

#include <algorithm>
#include <cstring>

#include "framework/kernels/common/convert.h"
#include "framework/kernels/common/dispatch.h"

namespace taper::v0::kernels {
namespace {

void copy_on_device(const Tensor& out, const Tensor& x) {
  dispatch<cpu::copy, cuda::copy>({out.device(), "copy_"}, make_iterator(out, {&x}));
}

// Returns whether both tensors are dense in the same order and have the same dtype, so that bytes
// can be copied.
bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && a.strides() == b.strides() &&
         is_dense(a.shape(), a.strides());
}

// Copies through dense tensors of out's dtype: the source device converts, then the bytes are
// transferred, then the target device writes them in out's layout.
void copy_across(const Tensor& out, const Tensor& x, bool non_blocking) {
  if constexpr (kHasCuda) {
    const RecordFunction range("copy_", RecordFunction::RangeKind::kOp,
                               out.is_cuda() ? out.device() : x.device());
    if (same_bytes(out, x)) return cuda::copy_bytes(out, x, non_blocking);
    if (out.shape() != x.shape()) {
      const Tensor local = Tensor::make(x.shape(), x.dtype(), out.device());
      copy_into(local, x, non_blocking);
      return copy_on_device(out, local);
    }
    const Tensor source = packed(x, out.dtype());
    const bool ready = source.storage() == x.storage();
    if (out.is_contiguous()) {
      // A temporary source must outlive the transfer, so the copy is asynchronous only if the
      // source is the caller's own tensor.
      return cuda::copy_bytes(view_as(out, out.shape(), source.strides(), out.storage_offset()),
                              source, non_blocking && (ready || x.is_cuda()));
    }
    const Tensor landing = Tensor::make(out.shape(), out.dtype(), out.device());
    cuda::copy_bytes(landing, source, false);
    copy_on_device(out, landing);
  }
}

}  // namespace

void copy_into(const Tensor& out, const Tensor& x, bool non_blocking) {
  if (out.numel() == 0) return;
  // Two CPU devices use the same memory.
  const bool is_local = out.device() == x.device() || (out.is_cpu() && x.is_cpu());
  if (!is_local) return copy_across(out, x, non_blocking);
  copy_on_device(out, x);
}

Tensor packed(const Tensor& x, DType dtype) {
  if (x.is_contiguous() && x.dtype() == dtype) return x.detach();
  Tensor out = Tensor::make(x.shape(), dtype, x.device());
  copy_into(out, x);
  return out;
}

bool has_channels_last(const Tensor& x) {
  const auto moved = [](Shape s) {
    std::rotate(s.begin() + 1, s.begin() + 2, s.end());
    return s;
  };
  return !x.is_contiguous() && is_contiguous(moved(x.shape()), moved(x.strides()));
}

void fill(const Tensor& out, Scalar value) {
  value.check_holds(out.dtype());
  if (out.numel() == 0) return;
  uint64_t bits = 0;
  visit(out.dtype(), [&]<class T>(TypeTag<T>) {
    const bool floating = value.dtype() == kFloat64;
    const T x = floating ? convert<T>(value.to_double()) : convert<T>(value.to_int());
    memcpy(&bits, &x, sizeof x);
  });
  TensorIterator iter = make_iterator(out, {});
  const auto copy_one = [&] {
    iter.in[0].data = &bits;
    iter.in[0].dtype = out.dtype();
    cpu::copy(iter);
  };
  dispatch(
      out.device(), copy_one, [&] { cuda::fill(iter, bits); }, "fill_");
}

void arange_into(const Tensor& out, Scalar start, Scalar step) {
  if (out.numel() == 0) return;
  dispatch<cpu::arange, cuda::arange>(out.device(), out, start, step);
}

}  // namespace taper::v0::kernels
