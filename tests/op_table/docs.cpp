// The page of operators, made from the op table.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "tests/op_table/op_table.h"

namespace taper::v0::test {
namespace {

struct Entry {
  std::set<DType> dtypes;
  Derivative derivative = Derivative::none;
};

// "float32 float64 int64", in the order of kAllDTypes; "all" for all of them.
std::string list_of(const std::set<DType>& dtypes) {
  if (dtypes == std::set<DType>(std::begin(kAllDTypes), std::end(kAllDTypes))) return "all";
  std::string out;
  for (const DType t : kAllDTypes) {
    if (dtypes.count(t)) out += cat(out.empty() ? "" : " ", name_of(t));
  }
  return out;
}

const char* words_of(Derivative d) {
  if (d == Derivative::none) return "no";
  return d == Derivative::first ? "once" : "twice and more";
}

}  // namespace

std::map<std::string, std::string> declared_operators() {
  const std::regex declaration(
      "^(?:\\[\\[nodiscard\\]\\] )?(?:inline )?[A-Z:a-z<>]+ ([a-z][a-z0-9_]*)\\(.*");
  std::map<std::string, std::string> family_of;
  // What these declare is tested elsewhere, or serves operators alone.
  const std::set<std::string> apart = {"formulas", "reduction", "rows", "sparse",
                                       "sync_batch_norm"};
  std::set<std::filesystem::path> headers;  // in order: of what two declare the last counts
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(TAPER_SOURCE_DIR "/autograd/ops")) {
    const auto& path = entry.path();
    if (path.extension() == ".h" && !apart.count(path.stem())) headers.insert(path);
  }
  for (const auto& header : headers) {
    std::ifstream file(header);
    for (std::string line; std::getline(file, line);) {
      std::smatch match;
      if (!std::regex_match(line, match, declaration)) continue;
      const std::string name = match[1];
      if (name.starts_with("operator") || name.ends_with("_"))
        continue;  // those change their first
      family_of[name] = header.stem();
    }
  }
  return family_of;
}

std::string operators_page() {
  std::map<std::string, std::map<std::string, Entry>> families;
  const std::map<std::string, std::string> family_of = declared_operators();
  for (const Row& row : all_rows()) {
    const auto family = family_of.find(row.name);
    if (family == family_of.end()) continue;
    Entry& entry = families[family->second][row.name];
    entry.dtypes.insert(row.dtypes.begin(), row.dtypes.end());
    entry.derivative = std::max(entry.derivative, row.derivative);
  }
  std::string page =
      "# Operators\n\n"
      "Made from the op table by `build/tests/test_ops --docs > docs/operators.md`; a test keeps "
      "it "
      "in step.\n"
      "Every operator runs on the CPU and on CUDA, and each is checked there against a "
      "double-precision reference in every dtype listed. Gradient says how often an operator can "
      "be "
      "differentiated: `once` means that its backward pass is a fused kernel, which refuses "
      "`create_graph` by name. Contracts stand in the headers of `autograd/ops/`.\n";
  for (const auto& [family, operators] : families) {
    page += cat("\n## ", family, "\n\n| operator | dtypes | gradient |\n|---|---|---|\n");
    for (const auto& [name, entry] : operators) {
      page += cat("| `", name, "` | ", list_of(entry.dtypes), " | ", words_of(entry.derivative),
                  " |\n");
    }
  }
  return page;
}

}  // namespace taper::v0::test
