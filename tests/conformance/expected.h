// What PyTorch prints and raises: the data file, read from its source folder.
#pragma once

#include <string>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::conformance {

// What PyTorch answers to a row of pytorch-2.11.json, whose rows are {"prints": ...} or
// {"raises": ..., "text": ...}: the printed text (a list in Python's form, its strings in plain
// single quotes), or "TypeError: text" where it raises.
struct Expected {
  std::string name;
  std::string text;
};
const std::vector<Expected>& expected_rows();
// Throws Error for a row that the data file does not have.
const Expected& expected_row(const std::string& name);

}  // namespace taper::v0::conformance
