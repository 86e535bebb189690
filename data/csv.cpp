#include "data/csv.h"

#include <algorithm>
#include <cmath>

#include "framework/factories.h"
#include "framework/hooks.h"
#include "framework/text.h"

namespace taper::data {
namespace {

using detail::in_quotes;

Batch rows_of(const CsvTable& table) {
  Batch out{tensor_of(table.features.data(), {table.rows, table.width}), {}};
  if (!table.labels.empty()) out.targets = tensor_of(table.labels.data(), {table.rows});
  if (!table.targets.empty()) out.targets = tensor_of(table.targets.data(), {table.rows});
  return out;
}

// Gaps are filled in any case; a word's feature stays 0 or 1.
Standardizer scale_of(const CsvTable& table, const Tensor& train, bool is_standardized) {
  Standardizer out = fit_standardizer(train.span<float>(), table.width);
  size_t feature = 0;
  for (const auto& words : table.categories) {
    for (size_t i = 0; i < std::max<size_t>(words.size(), 1); ++i, ++feature) {
      if (is_standardized && words.empty()) continue;
      out.mean[feature] = 0;
      out.std[feature] = 1;
    }
  }
  return out;
}

// From the file's unit to that of the model's outputs.
void scale_targets(const DataInfo& info, const Tensor& targets) {
  if (info.task != Task::kRegression || !targets.defined()) return;
  for (float& y : targets.span<float>()) {
    y = static_cast<float>((y - info.target_mean) / info.target_std);
  }
}

// What the rows have nothing to say about.
void check_columns(const CsvTable& table, const std::string& file) {
  const auto is_same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  const bool is_constant =
      table.classes.empty() && std::ranges::count(table.targets, table.targets[0]) == table.rows;
  if (table.classes.size() == 1 || (is_constant && table.rows > 1)) {
    throw DataError(cat(file, ": column '", table.label_name, "' has the one value ",
                        is_constant ? cat(table.targets[0]) : in_quotes(table.classes[0]),
                        ": there is nothing to learn"));
  }
  std::string names;
  int64_t count = 0;
  for (int64_t column = 0, first = 0; column < table.columns; ++column) {
    const int64_t width = std::max<int64_t>(std::ssize(table.categories[size_t(column)]), 1);
    bool differs = width > 1;
    for (int64_t at = first; !differs && at < std::ssize(table.features); at += table.width) {
      differs = !is_same(table.features[size_t(at)], table.features[size_t(first)]);
    }
    first += width;
    if (differs) continue;
    if (++count <= 3)
      names += cat(names.empty() ? "" : ", ", in_quotes(table.feature_names[size_t(column)]));
  }
  if (count == 0 || table.rows < 2) return;
  warn(cat(file, ": ", count, " feature column(s) are empty or the same in every row and tell ",
           "nothing: ", names, count > 3 ? ", ..." : ""));
}

}  // namespace

Splits Csv::load(uint64_t seed) const {
  CsvTable table = read_csv(path, *this);
  check_columns(table, path);
  Halves rows;
  if (test_path) {
    rows = {rows_of(table), rows_of(read_csv_like(table, *test_path))};
  } else {
    rows = random_split(rows_of(table), test_fraction, seed, "data.test_fraction");
  }
  Splits out;
  out.task = task;
  out.class_names = table.classes;
  out.outputs = task == Task::kRegression ? 1 : std::ssize(table.classes);
  out.input_shape = {table.width};
  table.scale = scale_of(table, rows.train.inputs, standardize);
  if (scale_target && task == Task::kRegression) {
    const Standardizer target = fit_standardizer(rows.train.targets.span<float>(), 1);
    out.target_mean = target.mean[0];
    out.target_std = target.std[0];
  }
  for (const Batch& half : {rows.train, rows.test}) {
    data::standardize(half.inputs.span<float>(), table.scale);
    scale_targets(out, half.targets);
  }
  out.table = std::move(table);
  out.train = std::make_shared<TensorDataset>(rows.train);
  out.test = std::make_shared<TensorDataset>(rows.test);
  return out;
}

std::vector<DataFile> Csv::files() const {
  std::vector<DataFile> out = {{path, {path}}};
  if (test_path) out.push_back({*test_path, {*test_path}});
  return out;
}

DatasetPtr Csv::more(const DataInfo& info, const std::filesystem::path& file) const {
  if (!info.table) throw InputError(cat(file.string(), ": the training data were no table"));
  const CsvTable table = read_csv_like(*info.table, file, true);
  const Batch rows = rows_of(table);
  data::standardize(rows.inputs.span<float>(), table.scale);
  scale_targets(info, rows.targets);
  return std::make_shared<TensorDataset>(rows);
}

}  // namespace taper::data
