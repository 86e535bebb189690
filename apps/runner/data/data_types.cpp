#include "apps/runner/config/config.h"

namespace taper::runner {

namespace fs = std::filesystem;

static DataConfig resolved(DataConfig config) {
  std::error_code none;
  const auto find = [&](std::string& path) {
    // Of a pattern only the folder before its first wildcard can be asked for.
    const size_t wild = path.find_first_of("*?[{");
    const fs::path there = config.base / path, folder = config.base / path.substr(0, wild);
    const bool is_pattern = wild != std::string::npos;
    if (fs::exists(there, none) || (is_pattern && fs::exists(folder.parent_path(), none))) {
      path = there.lexically_normal();
    }
  };
  if (config.base.empty()) return config;
  for (std::string* path :
       {&config.mnist.root, &config.idx.train_images, &config.idx.train_labels,
        &config.idx.test_images, &config.idx.test_labels, &config.csv.path, &config.text.path}) {
    if (!path->empty()) find(*path);
  }
  if (config.csv.test_path) find(*config.csv.test_path);
  if (config.text.vocabulary) find(*config.text.vocabulary);
  return config;
}

std::unique_ptr<data::Source> source_of(const DataConfig& given) {
  const DataConfig c = resolved(given);
  const auto make = []<class O>(const O& o) -> std::unique_ptr<data::Source> {
    return std::make_unique<data::SourceOf<O>>(o);
  };
  switch (c.type) {
    case DataType::kMnist: return make(c.mnist);
    case DataType::kIdx: return make(c.idx);
    case DataType::kCsv: return make(c.csv);
    case DataType::kText: return make(c.text);
    default: return make(c.digits);
  }
}

}  // namespace taper::runner
