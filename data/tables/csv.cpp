#include "data/tables/csv.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "autograd/ops/binary.h"
#include "autograd/ops/unary.h"
#include "data/tables/csv_cells.h"
#include "framework/factories.h"
#include "framework/host/hooks.h"
#include "framework/io/text.h"

namespace taper::v0::data {
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

// From the file's units to the model's, in place.
void scale(const DataInfo& info, const Standardizer& features, const Batch& rows) {
  standardize(rows.inputs.span<float>(), features);
  if (info.task != Task::kRegression || !rows.targets.defined()) return;
  for (float& y : rows.targets.span<float>()) {
    y = static_cast<float>((y - info.target_mean) / info.target_std);
  }
}

// Values that were taken for the names of classes.
void check_classes(const CsvTable& table, const std::string& file) {
  constexpr int64_t kMost = 10;  // fewer may be marks or ranks
  const auto is_number = [](const std::string& name) { return !csv::is_text(name); };
  const auto is_integer = [](const std::string& name) { return csv::integer_of(name).has_value(); };
  const int64_t count = std::ssize(table.classes);
  const bool are_numbers = std::ranges::all_of(table.classes, is_number);
  const bool has_decimals = are_numbers && !std::ranges::all_of(table.classes, is_integer);
  if (count <= kMost || (!has_decimals && 2 * count <= table.rows)) return;
  warn(cat(file, ": column '", table.label_name, "' has ", count, " different values in ",
           table.rows, " rows", has_decimals ? ", some with decimals" : "",
           ", and each is a class: ", are_numbers ? "task: regression?" : "is it the label?"));
}

// What the rows have nothing to say about.
void check_columns(const CsvTable& table, const std::string& file) {
  const auto is_same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  const bool is_constant =
      table.classes.empty() && std::ranges::count(table.targets, table.targets[0]) == table.rows;
  if (table.classes.size() == 1 || (is_constant && table.rows > 1)) {
    throw DataError(file, ": column '", table.label_name, "' has the one value ",
                    is_constant ? cat(table.targets[0]) : in_quotes(table.classes[0]),
                    ": there is nothing to learn");
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

Standardizer fit_standardizer(std::span<const float> matrix, int64_t columns) {
  require<ValueError>(columns > 0 && !matrix.empty() && std::ssize(matrix) % columns == 0,
                      "fit_standardizer: ", matrix.size(), " values are no rows of ", columns,
                      " columns");
  const auto width = static_cast<size_t>(columns);
  Standardizer out;
  for (size_t j = 0; j < width; ++j) {
    double mean = 0, square = 0, count = 0;
    for (size_t i = j; i < matrix.size(); i += width) {
      if (std::isnan(matrix[i])) continue;
      mean += matrix[i];
      ++count;
    }
    mean /= std::max(count, 1.0);
    for (size_t i = j; i < matrix.size(); i += width) {
      if (!std::isnan(matrix[i])) square += (matrix[i] - mean) * (matrix[i] - mean);
    }
    const auto std = static_cast<float>(std::sqrt(square / std::max(count, 1.0)));
    out.mean.push_back(static_cast<float>(mean));
    out.std.push_back(std == 0 ? 1 : std);
  }
  out.fill = out.mean;
  return out;
}

void standardize(std::span<float> matrix, const Standardizer& standardizer) {
  const size_t width = standardizer.mean.size();
  require<ValueError>(width != 0 && matrix.size() % width == 0, "standardize: ", matrix.size(),
                      " values are no rows of ", width, " columns");
  for (size_t i = 0; i < matrix.size(); ++i) {
    const size_t j = i % width;
    const double x = std::isnan(matrix[i]) ? standardizer.fill[j] : matrix[i];
    matrix[i] = static_cast<float>((x - standardizer.mean[j]) / standardizer.std[j]);
  }
}

Splits Csv::load(uint64_t seed) const {
  CsvTable table = read_csv(path, *this);
  check_columns(table, path);
  check_classes(table, path);
  const Halves rows = test_path
                          ? Halves{rows_of(table), rows_of(read_csv_like(table, *test_path))}
                          : random_split(rows_of(table), test_fraction, seed, "data.test_fraction");
  const bool is_regression = task == Task::kRegression;
  DataInfo info{.task = task,
                .input_shape = {table.width},
                .outputs = is_regression ? 1 : std::ssize(table.classes),
                .class_names = table.classes};
  table.scale = scale_of(table, rows.train.inputs, standardize);
  if (scale_target && is_regression) {
    const Standardizer target = fit_standardizer(rows.train.targets.span<float>(), 1);
    info.target_mean = target.mean[0];
    info.target_std = target.std[0];
  }
  for (const Batch& half : {rows.train, rows.test}) scale(info, table.scale, half);
  info.table = std::make_shared<const CsvRecipe>(std::move(table));
  return splits_of(info, rows);
}

DatasetPtr Csv::more(const DataInfo& info, const std::filesystem::path& file) const {
  if (!info.table) throw InputError(file.string(), ": the training data were no table");
  const CsvTable table = read_csv_like(*info.table, file, true);
  const Batch rows = rows_of(table);
  scale(info, table.scale, rows);
  return std::make_shared<TensorDataset>(rows);
}

// data::standardize by ops.
Tensor Csv::prepared(const DataInfo& info, const Tensor& raw) const {
  const Standardizer& s = info.table->scale;
  const auto row = [&](const std::vector<float>& x) {
    return tensor_of(x.data(), {std::ssize(x)}).to(raw.device(), kFloat64);
  };
  const Tensor x = where(isnan(raw), row(s.fill), raw.to(kFloat64));
  return ((x - row(s.mean)) / row(s.std)).to(kFloat32);
}

}  // namespace taper::v0::data
