#include "data/source.h"

#include <algorithm>
#include <set>

#include "framework/hooks.h"

namespace taper::data {

namespace fs = std::filesystem;

std::vector<DataFile> files_in(const fs::path& directory) {
  std::vector<DataFile> out;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(directory, none)) {
    if (entry.is_regular_file()) out.push_back({entry.path(), {entry.path()}});
  }
  std::ranges::sort(out, {}, &DataFile::name);
  return out;
}

int64_t count_classes(std::span<const int64_t> labels, const std::string& file) {
  constexpr int64_t kUnlabelled = 255;
  const std::set<int64_t> seen(labels.begin(), labels.end());
  const int64_t classes = 1 + *seen.rbegin(), missing = classes - std::ssize(seen);
  if (seen.size() == 1) {
    throw DataError(cat(file, ": all labels are ", *seen.begin(), ": there is nothing to learn"));
  }
  if (*seen.rbegin() == kUnlabelled && missing > 0) {
    const auto first = std::ranges::find(labels, kUnlabelled) - labels.begin();
    throw DataError(cat(file, ": record ", first, " (counted from 0) has the label 255, but ",
                        missing, " labels below it never come: take out what has no label"));
  }
  if (missing == 0) return classes;
  int64_t gap = 0;
  while (seen.contains(gap)) ++gap;
  warn(cat(file, ": labels go to ", classes - 1, ", so the model has ", classes, " outputs, but ",
           missing, " of them never come (the first is ", gap, "): number the classes from 0"));
  return classes;
}

std::vector<std::string> numbers_below(int64_t count) {
  std::vector<std::string> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(cat(i));
  return out;
}

DatasetPtr Source::more(const DataInfo&, const fs::path& file) const {
  throw InputError(cat(file.string(), ": data of this type have no further files"));
}

}  // namespace taper::data
