// Formats the settings of layers in Python's notation, as PyTorch prints them: 1e-05, 2.0, True,
// None, (2, 3), 'tanh'.
#pragma once

#include <optional>
#include <string>

#include "framework/base/error.h"
#include "framework/base/shape.h"

namespace taper::v0 {

std::string py(double value);
std::string py(bool value);
std::string py(int64_t value);
std::string py(const std::string& text);
// Formats a tuple: (3,), (2, 3).
std::string py(const Shape& sizes);
// Format one number if all are equal.
std::string py(Pair p);
std::string py(const Triple& t);
template <class T> std::string py(const std::optional<T>& value) {
  return value ? py(*value) : "None";
}

// Joins names and values: fields("eps", 1e-5, "affine", true) returns "eps=1e-05, affine=True".
template <class T, class... Rest>
std::string fields(const char* name, const T& value, const Rest&... rest) {
  std::string text = concat_to_string(name, "=", py(value));
  if constexpr (sizeof...(rest) > 0) text += ", " + fields(rest...);
  return text;
}

}  // namespace taper::v0
