// Copies elements between layouts, dtypes and devices, and fills tensors.
#pragma once

#include "framework/kernels/elementwise/broadcast.h"

namespace taper::v0::kernels {

// Copies x, broadcast to out's shape, to out. Layouts, dtypes and devices may differ. Copies
// between host and GPU synchronize, unless non_blocking is set and the host memory is pinned. A
// synchronizing copy from the GPU also throws the errors that earlier kernels reported.
void copy_into(const Tensor& out, const Tensor& x, bool non_blocking = false);
// Returns x as dense row-major elements of `dtype`: x itself, detached, if it is that already.
Tensor packed(const Tensor& x, DType dtype);
inline Tensor dense(const Tensor& x) { return packed(x, x.dtype()); }
// Returns whether x [N, C, ...] is stored densely as [N, ..., C] and not as [N, C, ...].
bool has_channels_last(const Tensor& x);
// Sets all elements to the value. Throws Error if out's dtype cannot represent it.
void fill(const Tensor& out, Scalar value);
// Writes out[i] = start + i * step, computed in double (in int64 for integers). out is 1-d and
// dense.
void arange_into(const Tensor& out, Scalar start, Scalar step);

// Conversion from floating to integer truncates. Values beyond int64 saturate, and NaN gives 0;
// narrower integers then keep the low bits. Any nonzero value converts to true.
namespace cpu {
void copy(const TensorIterator& iter);
void arange(const Tensor& out, Scalar start, Scalar step);
}  // namespace cpu
namespace cuda {
void copy(const TensorIterator& iter);
void fill(const TensorIterator& iter, uint64_t bits);  // `bits` of one element; iter has no inputs
void arange(const Tensor& out, Scalar start, Scalar step);
// Copies dense tensors of equal dtype between any two devices. Synchronizes unless non_blocking.
void copy_bytes(const Tensor& out, const Tensor& x, bool non_blocking);
}  // namespace cuda

}  // namespace taper::v0::kernels
