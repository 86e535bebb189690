// Errors are exceptions; nothing aborts the process. The first sentence of a message is PyTorch's
// where PyTorch has one that reads naturally in C++.
#pragma once

#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "framework/base/namespace.h"

namespace taper::v0 {

// Appends a part of a message to `out`: text, numbers (in the shortest form that reads back), or
// any type whose to_string() is found by argument-dependent lookup (Device, DType, Shape).
inline void append_to(std::string& out, std::string_view text) { out += text; }
inline void append_to(std::string& out, const char* text) { out += text; }
inline void append_to(std::string& out, const std::string& text) { out += text; }
inline void append_to(std::string& out, char c) { out += c; }
inline void append_to(std::string& out, bool b) { out += b ? "true" : "false"; }

void append_number(std::string& out, int64_t value);
void append_number(std::string& out, uint64_t value);
void append_number(std::string& out, float value);
void append_number(std::string& out, double value);
template <std::floating_point T> void append_to(std::string& out, T value) {
  append_number(out, value);
}
template <std::integral T> void append_to(std::string& out, T value) {
  append_number(out, std::conditional_t<std::signed_integral<T>, int64_t, uint64_t>(value));
}

template <class T>
requires(std::is_class_v<T> || std::is_enum_v<T>) && requires(const T& t) {
  { to_string(t) } -> std::convertible_to<std::string>;
}
void append_to(std::string& out, const T& value) { out += to_string(value); }

template <class T>
concept Printable = requires(std::string& out, const T& t) {
  append_to(out, t);
};

// Returns one string of all arguments: concat_to_string("size ", 3, " of ", shape).
template <Printable... Args> std::string concat_to_string(const Args&... args) {
  std::string out;
  (append_to(out, args), ...);
  return out;
}

// The base class of all exceptions that Taper throws (PyTorch: RuntimeError).
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  // Creates an error. The message is the text of all arguments, joined as by concat_to_string().
  template <Printable First, Printable... Rest>
  requires(sizeof...(Rest) > 0) Error(const First& first, const Rest&... rest)
      : runtime_error(concat_to_string(first, rest...)) {}
  const char* what() const noexcept override {
    return located_.empty() ? std::runtime_error::what() : located_.c_str();
  }
  // Adds a module to the path in which the message ends, "(in module net.2)". Called while the
  // exception leaves each module, innermost first.
  void add_module(const std::string& name);
  // Add text in front of the message, or a line after it. Code that has more information about an
  // error calls them and rethrows the same object, so that the exception keeps its type.
  void add_prefix(const std::string& prefix);
  void add_note(const std::string& note);
  // Returns the path of the module in whose call the error was thrown, such as "net.2". It is empty
  // if no module was being called.
  const std::string& module_path() const { return path_; }

 private:
  void compose();

  std::string prefix_, path_, notes_, located_;
};
struct ValueError : Error {
  using Error::Error;
};
struct TypeError : Error {
  using Error::Error;
};
struct IndexError : Error {
  using Error::Error;
};
struct NotImplementedError : Error {
  using Error::Error;
};
// Thrown if the GPU or its driver reported an error (PyTorch: AcceleratorError).
struct AcceleratorError : Error {
  using Error::Error;
};
struct OutOfMemoryError : Error {
  using Error::Error;
};
// Thrown if a file is missing, damaged or of another format. The message contains its path.
struct InputError : Error {
  using Error::Error;
};
// Thrown if a file cannot be written. The message contains its path and the reason.
struct OutputError : Error {
  using Error::Error;
};
// Thrown if the data cannot be used for training.
struct DataError : Error {
  using Error::Error;
};

// Throws E unless the condition holds. The message is the concatenation of the texts. The texts are
// evaluated in any case, so use an explicit throw if that is expensive.
template <class E = Error, Printable... Text> void require(bool holds, const Text&... text) {
  if (!holds) [[unlikely]]
    throw E(concat_to_string(text...));
}

}  // namespace taper::v0
