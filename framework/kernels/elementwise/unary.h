// Element-wise functions of one tensor.
#pragma once

#include "framework/kernels/elementwise/broadcast.h"
#include "framework/kernels/elementwise/unary_functors.h"

namespace taper::v0::kernels {

// Returns op(x). Transcendental functions of integers give float32, and logical functions give
// bool. Throws Error for neg of bool.
Tensor unary(UnaryOp op, const Tensor& x, UnaryArgs args = {});
// Writes op(x) to a tensor of x's shape, which may be x itself.
void unary_into(UnaryOp op, const Tensor& out, const Tensor& x, UnaryArgs args = {});
inline const char* name_of(UnaryOp op) { return row_of(op).name; }

// Computes op(x) in the dtype `compute`, which is kFloat32, kFloat64 or kInt64. Elements are
// converted to it when loaded and from it when stored.
namespace cpu {
void unary(UnaryOp op, UnaryArgs args, const TensorIterator& iter, DType compute);
}
namespace cuda {
void unary(UnaryOp op, UnaryArgs args, const TensorIterator& iter, DType compute);
}

}  // namespace taper::v0::kernels
