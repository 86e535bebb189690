// Moving elements: between layouts, dtypes and devices; and filling.
#pragma once

#include "framework/kernels/elementwise/broadcast.h"

namespace taper::v0::kernels {

// out = x for equal shapes (or x broadcast to out's), whatever the layouts, dtypes and devices. A
// copy to or from pinned memory with non_blocking does not wait; every other copy between host and
// GPU does. A copy from the GPU that waits also throws what earlier kernels refused.
void copy_into(const Tensor& out, const Tensor& x, bool non_blocking = false);
// x as dense row-major elements of a dtype: x itself, detached, where it is that already.
Tensor packed(const Tensor& x, DType dtype);
inline Tensor dense(const Tensor& x) { return packed(x, x.dtype()); }
// Of x [N, C, ...]: whether memory has it as dense [N, ..., C], and not as that.
bool has_channels_last(const Tensor& x);
// Throws Error where out's dtype cannot hold the value.
void fill(const Tensor& out, Scalar value);
// out[i] = start + i * step, computed in double (integers in int64); out is 1-d and dense.
void arange_into(const Tensor& out, Scalar start, Scalar step);

// Float to integer truncates; beyond the range of int64 it saturates and nan gives 0; narrower
// integers then keep the low bits. Anything but zero is true.
namespace cpu {
void copy(const TensorIterator& iter);
void arange(const Tensor& out, Scalar start, Scalar step);
}  // namespace cpu
namespace cuda {
void copy(const TensorIterator& iter);
void fill(const TensorIterator& iter, uint64_t bits);  // an element's; without inputs
void arange(const Tensor& out, Scalar start, Scalar step);
// Dense copies of equal dtype between any two places; waits unless non_blocking.
void copy_bytes(const Tensor& out, const Tensor& x, bool non_blocking);
}  // namespace cuda

}  // namespace taper::v0::kernels
