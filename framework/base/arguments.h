// Parameter types that reject silent conversions of C++: from bool to a dimension, an index or a
// count, and from a number, a pointer or a string to bool. Each type converts back to the plain
// one, so a function body uses its parameter as an int64_t, a bool or a double.
//
//   Sorted sort(const Tensor& x, IntArg dim = -1, BoolArg descending = false);
//   sort(x, true);       // does not compile: true would be dimension 1
//   sort(x, -1, "down"); // does not compile: any string would be true
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

#include "framework/base/error.h"
#include "framework/base/namespace.h"

namespace taper::v0 {

class BoolArg {
 public:
  // Accepts a bool, and class types that convert to bool (elements of std::vector<bool>).
  template <class T>
  requires std::convertible_to<const T&, bool>
  constexpr BoolArg(const T& value) {
    static_assert(
        is_bool<T>(),
        "this argument is true or false, and a number, a pointer or a text would silently "
        "count as true");
    if constexpr (is_bool<T>()) value_ = bool(value);
  }
  constexpr operator bool() const { return value_; }

 private:
  template <class T> static constexpr bool is_bool() {
    return std::same_as<T, bool> || (std::is_class_v<T> && requires(const T& x) { bool{x}; });
  }
  bool value_ = false;
};

class IntArg {
 public:
  // Accepts integers of any size, enumerators, and class types that convert to an integer.
  template <class T>
  requires(std::convertible_to<T, int64_t> && !std::floating_point<T>) constexpr IntArg(T value)
      : value_(int64_t(value)) {
    static_assert(
        !std::same_as<T, bool> && !std::same_as<T, BoolArg>,
        "this argument is an integer (a dimension, an index or a count), and a bool would "
        "silently count as 0 or 1");
  }
  constexpr operator int64_t() const { return value_; }

 private:
  int64_t value_;
};

class RealArg {
 public:
  // Accepts integers and floating-point numbers.
  template <class T>
  requires std::convertible_to<T, double>
  constexpr RealArg(T value) : value_(double(value)) {
    static_assert(!std::same_as<T, bool> && !std::same_as<T, BoolArg>,
                  "this argument is a number, and a bool would silently count as 0 or 1");
  }
  constexpr operator double() const { return value_; }

 private:
  double value_;
};

// Format the value for messages.
template <std::same_as<IntArg> T> std::string to_string(T value) {
  return concat_to_string(int64_t(value));
}
template <std::same_as<RealArg> T> std::string to_string(T value) {
  return concat_to_string(double(value));
}

}  // namespace taper::v0
