#include "apps/runner/base/text_table.h"

#include <algorithm>

#include "framework/io/text_utils.h"

namespace taper::v0::runner {

// Returns the number of characters, which is the width of a text in most scripts.
static size_t width_of(const std::string& text) {
  return size_t(std::ranges::count_if(text, [](char c) { return !detail::is_continuation(c); }));
}

std::string text_table(const std::vector<std::vector<std::string>>& rows, size_t first_number,
                       size_t last_number) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - width_of(row[i]), ' ');
      const bool is_number = i >= first_number && i <= last_number;
      line += (i > 0 ? "  " : "") + (is_number ? pad + row[i] : row[i] + pad);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace taper::v0::runner
