// What PyTorch prints and raises: the data file, embedded in the program.
#pragma once

#include <string>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::conformance {

// The text of pytorch-2.11.json: each row's name with {"prints": ...} or {"raises", "text"}.
const char* expected_json();

// What PyTorch answers to a row: the printed text (a list in Python's form, its strings in plain
// single quotes), or "TypeError: text" where it raises.
struct Expected {
  std::string name;
  std::string text;
};
const std::vector<Expected>& expected_rows();
// Throws Error for a row that the data file does not have.
const Expected& expected_row(const std::string& name);

}  // namespace taper::v0::conformance
