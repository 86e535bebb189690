// Element-wise arithmetic of two tensors
// (https://pytorch.org/docs/stable/torch.html#pointwise-ops).
//
// Shapes broadcast and dtypes promote as in PyTorch. A number acts like a 0-dim tensor: it changes
// the dtype only if its kind (bool, integer, floating) is higher than the tensor's. Functions throw
// Error for shapes that do not broadcast and for operands on different devices; a 0-dim CPU tensor
// may be combined with CUDA tensors. Unless noted, they are differentiable as often as needed and
// do not synchronize.
#pragma once

#include <string>

#include "framework/factory/factories.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

// Return a + alpha * b and a - alpha * b.
[[nodiscard]] Tensor add(const Tensor& a, const Tensor& b, Scalar alpha = 1);
[[nodiscard]] Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha = 1);
[[nodiscard]] Tensor mul(const Tensor& a, const Tensor& b);
// Returns a / b. Integers are divided in float32.
[[nodiscard]] Tensor div(const Tensor& a, const Tensor& b);
// Rounds the quotient: "floor" is floor_divide, "trunc" rounds toward zero. Integers stay integers.
// The gradient is 0.
[[nodiscard]] Tensor div(const Tensor& a, const Tensor& b, RoundingMode rounding_mode);
// Like Python's // and %: the quotient is rounded down, and the remainder has the sign of b.
// floor_divide is not differentiable.
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, const Tensor& b);
// Like C's %: the remainder has the sign of a.
Tensor fmod(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor pow(const Tensor& base, const Tensor& exponent);
// Throws Error if both base and exponent are integers and the exponent is negative.
[[nodiscard]] Tensor pow(const Tensor& base, Scalar exponent);
// Returns the angle of the point (x, y) in radians, in [-pi, pi].
Tensor atan2(const Tensor& y, const Tensor& x);
// Returns log(exp(a) + exp(b)) without overflow.
Tensor logaddexp(const Tensor& a, const Tensor& b);
// Returns a * log(b), and 0 where a is 0.
Tensor xlogy(const Tensor& a, const Tensor& b);
// Returns start + weight * (end - start). All tensors have the same floating dtype.
Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight);
Tensor lerp(const Tensor& start, const Tensor& end, Scalar weight);
// Return x + value * a * b and x + value * a / b. addcdiv requires floating dtypes.
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1);
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1);
// Return the larger or the smaller operand. If either is NaN, the result is NaN. Where both are
// equal, each receives half of the gradient. Where the result is NaN, both receive all of it.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
// Comparisons return bool tensors and are not differentiable.
Tensor eq(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
// Bitwise functions of integers and bools. Not differentiable.
Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
// Returns |a - b| <= atol + rtol * |b| as a bool tensor. a and b have the same dtype. Equal
// infinities are close. Not differentiable.
//
//   isclose(a, b, {.atol = 1e-3});
Tensor isclose(const Tensor& a, const Tensor& b, RealArg rtol = 1e-5, RealArg atol = 1e-8,
               BoolArg equal_nan = false);
Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& options);
// Returns whether isclose holds for all elements. Synchronizes.
bool allclose(const Tensor& a, const Tensor& b, RealArg rtol = 1e-5, RealArg atol = 1e-8,
              BoolArg equal_nan = false);
bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& options);
// Returns whether shapes and all elements are equal. Synchronizes.
bool equal(const Tensor& a, const Tensor& b);

// Returns a where condition is true and b elsewhere. condition is bool or uint8. All three
// broadcast, and a and b promote. Only the selected operand receives a gradient, so 0 * inf cannot
// occur.
//
//   where(x > 0, x, 0);
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
// Selects one of two numbers, on condition's device. The dtype is bool, int64 or float32: that of
// the number of the higher kind.
Tensor where(const Tensor& condition, Scalar a, Scalar b);
// Returns x where mask (any dtype) is nonzero, and 0 elsewhere.
Tensor zero_outside(const Tensor& x, const Tensor& mask);

// Returns the gradient of a broadcast operand: dy summed to `shape`.
Tensor sum_to(const Tensor& dy, const Shape& shape);

[[nodiscard]] inline Tensor add(const Tensor& a, Scalar b) { return add(a, wrap_scalar(b)); }
[[nodiscard]] inline Tensor sub(const Tensor& a, Scalar b) { return sub(a, wrap_scalar(b)); }
[[nodiscard]] inline Tensor mul(const Tensor& a, Scalar b) { return mul(a, wrap_scalar(b)); }
[[nodiscard]] inline Tensor div(const Tensor& a, Scalar b) { return div(a, wrap_scalar(b)); }
[[nodiscard]] inline Tensor div(const Tensor& a, Scalar b, RoundingMode rounding_mode) {
  return div(a, wrap_scalar(b), rounding_mode);
}
inline Tensor floor_divide(const Tensor& a, Scalar b) { return floor_divide(a, wrap_scalar(b)); }
inline Tensor remainder(const Tensor& a, Scalar b) { return remainder(a, wrap_scalar(b)); }
inline Tensor remainder(Scalar a, const Tensor& b) { return remainder(wrap_scalar(a), b); }
inline Tensor fmod(const Tensor& a, Scalar b) { return fmod(a, wrap_scalar(b)); }
inline Tensor atan2(const Tensor& y, Scalar x) { return atan2(y, wrap_scalar(x)); }
inline Tensor logaddexp(const Tensor& a, Scalar b) { return logaddexp(a, wrap_scalar(b)); }
inline Tensor xlogy(const Tensor& a, Scalar b) { return xlogy(a, wrap_scalar(b)); }
inline Tensor xlogy(Scalar a, const Tensor& b) { return xlogy(wrap_scalar(a), b); }
inline Tensor bitwise_and(const Tensor& a, Scalar b) { return bitwise_and(a, wrap_scalar(b)); }
inline Tensor bitwise_or(const Tensor& a, Scalar b) { return bitwise_or(a, wrap_scalar(b)); }
inline Tensor bitwise_xor(const Tensor& a, Scalar b) { return bitwise_xor(a, wrap_scalar(b)); }
[[nodiscard]] inline Tensor pow(Scalar a, const Tensor& b) { return pow(wrap_scalar(a), b); }
inline Tensor maximum(const Tensor& a, Scalar b) { return maximum(a, wrap_scalar(b)); }
inline Tensor minimum(const Tensor& a, Scalar b) { return minimum(a, wrap_scalar(b)); }
inline Tensor eq(const Tensor& a, Scalar b) { return eq(a, wrap_scalar(b)); }
inline Tensor ne(const Tensor& a, Scalar b) { return ne(a, wrap_scalar(b)); }
inline Tensor lt(const Tensor& a, Scalar b) { return lt(a, wrap_scalar(b)); }
inline Tensor le(const Tensor& a, Scalar b) { return le(a, wrap_scalar(b)); }
inline Tensor gt(const Tensor& a, Scalar b) { return gt(a, wrap_scalar(b)); }
inline Tensor ge(const Tensor& a, Scalar b) { return ge(a, wrap_scalar(b)); }
inline Tensor where(const Tensor& condition, const Tensor& a, Scalar b) {
  return where(condition, a, wrap_scalar(b));
}
inline Tensor where(const Tensor& condition, Scalar a, const Tensor& b) {
  return where(condition, wrap_scalar(a), b);
}

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator+(const Tensor& a, Scalar b) { return add(a, wrap_scalar(b)); }
inline Tensor operator-(const Tensor& a, Scalar b) { return sub(a, wrap_scalar(b)); }
inline Tensor operator*(const Tensor& a, Scalar b) { return mul(a, wrap_scalar(b)); }
inline Tensor operator/(const Tensor& a, Scalar b) { return div(a, wrap_scalar(b)); }
inline Tensor operator+(Scalar a, const Tensor& b) { return add(wrap_scalar(a), b); }
inline Tensor operator-(Scalar a, const Tensor& b) { return sub(wrap_scalar(a), b); }
inline Tensor operator*(Scalar a, const Tensor& b) { return mul(wrap_scalar(a), b); }
inline Tensor operator/(Scalar a, const Tensor& b) { return div(wrap_scalar(a), b); }
// Comparison operators compare element by element, like eq, ne, ... To compare handles, use
// a.is_same(b).
inline Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
inline Tensor operator==(const Tensor& a, Scalar b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
inline Tensor operator!=(const Tensor& a, Scalar b) { return ne(a, b); }
inline Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
inline Tensor operator<(const Tensor& a, Scalar b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
inline Tensor operator<=(const Tensor& a, Scalar b) { return le(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
inline Tensor operator>(const Tensor& a, Scalar b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }
inline Tensor operator>=(const Tensor& a, Scalar b) { return ge(a, b); }
inline Tensor operator==(Scalar a, const Tensor& b) { return eq(b, a); }
inline Tensor operator!=(Scalar a, const Tensor& b) { return ne(b, a); }
inline Tensor operator<(Scalar a, const Tensor& b) { return gt(b, a); }
inline Tensor operator<=(Scalar a, const Tensor& b) { return ge(b, a); }
inline Tensor operator>(Scalar a, const Tensor& b) { return lt(b, a); }
inline Tensor operator>=(Scalar a, const Tensor& b) { return le(b, a); }
inline Tensor operator&(const Tensor& a, const Tensor& b) { return bitwise_and(a, b); }
inline Tensor operator|(const Tensor& a, const Tensor& b) { return bitwise_or(a, b); }
inline Tensor operator^(const Tensor& a, const Tensor& b) { return bitwise_xor(a, b); }
inline Tensor operator&(const Tensor& a, Scalar b) { return bitwise_and(a, b); }
inline Tensor operator|(const Tensor& a, Scalar b) { return bitwise_or(a, b); }
inline Tensor operator^(const Tensor& a, Scalar b) { return bitwise_xor(a, b); }

}  // namespace taper::v0
