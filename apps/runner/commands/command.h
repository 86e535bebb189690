// What a command of the program is: its name, its arguments and what it runs.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "apps/runner/config/schema.h"

namespace taper::v0::runner {

// A command: `taper NAME`, with what it is told.
struct Command {
  const char *name, *doc, *examples;
  std::function<int()> run;  // gives the exit code
  // Bound to what `run` uses: texts, lists of texts, numbers, and flags. A name that begins with
  // '-' is an option's ("-o,--to"), another one an argument's in its place.
  Schema arguments{};
};

// Of a struct that describes what it is told (framework/base/describe.h) and gives the exit code
// when it is called then.
template <class Told> Command command_of(const char* name, const char* doc, const char* examples) {
  const auto told = std::make_shared<Told>();
  return {name, doc, examples, [told] { return (*told)(); }, schema_of(*told)};
}

// Writes to stdout. Returns the exit code of what passed, or did not; throws DiskError.
int print(const std::string& text, bool passed = true);

}  // namespace taper::v0::runner
