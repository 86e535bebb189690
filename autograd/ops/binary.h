// Element-wise arithmetic of two tensors, with broadcasting and type promotion
// (https://pytorch.org/docs/stable/torch.html#pointwise-ops). Numbers take part as 0-dim tensors
// that promote by their kind.
#pragma once

#include <string>

#include "framework/factories.h"
#include "framework/tensor.h"

namespace taper::v0 {

// a + alpha * b, a - alpha * b.
[[nodiscard]] Tensor add(const Tensor& a, const Tensor& b, Scalar alpha = 1);
[[nodiscard]] Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha = 1);
[[nodiscard]] Tensor mul(const Tensor& a, const Tensor& b);
// True division: integers give float32.
[[nodiscard]] Tensor div(const Tensor& a, const Tensor& b);
// "floor": floor_divide; "trunc": rounded towards zero. Integers stay integers; the gradient is 0.
[[nodiscard]] Tensor div(const Tensor& a, const Tensor& b, const std::string& rounding_mode);
// Python's // and %; no gradient for the first.
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, const Tensor& b);
// C's %: the sign of a.
Tensor fmod(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor pow(const Tensor& base, const Tensor& exponent);
// Refuses a negative integer exponent of integers.
[[nodiscard]] Tensor pow(const Tensor& base, Scalar exponent);
// The angle of the point (x, y).
Tensor atan2(const Tensor& y, const Tensor& x);
// log(exp(a) + exp(b)) without overflow.
Tensor logaddexp(const Tensor& a, const Tensor& b);
// a log(b), and 0 where a is 0.
Tensor xlogy(const Tensor& a, const Tensor& b);
// start + weight (end - start), of one floating dtype.
Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight);
Tensor lerp(const Tensor& start, const Tensor& end, Scalar weight);
// x + value * a * b, and x + value * a / b (floating dtypes only).
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1);
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1);
// nan wins. Where both are equal each gets half the gradient; with nan both get all of it.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
// Comparisons give bool tensors.
Tensor eq(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
// Of integers and bool.
Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
// |a - b| <= atol + rtol |b|, of one dtype; infinities equal themselves.
Tensor isclose(const Tensor& a, const Tensor& b, RealArg rtol = 1e-5, RealArg atol = 1e-8,
               BoolArg equal_nan = false);
// Of all elements; waits for them.
bool allclose(const Tensor& a, const Tensor& b, RealArg rtol = 1e-5, RealArg atol = 1e-8,
              BoolArg equal_nan = false);
// Whether shapes and all elements are equal; waits for them.
bool equal(const Tensor& a, const Tensor& b);

// a where condition (bool, or uint8) holds, else b: all three broadcast, a and b promote. The
// gradient goes to the chosen side alone: never 0 * inf.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
// x where mask (of any dtype) is not zero, else 0.
Tensor masked(const Tensor& x, const Tensor& mask);

// The gradient of a broadcast operand: dy summed down to `shape`.
Tensor sum_to(const Tensor& dy, const Shape& shape);

[[nodiscard]] inline Tensor add(const Tensor& a, Scalar b) { return add(a, wrap_scalar(b)); }
[[nodiscard]] inline Tensor sub(const Tensor& a, Scalar b) { return sub(a, wrap_scalar(b)); }
[[nodiscard]] inline Tensor mul(const Tensor& a, Scalar b) { return mul(a, wrap_scalar(b)); }
[[nodiscard]] inline Tensor div(const Tensor& a, Scalar b) { return div(a, wrap_scalar(b)); }
[[nodiscard]] inline Tensor div(const Tensor& a, Scalar b, const std::string& rounding_mode) {
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
// Element by element, as eq, ne, ...; a == b asked of the handles is a.is_same(b).
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
