#include "framework/base/error.h"

#include <charconv>

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
  compose();
}

void Error::add_prefix(const std::string& prefix) {
  prefix_ = prefix + prefix_;
  compose();
}

void Error::add_note(const std::string& note) {
  notes_ += "\n" + note;
  compose();
}

void Error::compose() {
  located_ = prefix_ + std::runtime_error::what();
  if (!path_.empty()) located_ += " (in module " + path_ + ")";
  located_ += notes_;
}

void append_number(std::string& out, int64_t value) { append_shortest(out, value); }
void append_number(std::string& out, uint64_t value) { append_shortest(out, value); }
void append_number(std::string& out, float value) { append_shortest(out, value); }
void append_number(std::string& out, double value) { append_shortest(out, value); }

}  // namespace taper::v0
