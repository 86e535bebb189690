#include "data/text/text_folder.h"

#include <algorithm>
#include <chrono>

#include "data/folders.h"
#include "data/text/token_files.h"
#include "framework/base/cancel.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostTextBytes = 16 << 20;  // as in a cell of a table

bool is_text_file(const fs::path& file) { return text_extension(file) == ".txt"; }

// Throws InputError if the text is too long or not UTF-8.
std::string read_text(const fs::path& file) {
  std::string text = read_text_file(file, kMostTextBytes);
  if (text.size() > kMostTextBytes) {
    throw InputError(name_of(file), ": a text of ", text_size(file) >> 20, " MiB; the most is ",
                     kMostTextBytes >> 20,
                     " MiB. A language model (`type: text`) reads long texts");
  }
  const size_t bad = detail::first_invalid(text);
  if (bad == text.size()) return text;
  throw InputError(name_of(file), ":",
                   1 + std::count(text.begin(), text.begin() + int64_t(bad), '\n'),
                   ": not UTF-8; `iconv -f latin1 -t utf-8` converts Latin-1");
}

// Reads the texts of several folders into the columns of one table.
class TextFolderReader {
 public:
  TextFolderReader() {
    for (const char* name : {kTextColumn, kClassColumn, kFileColumn}) {
      table_.columns.emplace_back().name = name;
    }
  }

  void add_path(const fs::path& path) {
    const int64_t before = table_.rows;
    TableFile file{.path = path.string(), .format = "texts", .encoding = "utf-8"};
    file.has_header = true;
    table_.places.push_back({before, std::ssize(table_.files), 1});
    if (fs::is_directory(path)) {
      add_folder(path);
    } else {
      add_text(path, "");
    }
    const std::string others = left_out_.to_text();
    require<InputError>(table_.rows > before, name_of(path), ": no .txt files",
                        others.empty() ? "" : "; ", others,
                        "; expected a folder of them, or one for each class");
    file.rows = table_.rows - before;
    file.bytes = bytes_;
    table_.files.push_back(std::move(file));
  }

  RawTable take() {
    if (const std::string text = left_out_.to_text(); !text.empty()) table_.notes.push_back(text);
    if (!has_classes_) table_.columns.erase(table_.columns.begin() + 1);
    for (RawColumn& column : table_.columns) column.finish();
    return std::move(table_);
  }

 private:
  void add_folder(const fs::path& path) {
    const SubfolderListing classes = folders_in(path, is_text_file, "unlabeled text");
    if (classes.folders.empty()) return add_texts(path, "");
    left_out_.add_all(classes.left_out);
    for (const fs::path& folder : classes.folders) add_texts(folder, name_of(folder.filename()));
    has_classes_ = true;
  }
  void add_texts(const fs::path& folder, const std::string& label) {
    const FolderListing found = files_below(folder, is_text_file);
    left_out_.add_all(found.left_out);
    for (const fs::path& file : found.files) add_text(file, label);
  }
  void add_text(const fs::path& file, const std::string& label) {
    check_stop();
    const std::string text = read_text(file);
    bytes_ += std::ssize(text);
    table_.columns[0].add_word(text);
    table_.columns[1].add_word(label);
    table_.columns[2].add_word(name_of(file));
    ++table_.rows;
  }

  RawTable table_;
  SkippedFiles left_out_;
  int64_t bytes_ = 0;
  bool has_classes_ = false;
};

}  // namespace

bool is_text_folder(const fs::path& path) {
  std::error_code none;
  return fs::is_directory(path, none) || (fs::exists(path, none) && is_text_file(path));
}

std::vector<fs::path> list_text_files(const fs::path& folder) {
  return files_below(folder, is_text_file).files;
}

RawTable read_text_folders(const std::vector<fs::path>& paths) try {
  const auto start = std::chrono::steady_clock::now();
  TextFolderReader reader;
  for (const fs::path& path : paths) reader.add_path(path);
  RawTable table = reader.take();
  table.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return table;
} catch (const fs::filesystem_error& error) {
  throw InputError(error.what());
}

}  // namespace taper::v0::data
