// Formats values as Python prints them.
#pragma once

#include <concepts>
#include <string>
#include <vector>

#include "framework/base/device.h"
#include "framework/base/dtype.h"
#include "framework/base/error.h"

namespace taper::v0::conformance {

inline std::string py(std::same_as<bool> auto value) { return value ? "True" : "False"; }
inline std::string py(const std::string& text) { return concat_to_string("'", text, "'"); }
inline std::string py(Device device) { return py(to_string(device)); }
inline std::string py(DType dtype) { return py(to_string(dtype)); }
template <std::integral T>
requires(!std::same_as<T, bool>) std::string py(T value) { return concat_to_string(value); }
template <std::floating_point T> std::string py(T value) {
  const std::string text = concat_to_string(value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

template <class T> std::string py(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += concat_to_string(text.empty() ? "" : ", ", py(value));
  return concat_to_string("[", text, "]");
}

// Returns "[1, True, 'cpu']" for py_list(1, true, Device()).
template <class... Args> std::string py_list(const Args&... args) {
  std::string text;
  ((text += concat_to_string(text.empty() ? "" : ", ", py(args))), ...);
  return concat_to_string("[", text, "]");
}

}  // namespace taper::v0::conformance
