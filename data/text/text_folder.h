// Folders of texts, read as a table. Not a public header.
#pragma once

#include <filesystem>
#include <vector>

#include "data/tables/raw_table.h"

namespace taper::v0::data {

// The columns of a table that read_text_folders() returns.
inline constexpr const char* kTextColumn = "text";
inline constexpr const char* kClassColumn = "class";
inline constexpr const char* kFileColumn = "file";

// Returns whether the path is a folder or a file that ends in ".txt" or ".txt.gz".
bool is_text_folder(const std::filesystem::path& path);

// Returns the texts in a folder and below it, sorted.
std::vector<std::filesystem::path> list_text_files(const std::filesystem::path& folder);

// Returns a table with a row for each text, in the order of the paths, each of which counts as one
// file of the table. A path is a folder with a folder of texts for each class, a folder of texts
// without classes, or a single text. Texts are files that end in ".txt", and compressed ones that
// end in ".txt.gz" or ".txt.zst". Other files are skipped, and a note counts them. A table of paths
// without classes has no column of classes.
//
// Throws InputError with the file, and the line where it is known, if a folder has no texts, or a
// text cannot be read, is not UTF-8, or has more than 16 MiB.
RawTable read_text_folders(const std::vector<std::filesystem::path>& paths);

}  // namespace taper::v0::data
