#include "data/folders.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <system_error>
#include <utility>

#include "framework/base/cancel.h"
#include "framework/base/error.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;

std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> out;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    out.push_back(*at);
  }
  if (error) throw InputError(name_of(folder), ": ", error.message());
  // Links are sorted last, so that a folder that is also linked is read under its own name.
  std::ranges::sort(out, {}, [](const fs::directory_entry& e) {
    std::error_code none;
    return std::pair(e.is_symlink(none), e.path());
  });
  return out;
}

enum class EntryKind { kFolder, kFile, kLeftOut };

// Counts an entry that no reader accepts.
EntryKind kind_of(const fs::directory_entry& entry, SkippedFiles& left_out) {
  std::error_code none;
  // macOS adds the folder __MACOSX to archives.
  const std::string name = entry.path().filename().native();
  if (name.starts_with('.') || name == "__MACOSX") {
    left_out.add("hidden");
  } else if (entry.is_directory(none)) {
    return EntryKind::kFolder;
  } else if (entry.is_regular_file(none)) {
    return EntryKind::kFile;
  } else {
    left_out.add(entry.exists(none) ? "special file" : "broken link");
  }
  return EntryKind::kLeftOut;
}

bool is_within(const fs::path& path, const fs::path& folder) {
  return std::ranges::mismatch(path, folder).in2 == folder.end();
}

class Walk {
 public:
  Walk(const FileFilter& takes, FolderListing& out) : takes_(takes), out_(out) {}

  void visit(const fs::path& folder) {
    check_stop();
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    if (error) throw InputError(name_of(folder), ": ", error.message());
    seen_.insert(real);
    for (const fs::directory_entry& entry : entries_of(folder)) {
      const EntryKind kind = kind_of(entry, out_.left_out);
      if (kind == EntryKind::kFolder) visit_below(entry.path(), real);
      if (kind != EntryKind::kFile) continue;
      if (takes_(entry.path())) {
        out_.files.push_back(entry.path());
      } else {
        out_.left_out.add_file(entry.path());
      }
    }
  }

 private:
  void visit_below(const fs::path& folder, const fs::path& parent) {
    std::error_code none;
    const fs::path real = fs::canonical(folder, none);
    if (seen_.contains(real) || is_within(parent, real)) {
      return out_.left_out.add("repeated folder link");
    }
    visit(folder);
  }

  const FileFilter& takes_;
  FolderListing& out_;
  std::set<fs::path> seen_;
};

}  // namespace

void SkippedFiles::add_file(const fs::path& file) {
  std::string end = name_of(file.extension());
  std::ranges::transform(end, end.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  add(end.empty() ? "extensionless file" : end);
}

void SkippedFiles::add_all(const SkippedFiles& other) {
  for (const auto& [kind, count] : other.counts_) counts_[kind] += count;
}

std::string SkippedFiles::to_text() const {
  constexpr size_t kMostShown = 8;
  std::vector<std::pair<std::string, int64_t>> kinds(counts_.begin(), counts_.end());
  std::ranges::stable_sort(kinds, std::greater(), [](const auto& kind) { return kind.second; });
  std::string out;
  int64_t others = 0;
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (i >= kMostShown) {
      others += kinds[i].second;
      continue;
    }
    const auto& [kind, count] = kinds[i];
    const bool is_plural = count > 1 && kind.find(' ') != std::string::npos;
    out += concat_to_string(out.empty() ? "left out: " : ", ", count, " ",
                            detail::escaped_for_display(kind, 40), is_plural ? "s" : "");
  }
  return others > 0 ? concat_to_string(out, ", ", others, " others") : out;
}

FolderListing files_below(const fs::path& folder, const FileFilter& takes) {
  FolderListing out;
  Walk(takes, out).visit(folder);
  std::ranges::sort(out.files);
  return out;
}

SubfolderListing folders_in(const fs::path& folder, const FileFilter& is_sample,
                            const std::string& kind_of_sample) {
  SubfolderListing out;
  std::error_code none;
  const fs::path here = fs::canonical(folder, none);
  for (const fs::directory_entry& entry : entries_of(folder)) {
    const EntryKind kind = kind_of(entry, out.left_out);
    if (kind == EntryKind::kFile && is_sample && is_sample(entry.path())) {
      out.left_out.add(kind_of_sample);
    } else if (kind == EntryKind::kFile) {
      out.left_out.add_file(entry.path());
    }
    if (kind != EntryKind::kFolder) continue;
    if (is_within(here, fs::canonical(entry.path(), none))) {
      out.left_out.add("repeated folder link");
      continue;
    }
    out.folders.push_back(entry.path());
  }
  std::ranges::sort(out.folders);
  return out;
}

std::string name_of(const fs::path& path) {
  const std::string text = path.string();
  if (detail::first_invalid(text) == text.size()) return text;
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const detail::CodePoint c = detail::first_code_point(rest);
    const auto byte = static_cast<unsigned char>(rest[0]);
    if (c.value == detail::CodePoint::kInvalid) {
      out += concat_to_string("\\x", kHex[byte >> 4], kHex[byte & 15]);
    } else if (byte == '\\') {
      out += "\\\\";
    } else {
      out += rest.substr(0, c.length);
    }
    rest.remove_prefix(c.length);
  }
  return out;
}

}  // namespace taper::v0::data
