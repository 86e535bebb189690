#include "data/tables/csv.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <ranges>

#include "data/tables/reading/csv_cells.h"
#include "framework/base/cancel.h"
#include "framework/base/log.h"
#include "framework/factory/factories.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

using detail::in_quotes;

// Returns the table's cells [N, columns] with its labels or targets, in the units of the file.
Batch rows_of(CsvTable& table) {
  Batch out{tensor_of(table.cells.data(), {table.rows, table.columns}), {}};
  table.cells = {};
  if (!table.labels.empty()) out.targets = tensor_of(table.labels.data(), {table.rows});
  if (!table.targets.empty()) out.targets = tensor_of(table.targets.data(), {table.rows});
  return out;
}

// Computes the scaling from the cells of the training rows. Missing values are always replaced.
// Unless is_standardized, values are not scaled. One-hot features of words stay 0 or 1.
Standardizer scale_of(const CsvTable& table, const Tensor& cells, bool is_standardized) {
  const std::span<const double> all = cells.span<double>();
  const Standardizer columns = fit_standardizer(all, table.columns);
  Standardizer out;
  for (size_t j = 0; j < columns.mean.size(); ++j) {
    const size_t words = table.categories[j].size();
    if (words == 0) {
      out.add(columns.fill[j], is_standardized ? columns.mean[j] : 0,
              is_standardized ? columns.std[j] : 1);
      continue;
    }
    std::vector<int64_t> counts(words);
    for (size_t i = j; i < all.size(); i += columns.mean.size()) {
      if (!std::isnan(all[i])) ++counts[size_t(all[i])];
    }
    const auto known = std::accumulate(counts.begin(), counts.end(), int64_t(0));
    for (const int64_t count : counts) {
      out.add(double(count) / double(std::max<int64_t>(known, 1)), 0, 1);
    }
  }
  return out;
}

// Encodes the rows as features and converts them from the file's units to the model's.
Batch scaled(const DataInfo& info, const CsvEncoding& table, const Batch& rows) {
  Batch out{features_of(table, rows.inputs.cpu().to(kFloat64).contiguous()), rows.targets};
  if (info.task != Task::kRegression || !rows.targets.defined()) return out;
  std::vector<float> targets;
  for (const double y : rows.targets.span<double>()) {
    targets.push_back(static_cast<float>((y - info.target_mean) / info.target_std));
  }
  out.targets = tensor_of(targets.data(), {std::ssize(targets)});
  return out;
}

// Warns if rounding to float32 loses precision that the file has.
void check_precision(const Csv& csv, const CsvTable& table, const Batch& train) {
  const Standardizer found = fit_standardizer(train.inputs.span<double>(), table.columns);
  const auto say = [&](const std::string& column, const char* key) {
    warn(concat_to_string(
        csv.path, ": the numbers of column ", in_quotes(column),
        " differ by less than float32 can hold, which is what the model takes: say `", key,
        ": true`, or subtract a constant"));
  };
  for (size_t j = 0; !csv.standardize && j < found.mean.size(); ++j) {
    const bool is_number = table.categories[j].empty();
    if (is_number && is_beyond_float32(found.mean[j], found.std[j])) {
      say(table.feature_names[j], "standardize");
    }
  }
  if (csv.task != Task::kRegression || csv.scale_target) return;
  const Standardizer target = fit_standardizer(train.targets.span<double>(), 1);
  if (is_beyond_float32(target.mean[0], target.std[0])) say(table.label_name, "scale_target");
}

// Warns if the label column has so many different values that it is probably not a class.
void check_classes(const CsvTable& table, const std::string& file) {
  constexpr int64_t kMost = 10;  // fewer integers may be grades or ranks
  const auto is_number = [](const std::string& name) { return !csv::is_text(name); };
  const auto is_integer = [](const std::string& name) { return csv::integer_of(name).has_value(); };
  const int64_t count = std::ssize(table.classes);
  const bool are_numbers = std::ranges::all_of(table.classes, is_number);
  const bool has_decimals = are_numbers && !std::ranges::all_of(table.classes, is_integer);
  if (count <= kMost || (!has_decimals && 2 * count <= table.rows)) return;
  warn(concat_to_string(
      file, ": column '", table.label_name, "' has ", count, " different values in ", table.rows,
      " rows", has_decimals ? ", some with decimals" : "",
      ", and each is a class: ", are_numbers ? "task: regression?" : "is it the label?"));
}

// Warns of columns that contain no information.
void check_columns(const CsvTable& table, const std::string& file) {
  const auto is_same = [](double a, double b) {
    return a == b || (std::isnan(a) && std::isnan(b));
  };
  const bool is_constant =
      table.classes.empty() && std::ranges::count(table.targets, table.targets[0]) == table.rows;
  if (table.classes.size() == 1 || (is_constant && table.rows > 1)) {
    throw DataError(file, ": column '", table.label_name, "' has the one value ",
                    is_constant ? concat_to_string(table.targets[0]) : in_quotes(table.classes[0]),
                    ": there is nothing to learn");
  }
  std::string names;
  int64_t count = 0;
  const auto columns = static_cast<size_t>(table.columns);
  for (size_t column = 0; column < columns; ++column) {
    bool differs = table.categories[column].size() > 1;
    for (size_t at = column; !differs && at < table.cells.size(); at += columns) {
      differs = !is_same(table.cells[at], table.cells[column]);
    }
    if (differs) continue;
    if (++count <= 3)
      names += concat_to_string(names.empty() ? "" : ", ", in_quotes(table.feature_names[column]));
  }
  if (count == 0 || table.rows < 2) return;
  warn(concat_to_string(file, ": ", count,
                        " feature column(s) are empty or the same in every row and tell ",
                        "nothing: ", names, count > 3 ? ", ..." : ""));
}

}  // namespace

Tensor features_of(const CsvEncoding& encoding, const Tensor& cells) {
  const auto columns = static_cast<size_t>(encoding.columns);
  require<ValueError>(cells.dim() == 2 && cells.size(1) == encoding.columns,
                      "features_of: expected cells [N, ", encoding.columns, "], got ",
                      cells.shape());
  const Tensor out = empty({cells.size(0), encoding.width}, {.dtype = kFloat32});
  const bool is_scaled = !encoding.scale.mean.empty();
  float* to = out.data<float>();
  size_t feature = 0;
  const auto put = [&](double x) {
    *to++ = static_cast<float>(is_scaled ? encoding.scale(x, feature) : x);
    ++feature;
  };
  const std::span<const double> all = cells.span<double>();
  for (size_t i = 0; i < all.size(); ++i) {
    if (i % columns == 0) {
      check_stop();
      feature = 0;
    }
    const size_t words = encoding.categories[i % columns].size();
    if (words == 0) put(all[i]);
    for (size_t w = 0; w < words; ++w) put(std::isnan(all[i]) ? all[i] : all[i] == double(w));
  }
  return out;
}

// Throws OptionError if the table has more features than options.max_features.
static void check_width(const Csv& csv, const CsvTable& table) {
  if (table.width <= csv.max_features) return;
  std::vector<size_t> widest(table.categories.size());
  std::iota(widest.begin(), widest.end(), size_t(0));
  std::ranges::stable_sort(widest, std::greater(),
                           [&](size_t j) { return table.categories[j].size(); });
  std::string names;
  for (const size_t j : widest | std::views::take(3)) {
    const size_t words = table.categories[j].size();
    if (words == 0) break;
    names += concat_to_string(names.empty() ? "; most words are in " : ", ",
                              in_quotes(table.feature_names[j]), " (", words, ")");
  }
  throw OptionError(
      "max_features",
      concat_to_string(csv.path, " makes ", table.width, " input features, more than the ",
                       csv.max_features, " of data.max_features", names,
                       names.empty() ? ": leave columns out, or raise it"
                                     : ": leave such columns out, or raise it"));
}

Splits Csv::load(uint64_t seed) const {
  CsvTable table = read_csv(path, *this);
  check_width(*this, table);
  check_columns(table, path);
  check_classes(table, path);
  TrainTestSplit rows;
  if (test_path) {
    CsvTable test = read_csv_like(table, *test_path);
    rows = {rows_of(table), rows_of(test)};
  } else {
    rows = random_split(rows_of(table), test_fraction, seed, "data.test_fraction");
  }
  check_precision(*this, table, rows.train);
  const bool is_regression = task == Task::kRegression;
  DataInfo info{.task = task,
                .input_shape = {table.width},
                .outputs = is_regression ? 1 : std::ssize(table.classes),
                .class_names = table.classes};
  table.scale = scale_of(table, rows.train.inputs, standardize);
  if (scale_target && is_regression) {
    const Standardizer target = fit_standardizer(rows.train.targets.span<double>(), 1);
    info.target_mean = target.mean[0];
    info.target_std = target.std[0];
  }
  rows = {scaled(info, table, rows.train), scaled(info, table, rows.test)};
  info.table = std::make_shared<const CsvEncoding>(std::move(table));
  return splits_of(info, rows);
}

static DatasetPtr further_rows(const DataInfo& info, const std::filesystem::path& file,
                               LabelColumn label) {
  if (!info.table) throw InputError(file.string(), ": the training data were no table");
  CsvTable table = read_csv_like(*info.table, file, label);
  return std::make_shared<TensorDataset>(scaled(info, table, rows_of(table)));
}

DatasetPtr Csv::more(const DataInfo& info, const std::filesystem::path& file) const {
  return further_rows(info, file, LabelColumn::kOptional);
}

DatasetPtr Csv::unlabeled(const DataInfo& info, const std::filesystem::path& file) const {
  return further_rows(info, file, LabelColumn::kIgnored);
}

DType Csv::raw_dtype(const DataInfo& info) const {
  return is_beyond_float32(info.table->scale) ? kFloat64 : kFloat32;
}

Tensor Csv::prepared(const DataInfo& info, const Tensor& raw) const {
  return standardized(raw, info.table->scale);
}

}  // namespace taper::v0::data
