// How folders of files are read: one rule for pictures and texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::data {

// Counts what a reader of folders skips, by kind: ".webp", "broken link", "hidden".
class LeftOut {
 public:
  // A kind of several words, in the singular, gets an s where there are several.
  void add(const std::string& kind) { ++counts_[kind]; }
  // Counts a file by its extension.
  void add_file(const std::filesystem::path& file);
  void add_all(const LeftOut& other);
  // "left out: 3 .webp, 1 .txt, 2 hidden", the most frequent kinds first; empty if there is
  // nothing.
  std::string to_text() const;

 private:
  std::map<std::string, int64_t> counts_;
};

struct FolderListing {
  std::vector<std::filesystem::path> files;  // in the order of their names
  LeftOut left_out{};
};

using FileFilter = std::function<bool(const std::filesystem::path&)>;

// Lists the files in a folder and below it that `takes` accepts. Links are followed. A folder is
// read once per real path, and a link to a folder that contains it is left out, so that no loop is
// endless. Names that begin with a dot, broken links and other files are left out and counted.
// InputError: a folder that cannot be read.
FolderListing files_below(const std::filesystem::path& folder, const FileFilter& takes);

// Lists the folders in a folder, in the order of their names, and counts what else there is; the
// rule is the same. InputError: a folder that cannot be read.
struct SubfolderListing {
  std::vector<std::filesystem::path> folders;
  LeftOut left_out{};
};
SubfolderListing folders_in(const std::filesystem::path& folder);

// Returns a file's name as UTF-8 text. A name that is no UTF-8 has its other bytes as "\xe9" and
// its backslashes doubled, so that it can be told from every other name.
std::string name_of(const std::filesystem::path& path);

}  // namespace taper::v0::data
