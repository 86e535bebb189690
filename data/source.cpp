#include "data/source.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "framework/base/log.h"
#include "framework/factory/factories.h"

namespace taper::v0::data {

namespace fs = std::filesystem;

TrainTestSplit random_split(const Batch& all, double test_fraction, uint64_t seed,
                            const std::string& key) {
  const int64_t rows = all.inputs.size(0), test = std::llround(double(rows) * test_fraction);
  require<InputError>(test >= 1 && test < rows, key, " ", test_fraction, " of ", rows,
                      " rows leaves ", rows - test, " to train and ", test,
                      " to test; both must be at least 1");
  Generator generator(seed);
  const Tensor order = randperm(rows, {}, &generator);
  const TensorDataset whole(all);
  return {whole.get(order.narrow(0, test, rows - test)), whole.get(order.narrow(0, 0, test))};
}

Splits splits_of(DataInfo info, const TrainTestSplit& rows) {
  return {std::move(info), std::make_shared<TensorDataset>(rows.train),
          std::make_shared<TensorDataset>(rows.test)};
}

std::string sizes_text(const Splits& parts) {
  return parts.validation
             ? concat_to_string(parts.train->size(), " training, ", parts.validation->size(),
                                " validation and ", parts.test->size(), " test samples")
             : concat_to_string(parts.train->size(), " training and ", parts.test->size(),
                                " test samples");
}

std::vector<DataFile> files_of(std::initializer_list<std::optional<std::string>> paths) {
  std::vector<DataFile> out;
  for (const std::optional<std::string>& path : paths) {
    if (path) out.push_back({*path, {*path}});
  }
  return out;
}

std::vector<DataFile> files_in(const fs::path& directory) {
  std::vector<DataFile> out;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(directory, none)) {
    if (entry.is_regular_file()) out.push_back({entry.path(), {entry.path()}});
  }
  std::ranges::sort(out, {}, &DataFile::name);
  return out;
}

std::vector<DataFile> vocabulary_files(const std::string& path) {
  std::error_code none;
  return fs::is_directory(path, none) ? files_in(path) : files_of({path});
}

int64_t count_classes(std::span<const int64_t> labels, const std::string& file) {
  constexpr int64_t kUnlabelled = 255;
  const std::set<int64_t> seen(labels.begin(), labels.end());
  const int64_t classes = 1 + *seen.rbegin(), missing = classes - std::ssize(seen);
  require<DataError>(seen.size() > 1, file, ": all labels are ", *seen.begin(),
                     ": there is nothing to learn");
  if (*seen.rbegin() == kUnlabelled && missing > 0) {
    const auto first = std::ranges::find(labels, kUnlabelled) - labels.begin();
    throw DataError(file, ": record ", first, " (counted from 0) has the label 255, but ", missing,
                    " labels below it never come: take out what has no label");
  }
  if (missing == 0) return classes;
  int64_t gap = 0;
  while (seen.contains(gap)) ++gap;
  warn(concat_to_string(file, ": labels go to ", classes - 1, ", so the model has ", classes,
                        " outputs, but ", missing, " of them never come (the first is ", gap,
                        "): number the classes from 0"));
  return classes;
}

void require_classes(std::span<const int64_t> labels, int64_t classes, const std::string& file) {
  const auto bad = std::ranges::find_if(labels, [=](int64_t y) { return y < 0 || y >= classes; });
  if (bad == labels.end()) return;
  throw InputError(file, ": record ", bad - labels.begin(), " (counted from 0): expected a ",
                   "label in 0 .. ", classes - 1, ", got ", *bad);
}

void require_names(const DataInfo& info) {
  const bool has_classes = info.task == Task::kClassification;
  require<ValueError>(!has_classes || std::ssize(info.class_names) == info.outputs,
                      "the data have ", info.outputs, " outputs, but ", info.class_names.size(),
                      " class_names");
}

std::vector<std::string> numbers_below(int64_t count) {
  std::vector<std::string> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(concat_to_string(i));
  return out;
}

DatasetPtr Source::more(const DataInfo&, const fs::path& file) const {
  throw InputError(file.string(), ": data of this type have no further files");
}

}  // namespace taper::v0::data
