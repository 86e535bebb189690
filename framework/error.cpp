#include "framework/error.h"

#include <charconv>
#include <functional>

#include "framework/callable.h"

namespace taper::v0 {
namespace {

template <class T> void append_shortest(std::string& out, T value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  out.append(text, size_t(end - text));
}

}  // namespace

void Error::add_module(const std::string& name) {
  path_ = path_.empty() ? name : name + "." + path_;
  located_ = std::string(std::runtime_error::what()) + " (in module " + path_ + ")";
}

void detail::refuse_empty_call() { throw std::bad_function_call(); }

void append_number(std::string& out, int64_t value) { append_shortest(out, value); }
void append_number(std::string& out, uint64_t value) { append_shortest(out, value); }
void append_number(std::string& out, float value) { append_shortest(out, value); }
void append_number(std::string& out, double value) { append_shortest(out, value); }

}  // namespace taper::v0
