// Writes the fields of a Schema as JSON, so that a file is described once for reading and writing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/runner/config/schema.h"

namespace taper::v0::runner {

// Return the value as JSON. Doubles keep all their digits. A text that is not UTF-8 throws
// nlohmann::json::type_error; the caller knows what to name.
std::string json_text(int64_t value);
std::string json_text(double value);
std::string json_text(const std::string& value);
template <class A, class B> std::string json_text(const std::pair<A, B>& pair);
template <class T> std::string json_text(const std::vector<T>& list);
template <class T> std::string json_text(const std::map<std::string, T>& map);

// Returns the fields as an object with sorted keys. Omits sections and optional values that are not
// given. Of a choice, writes the name, as a number if the name is one. The schema must not have
// typed sections.
std::string json_text(const Schema& schema);

template <class A, class B> std::string json_text(const std::pair<A, B>& pair) {
  return "[" + json_text(pair.first) + "," + json_text(pair.second) + "]";
}
template <class T> std::string json_text(const std::vector<T>& list) {
  std::string out = "[";
  for (const T& value : list) out += (out.size() > 1 ? "," : "") + json_text(value);
  return out + "]";
}
template <class T> std::string json_text(const std::map<std::string, T>& map) {
  std::string out = "{";
  for (const auto& [key, value] : map) {
    out += (out.size() > 1 ? "," : "") + json_text(key) + ":" + json_text(value);
  }
  return out + "}";
}

}  // namespace taper::v0::runner
