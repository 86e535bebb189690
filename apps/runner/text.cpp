#include "apps/runner/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <numeric>
#include <system_error>
#include <vector>

#include "apps/runner/errors.h"

namespace taper::runner {

std::string read_file(const std::filesystem::path& file, std::string_view what, std::size_t most) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    throw InputError(cat(file.string(), ": expected the ", what, ", got a directory"));
  }
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::string text;
  std::array<char, 1 << 16> part;
  // By read(), which turns a failing device into badbit; stream iterators would throw.
  while (in && text.size() < most) {
    in.read(part.data(), std::streamsize(std::min(part.size(), most - text.size())));
    text.append(part.data(), std::size_t(in.gcount()));
  }
  if (in.is_open() && !in.bad()) return text;
  throw InputError(
      cat(file.string(), ": cannot read the ", what, ": ", std::generic_category().message(errno)));
}

std::string folded(std::string text) {
  for (char& c : text) {
    c = c == '-' ? '_' : char(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

std::string shown(std::string_view text, std::size_t most) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::size_t end = std::min(text.size(), most);
  while (end > 0 && end < text.size() && is_continuation(text[end])) --end;
  std::string out;
  for (const char c : text.substr(0, end)) {
    out += is_control(c) ? cat("\\x", kHex[std::size_t(c) >> 4], kHex[c & 15]) : cat(c);
  }
  return end < text.size() ? out + "..." : out;
}

std::string in_quotes(std::string_view text) { return cat("'", shown(text, 40), "'"); }

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);  // of the table of all prefixes, one at a time
  std::iota(row.begin(), row.end(), std::size_t(0));
  for (const char from : a) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (from != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace taper::runner
