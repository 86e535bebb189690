// A locale that groups digits, which a host program may have set.
#pragma once

#include <locale>
#include <string>

#include "framework/base/namespace.h"

namespace taper::v0::test {

// While it lives, the program's locale separates groups of three digits by `separator`.
class GroupedLocaleGuard {
 public:
  explicit GroupedLocaleGuard(char separator)
      : before_(std::locale::global(std::locale(std::locale(), new Grouped(separator)))) {}
  ~GroupedLocaleGuard() { std::locale::global(before_); }
  GroupedLocaleGuard& operator=(GroupedLocaleGuard&&) = delete;  // neither copied nor moved

 private:
  class Grouped : public std::numpunct<char> {
   public:
    explicit Grouped(char separator) : separator_(separator) {}

   private:
    char do_thousands_sep() const override { return separator_; }
    std::string do_grouping() const override { return "\3"; }
    const char separator_;
  };
  const std::locale before_;
};

}  // namespace taper::v0::test
