#include "apps/runner/settings/data_path.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

#include "apps/runner/base/string_utils.h"
#include "apps/runner/config/schema.h"
#include "apps/runner/settings/run_config.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

// Returns the name of a file in lower case, without the extension of a compressed file.
std::string name_without_compression(const fs::path& path) {
  std::string name = folded(path.filename().string());
  for (const std::string_view packed : {".gz", ".zst"}) {
    if (name.ends_with(packed)) name.resize(name.size() - packed.size());
  }
  return name;
}

// Returns whether the first file in a folder, or in the first folders below it, is a text.
bool has_texts(const fs::path& folder) {
  constexpr int kMostLevels = 3;
  std::error_code none;
  fs::path here = folder;
  for (int level = 0; level < kMostLevels; ++level) {
    std::vector<fs::path> folders;
    for (const auto& entry : fs::directory_iterator(here, none)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_directory(none)) folders.push_back(entry.path());
      if (!entry.is_directory(none) && !name.starts_with('.') && level > 0) {
        return name_without_compression(name).ends_with(".txt");
      }
    }
    if (folders.empty()) return false;
    here = *std::ranges::min_element(folders);
  }
  return false;
}

}  // namespace

std::string data_type_of(const fs::path& path) {
  const std::string name = name_without_compression(path);
  constexpr std::string_view kTables[] = {".csv", ".tsv",     ".jsonl", ".ndjson",
                                          ".zip", ".parquet", ".xlsx"};
  const auto ends_name = [&](std::string_view end) { return name.ends_with(end); };
  if (std::ranges::any_of(kTables, ends_name)) return "table";
  if (name.ends_with(".txt")) return "text";
  std::error_code none;
  if (!fs::is_directory(path, none)) return "";
  return has_texts(path) ? "labeled_text" : "images";
}

bool has_config_name(const fs::path& path) {
  const std::string name = folded(path.filename().string());
  return name.ends_with(".yaml") || name.ends_with(".yml");
}

bool is_data_path(const fs::path& path, const std::vector<std::string>& overrides) {
  constexpr std::string_view kKeysOfData[] = {"target=", "type=", "text="};
  std::error_code none;
  const bool is_directory = fs::is_directory(path, none);
  const bool is_nothing = is_directory && fs::is_empty(path, none);
  const bool is_said = std::ranges::any_of(overrides, [&](const std::string& text) {
    return std::ranges::any_of(kKeysOfData,
                               [&](std::string_view key) { return text.starts_with(key); });
  });
  if (is_said && !is_directory && !has_config_name(path)) return true;
  return !data_type_of(path).empty() && !is_nothing && !fs::exists(path / "config.yaml", none);
}

std::string name_of_data(const fs::path& path) {
  const std::string name = fs::absolute(path).lexically_normal().filename().string();
  const size_t dot = name.find('.', 1);
  return name.substr(0, dot);
}

Node config_of_data(const fs::path& path) {
  const auto source = std::make_shared<const Source>(
      Source{.name = concat_to_string("command line: ", path.string()), .number = 0, .lines = {}});
  const Place place{source};
  Node value = Node::entry("path", path.string());
  value.is_quoted = true;
  Node data = Node::map("data", {value}), root = Node::map("", {data});
  for (Node* each : {&root, &root.children[0], &root.children[0].children[0]}) {
    each->place = each->key_place = place;
  }
  return root;
}

std::string full_override(const std::string& text) {
  RunConfig scratch;
  const Schema schema = describe(scratch);
  const std::string section = text.substr(0, text.find_first_of(".="));
  const bool is_full =
      section == "include" || std::ranges::count(schema.fields, section, &Field::name) > 0;
  return is_full ? text : concat_to_string("data.", text);
}

}  // namespace taper::v0::runner
