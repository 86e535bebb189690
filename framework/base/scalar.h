// A number passed to an op. It remembers whether it was written as a bool, an integer or a
// floating-point number, because type promotion depends on that.
#pragma once

#include <concepts>
#include <cstdint>

#include "framework/base/arguments.h"
#include "framework/base/dtype.h"

namespace taper::v0 {

// Returns the largest finite value of a floating-point dtype.
double largest(DType t);

class Scalar {
 public:
  // Throws Error for an integer above the largest int64_t.
  template <std::integral T>
  Scalar(T value) : dtype_(std::same_as<T, bool> ? kBool : kInt64), i_(int64_t(value)) {
    if constexpr (std::unsigned_integral<T> && sizeof(T) == sizeof i_) {
      check_number(i_ >= 0, kInt64);
    }
  }
  template <std::floating_point T> Scalar(T value) : dtype_(kFloat64), d_(double(value)) {}
  template <std::same_as<IntArg> T> Scalar(T value) : Scalar(int64_t(value)) {}
  template <std::same_as<RealArg> T> Scalar(T value) : Scalar(double(value)) {}

  // Returns kBool, kInt64 or kFloat64.
  DType dtype() const { return dtype_; }
  double to_double() const { return dtype_ == kFloat64 ? d_ : double(i_); }
  int64_t to_int() const { return to<int64_t>(); }
  // Converts the value and truncates fractions. Throws Error if T cannot represent the result.
  template <class T> T to() const {
    if constexpr (std::same_as<T, bool>) {
      return to_double() != 0;
    } else if constexpr (std::integral<T>) {
      check_holds(kInt64);
      const int64_t i = dtype_ == kFloat64 ? int64_t(d_) : i_;
      const T number = T(i);
      check_number(int64_t(number) == i && (number < T(0)) == (i < 0), kIntegers<T>);
      return number;
    } else {
      check_holds(dtype_of<T>);
      return T(to_double());
    }
  }
  // Like to(), but throws Error for a fraction if T is an integer type.
  template <class T> T to_exact() const {
    if constexpr (std::integral<T> && !std::same_as<T, bool>) {
      if (is_fraction()) refuse_fraction(kIntegers<T>);
    }
    return to<T>();
  }
  // Throws Error, with PyTorch's message, if elements of dtype t cannot hold the value: it is out
  // of range, or inf or nan for an integer. Unsigned types hold -1 as their largest value; bool
  // holds anything.
  void check_holds(DType t) const {
    if (t != dtype_) check_number(held_by(t), t);
  }
  bool held_by(DType t) const;
  // Returns whether the value is finite and not an integer.
  bool is_fraction() const;

 private:
  // Returns whether the value is in the range of the integer type T.
  template <class T>
  static constexpr DType kIntegers = sizeof(T) == 8   ? kInt64
                                     : sizeof(T) == 4 ? kInt32
                                     : sizeof(T) == 2 ? kInt16
                                     : T(-1) > T(0)   ? kUInt8
                                                      : kInt8;

  static void check_number(bool held, DType t) {
    if (!held) [[unlikely]]
      refuse(t);
  }
  [[noreturn]] static void refuse(DType t);
  [[noreturn]] void refuse_fraction(DType t) const;

  DType dtype_;
  union {
    int64_t i_;
    double d_;
  };
};

// Returns the number as text: "true", "3" or "0.5". A template, so that numbers are not converted
// to a Scalar to call it.
template <std::same_as<Scalar> T> std::string to_string(const T& x) {
  if (x.dtype() == kBool) return concat_to_string(x.to_double() != 0);
  return x.dtype() == kInt64 ? concat_to_string(x.to_int()) : concat_to_string(x.to_double());
}

}  // namespace taper::v0
