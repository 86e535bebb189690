// Rules for reading folders of files. They are the same for images and texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::data {

// Counts the entries that a reader of folders skips, by kind: ".webp", "broken link", "hidden".
class SkippedFiles {
 public:
  // Counts an entry. A kind of several words is given in the singular, and printed with an s if it
  // occurs several times.
  void add(const std::string& kind) { ++counts_[kind]; }
  // Counts a file under its extension.
  void add_file(const std::filesystem::path& file);
  void add_all(const SkippedFiles& other);
  // Returns for example "left out: 3 .webp, 1 .txt, 2 hidden", the most frequent kinds first; empty
  // if nothing was skipped.
  std::string to_text() const;
  // Returns the number of entries of each kind.
  const std::map<std::string, int64_t>& counts() const { return counts_; }

 private:
  std::map<std::string, int64_t> counts_;
};

struct FolderListing {
  std::vector<std::filesystem::path> files;  // sorted by name
  SkippedFiles left_out{};
};

using FileFilter = std::function<bool(const std::filesystem::path&)>;

// Lists the files in a folder and below it that `takes` accepts. Links are followed. A folder that
// is reached on several paths is read once. A link to a folder that contains the link is skipped,
// so that there is no endless loop. Names that begin with a dot, __MACOSX, broken links and other
// files are skipped and counted. Throws InputError if a folder cannot be read.
FolderListing files_below(const std::filesystem::path& folder, const FileFilter& takes);

struct SubfolderListing {
  std::vector<std::filesystem::path> folders;  // sorted by name
  SkippedFiles left_out{};
};

// Lists the folders in a folder. Everything else in it is skipped and counted by the rules of
// files_below(), except that a file that `is_sample` accepts is counted as `kind_of_sample`, such
// as "unlabeled image": a sample that lies beside the folders of the classes. Throws InputError if
// a folder cannot be read.
SubfolderListing folders_in(const std::filesystem::path& folder, const FileFilter& is_sample = {},
                            const std::string& kind_of_sample = "");

// Returns a file's name as UTF-8. In a name that is not valid UTF-8, invalid bytes are written as
// "\xe9" and backslashes are doubled, so that different names stay different.
std::string name_of(const std::filesystem::path& path);

}  // namespace taper::v0::data
