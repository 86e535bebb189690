// A number given to an op: remembers whether it was written as a bool, an integer or a float,
// because type promotion asks.
#pragma once

#include <concepts>
#include <cstdint>

#include "framework/dtype.h"

namespace taper {

class Scalar {
 public:
  template <std::integral T>
  Scalar(T value) : dtype_(std::same_as<T, bool> ? kBool : kInt64), i_(int64_t(value)) {}
  template <std::floating_point T> Scalar(T value) : dtype_(kFloat64), d_(double(value)) {}

  // kBool, kInt64 or kFloat64.
  DType dtype() const { return dtype_; }
  double to_double() const { return dtype_ == kFloat64 ? d_ : double(i_); }
  int64_t to_int() const { return dtype_ == kFloat64 ? int64_t(d_) : i_; }

 private:
  DType dtype_;
  union {
    int64_t i_;
    double d_;
  };
};

}  // namespace taper
