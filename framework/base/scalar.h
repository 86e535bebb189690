// A number given to an op: remembers whether it was written as a bool, an integer or a float,
// because type promotion asks.
#pragma once

#include <concepts>
#include <cstdint>

#include "framework/base/arguments.h"
#include "framework/base/dtype.h"

namespace taper::v0 {

// The largest finite number of a floating dtype.
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

  // kBool, kInt64 or kFloat64.
  DType dtype() const { return dtype_; }
  double to_double() const { return dtype_ == kFloat64 ? d_ : double(i_); }
  int64_t to_int() const { return to<int64_t>(); }
  // Fractions are cut off. Throws Error where a number of this type cannot hold the value.
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
  // The same, but throws Error for a fraction where T is an integer.
  template <class T> T to_exact() const {
    if constexpr (std::integral<T> && !std::same_as<T, bool>) {
      if (is_fraction()) refuse_fraction(kIntegers<T>);
    }
    return to<T>();
  }
  // Throws Error, in PyTorch's words, where elements of dtype t cannot hold the value: beyond its
  // range, or no number for integers. Unsigned ones hold -1 as their largest; bool holds anything.
  void check_holds(DType t) const {
    if (t != dtype_) check_number(held_by(t), t);
  }
  bool held_by(DType t) const;
  // Whether it is finite and not whole.
  bool is_fraction() const;

 private:
  // The integers of T's size.
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

}  // namespace taper::v0
