// Access to the files of the source tree, for the tests that compare pages and sources.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace taper::v0::test {

// The root of the source tree.
inline const std::filesystem::path kRoot = TAPER_SOURCE_DIR;

// Returns the lines of a file, without line ends. A file that cannot be read has no lines.
inline std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace taper::v0::test
