// A locale that groups digits, such as a host program may have set.
#pragma once

#include <locale>
#include <string>

#include "framework/base/namespace.h"

namespace taper::v0::test {

// Sets the program's locale to one that separates groups of three digits by `separator`. The
// destructor restores it.
class GroupedLocaleGuard {
 public:
  explicit GroupedLocaleGuard(char separator)
      : before_(std::locale::global(std::locale(std::locale(), new Grouped(separator)))) {}
  ~GroupedLocaleGuard() { std::locale::global(before_); }
  GroupedLocaleGuard& operator=(GroupedLocaleGuard&&) = delete;  // neither copyable nor movable

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
