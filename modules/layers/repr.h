// Settings of layers as Python prints them: 1e-05, 2.0, True, None, (2, 3), 'tanh'.
#pragma once

#include <optional>
#include <string>

#include "framework/error.h"
#include "framework/shape.h"

namespace taper::inline v0 {

std::string py(double value);
inline std::string py(bool value) { return value ? "True" : "False"; }
inline std::string py(int64_t value) { return cat(value); }
inline std::string py(const std::string& text) { return cat("'", text, "'"); }
// A tuple: (3,), (2, 3).
inline std::string py(const Shape& sizes) {
  std::string text;
  for (const int64_t n : sizes) text += cat(text.empty() ? "" : ", ", n);
  return cat("(", text, sizes.size() == 1 ? ",)" : ")");
}
// One number where both are equal.
inline std::string py(Pair p) { return p.h == p.w ? py(p.h) : py(Shape{p.h, p.w}); }
template <class T> std::string py(const std::optional<T>& value) {
  return value ? py(*value) : "None";
}

// fields("eps", 1e-5, "affine", true): "eps=1e-05, affine=True".
template <class T, class... Rest>
std::string fields(const char* name, const T& value, const Rest&... rest) {
  std::string text = cat(name, "=", py(value));
  if constexpr (sizeof...(rest) > 0) text += ", " + fields(rest...);
  return text;
}

}  // namespace taper::inline v0
