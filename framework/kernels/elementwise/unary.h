// Element-wise functions of one tensor.
#pragma once

#include "framework/kernels/elementwise/broadcast.h"

namespace taper::kernels {

enum class UnaryOp : uint8_t {
  neg,
  abs,
  sign,
  square,
  sqrt,
  rsqrt,
  reciprocal,
  exp,
  expm1,
  log,
  log1p,
  sin,
  cos,
  tanh,
  sigmoid,
  relu,
  leaky_relu,
  elu,
  gelu,
  gelu_tanh,
  silu,
  softplus,
  erf,
  floor,
  ceil,
  round,
  clamp,
  logical_not,
  isnan,
  isinf,
  isfinite
};

// Parameters of those that have some: leaky_relu (a = slope), elu (a = alpha), softplus (a = beta,
// b = threshold), clamp (a = low, b = high).
struct UnaryArgs {
  double a = 0, b = 0;
};

// y = op(x) in out's dtype. Transcendental functions of integers give float32; the logical ones
// give bool; neg of bool is refused.
Tensor unary(UnaryOp op, const Tensor& x, UnaryArgs args = {});
// The same into a given tensor of x's shape (which may be x itself).
void unary_into(UnaryOp op, const Tensor& out, const Tensor& x, UnaryArgs args = {});
// "relu": for messages and tables.
const char* name_of(UnaryOp op);

// compute: kFloat32, kFloat64 or kInt64. Loads convert to it, stores from it.
namespace cpu {
void unary(UnaryOp op, UnaryArgs args, const Loop& loop, DType compute);
}
namespace cuda {
void unary(UnaryOp op, UnaryArgs args, const Loop& loop, DType compute);
}

}  // namespace taper::kernels
