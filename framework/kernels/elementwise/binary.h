// Element-wise functions of two tensors, with broadcasting and type promotion.
#pragma once

#include "framework/kernels/elementwise/broadcast.h"

namespace taper::kernels {

enum class BinaryOp : uint8_t {
  add,
  sub,
  mul,
  div,
  floor_divide,
  remainder,
  pow,
  maximum,
  minimum,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  logical_and,
  logical_or,
  logical_xor,
  // Gradients of unary functions: first operand dy, second the saved x or y.
  relu_backward,        // dy * (x > 0)
  leaky_relu_backward,  // dy * (x > 0 ? 1 : a)
  elu_backward,         // dy * (x > 0 ? 1 : a * exp(x))
  gelu_backward,        // of the erf form, from x
  gelu_tanh_backward,   // of the tanh form, from x
  silu_backward,        // from x
  softplus_backward,    // from x; a = beta, b = threshold
  sigmoid_backward,     // from y: dy * y * (1 - y)
  tanh_backward,        // from y: dy * (1 - y * y)
  clamp_backward,       // dy where a <= x <= b, else 0
};

// Parameters of those that have some: add and sub (a = alpha, the factor of the second operand; 1
// by default), and the gradients as said above.
struct BinaryArgs {
  double a = 1, b = 0;
};

// Those of a + alpha * b and a - alpha * b. Throws Error where their result cannot hold alpha.
BinaryArgs scaled_by(const Scalar& alpha, const Tensor& a, const Tensor& b);

// out = op(a, b). Comparisons and logical ops give bool; div of integers gives float32. Refuses, in
// PyTorch's words, shapes that do not broadcast and operands on two devices.
Tensor binary(BinaryOp op, const Tensor& a, const Tensor& b, BinaryArgs args = {});
// The same into a given tensor of the result's shape (which may be a itself). Refuses a result
// dtype that out cannot hold (float into integer).
void binary_into(BinaryOp op, const Tensor& out, const Tensor& a, const Tensor& b,
                 BinaryArgs args = {});
const char* name_of(BinaryOp op);

// a where condition is not zero, else b; in the promoted dtype of a and b, which must hold what is
// a number.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

namespace cpu {
void binary(BinaryOp op, BinaryArgs args, const Loop& loop, DType compute);
void where(const Loop& loop, DType compute);
}  // namespace cpu
namespace cuda {
void binary(BinaryOp op, BinaryArgs args, const Loop& loop, DType compute);
void where(const Loop& loop, DType compute);
}  // namespace cuda

}  // namespace taper::kernels
