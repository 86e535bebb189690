#include "data/source.h"

#include <algorithm>

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

DatasetPtr Source::more(const DataInfo&, const fs::path& file) const {
  throw InputError(cat(file.string(), ": data of this type have no further files"));
}

}  // namespace taper::data
