// How the text of a table is laid out, found from its first rows. Not a public header.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/tables/reading/row_scanner.h"

namespace taper::v0::data::reading {

// The settings of the user for a file; see TableReadOptions.
struct LayoutRequest {
  std::string delimiter = "auto", decimal = ".";
  int64_t skip = 0;
  enum class Header { kAuto, kPresent, kAbsent } header = Header::kAuto;
  // The columns of an earlier file of the same table. A first row with such cells is a header.
  std::set<std::string, std::less<>> known_names{};
  // A first row with one of these words is a header.
  std::set<std::string, std::less<>> expected_names{};
};

struct TableLayout {
  CellFormat format;
  bool has_header = false;
  std::vector<std::string> names;  // of all columns, each once
  std::vector<std::string> notes;
  size_t start = 0;        // offset of the first row of data in the sample
  int64_t start_line = 1;  // its line, from 1
};

// Finds the layout from the first rows of a file. `is_whole` states whether the sample is the whole
// file. Throws InputError with the file and line if the text has no rows, if there are lines above
// the table that are not rows of it, or if it is not clear whether the first row is a header.
TableLayout find_layout(const std::string& path, std::string_view sample, bool is_whole,
                        const LayoutRequest& request);

}  // namespace taper::v0::data::reading
