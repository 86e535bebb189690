// The files of a run's directory, and what is shown while it goes.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <type_traits>

#include "framework/error.h"

namespace taper::runner {

// An empty directory for a run. One that holds an earlier run is kept: it is renamed to DIR.1,
// DIR.2, ... first. Throws InputError when it cannot be made.
void make_run_directory(const std::filesystem::path& dir);

// The inside of a JSON object: `"kind":"train","step":3` of ("kind", "train", "step", 3). Values
// are numbers or plain words.
template <class Value, class... Rest>
std::string json_fields(const char* key, const Value& value, const Rest&... rest) {
  const char* quote = std::is_arithmetic_v<Value> ? "" : "\"";
  const std::string out = cat('"', key, "\":", quote, value, quote);
  if constexpr (sizeof...(rest) > 0) return cat(out, ",", json_fields(rest...));
  return out;
}

// A file of one JSON object a line.
class JsonLines {
 public:
  // Both throw InputError when the file cannot be written.
  void open(const std::filesystem::path& file);
  void write(const std::string& fields);

 private:
  std::filesystem::path path_;
  std::ofstream out_;
};

// A bar that redraws itself on a terminal; nothing on a pipe, where epochs are logged as lines.
class Progress {
 public:
  Progress();
  void show(const std::string& label, int64_t done, int64_t total, const std::string& note);
  // Removes the bar, before anything else is printed.
  void clear();

 private:
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace taper::runner
