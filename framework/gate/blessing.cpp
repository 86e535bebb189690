#include "framework/gate/blessing.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "framework/gate/comparison.h"
#include "framework/io/shell_word.h"
#include "framework/io/text_utils.h"

namespace taper::v0::golden {
namespace {

// Returns the first line that a command prints; empty if it fails or prints nothing.
std::string first_line_of(const std::string& command) {
  std::FILE* pipe = ::popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return "";
  std::string out;
  std::array<char, 256> buffer{};
  while (std::fgets(buffer.data(), int(buffer.size()), pipe) != nullptr) out += buffer.data();
  const bool failed = ::pclose(pipe) != 0;
  const std::vector<std::string> lines = detail::lines_of(out);
  return failed || lines.empty() ? "" : lines.front();
}

// Adds the last value of each metric, as "loss before": "0.41 (0x1.a4p-2)".
void add_last_numbers(HistoryEntry& entry, const GoldenSection& section, const char* when) {
  for (const Row& row : section.rows) {
    for (const auto& [metric, value] : row) {
      if (metric == "step") continue;
      const std::string key = concat_to_string(metric, " ", when);
      entry[key] = metric == "state"
                       ? value
                       : concat_to_string(detail::rounded(recorded_number(metric, value), 6), " (",
                                          value, ")");
    }
  }
}

}  // namespace

bool is_reason(const std::string& text) {
  return std::ranges::any_of(text, [](unsigned char c) { return std::isspace(c) == 0; });
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  const size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%d", &utc);
  return {text.data(), size};
}

std::string git_author() {
  const char* name = std::getenv("GIT_AUTHOR_NAME");
  return name != nullptr && *name != 0 ? name : first_line_of("git config user.name");
}

std::string git_commit(const std::filesystem::path& folder) {
  const std::string where = folder.empty() ? "." : folder.string();
  return first_line_of(
      concat_to_string("git -C ", detail::shell_word(where), " describe --always --dirty"));
}

HistoryEntry history_entry(const GoldenSection& old, const GoldenSection& section,
                           const std::string& author, const std::string& reason) {
  HistoryEntry entry = {{"author", author},
                        {"date", today()},
                        {"reason", reason},
                        {"platform", platform_text(section.metadata.program)},
                        {"first different step", movement_of(section.rows, old.rows).step}};
  add_last_numbers(entry, old, "before");
  add_last_numbers(entry, section, "after");
  return entry;
}

}  // namespace taper::v0::golden
