// What PyTorch prints and raises, read from the data file in the source folder.
#pragma once

#include <string>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::conformance {

// PyTorch's answer to a row of pytorch-2.11.json. A row is {"prints": ...} or {"raises": ...,
// "text": ...}. The text is what is printed (a list as in Python, strings in single quotes), or
// "TypeError: text" for an exception.
struct Expected {
  std::string name;
  std::string text;
};
const std::vector<Expected>& expected_rows();
// Throws Error if the data file has no such row.
const Expected& expected_row(const std::string& name);

}  // namespace taper::v0::conformance
