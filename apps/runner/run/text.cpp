#include "apps/runner/run/text.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <system_error>
#include <vector>

#include <glob.h>

#include "apps/runner/run/errors.h"
#include "apps/runner/train/signals.h"

namespace taper::runner {

namespace fs = std::filesystem;

constexpr std::size_t kComparedBytes = 64;
constexpr std::size_t kMaxAlternatives = 1000, kMaxPattern = 4096;

// How many patterns the groups {a,b} of one make together, or more where they are nested.
static std::size_t alternatives_of(std::string_view pattern) {
  std::size_t all = 1;
  std::vector<std::size_t> open;
  for (const char c : pattern) {
    if (c == '{') open.push_back(1);
    if (open.empty() || (c != ',' && c != '}')) continue;
    if (c == ',') {
      ++open.back();
    } else {
      all = std::min(all * open.back(), kMaxAlternatives + 1);
      open.pop_back();
    }
  }
  return all;
}

static void add_directory(const fs::path& directory, std::vector<fs::path>& out) {
  for (auto it = fs::recursive_directory_iterator(directory); it != fs::end(it); ++it) {
    const bool is_hidden = it->path().filename().string().starts_with('.');
    if (is_hidden && it->is_directory()) it.disable_recursion_pending();
    if (!is_hidden && it->is_regular_file()) out.push_back(it->path());
  }
}

InputFile open_file(const fs::path& file, std::string_view what) try {
  return InputFile(file.string(), what);
} catch (const Error& error) {
  throw InputError(error.what());
}

std::string read_file(const fs::path& file, std::string_view what, std::size_t most) try {
  return InputFile(file.string(), what).text(most);
} catch (const OutOfMemoryError&) {
  throw;
} catch (const Error& error) {
  throw InputError(error.what());
}

std::string read_texts(const std::string& path) try {
  std::vector<fs::path> files;
  std::error_code ignored;
  glob_t found{};
  if (fs::is_directory(path, ignored)) {
    add_directory(path, files);
  } else if (fs::exists(path, ignored)) {
    files.emplace_back(path);
  } else if (path.size() > kMaxPattern || alternatives_of(path) > kMaxAlternatives) {
    throw InputError(cat("data.path ", in_quotes(path), ": its groups {a,b} make more than ",
                         kMaxAlternatives, " patterns, or it is longer than ", kMaxPattern,
                         " bytes; name a directory"));
  } else if (glob(path.c_str(), GLOB_BRACE, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      if (!fs::is_directory(found.gl_pathv[i])) files.emplace_back(found.gl_pathv[i]);
    }
  }
  globfree(&found);
  std::ranges::sort(files);
  std::string text;
  for (const fs::path& file : files) {
    check_stop();
    const std::string part = read_file(file, "text");
    if (part.find('\0') != std::string::npos) {
      throw InputError(cat(file.string(), ": expected text, got a file with a zero byte"));
    }
    text += part;
  }
  if (!text.empty()) return text;
  throw InputError(files.empty()
                       ? cat("data.path '", path, "' names no file: expected a text file, ",
                             "a directory of some, or a pattern such as 'src/*.cpp'")
                       : cat("data.path '", path, "' names only empty files"));
} catch (const fs::filesystem_error& error) {
  throw InputError(error.what());
}

CodePoint first_code_point(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {};
  uint32_t value = lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) return {};
    value = value << 6 | (next & 0x3F);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = value >= 0xD800 && value < 0xE000;
  if (value < kLeast[length] || value > 0x10FFFF || is_surrogate) return {};
  return {value, length};
}

std::size_t first_invalid(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = first_code_point(text.substr(at));
    if (c.value == CodePoint::kInvalid) return at;
    at += c.length;
  }
  return text.size();
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

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += out.empty() ? w : cat(", ", w);
  return out;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  a = a.substr(0, kComparedBytes);
  b = b.substr(0, kComparedBytes);
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
