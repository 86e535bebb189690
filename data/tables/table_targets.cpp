#include "data/tables/table_targets.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

#include "data/tables/reading/csv_cells.h"
#include "data/tables/standardizer.h"
#include "framework/factory/factories.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

using detail::in_quotes;

constexpr const char* kNoTarget = "the target is missing";

const RawColumn& target_column(const RawTable& table, const std::string& name) {
  return table.columns[size_t(find_column(table, name))];
}

double target_value(const TargetColumn& target, const RawTable& table, const CellReader& cells,
                    int64_t row) {
  if (cells.is_missing(row)) refuse_cell(table, row, target.name, kNoTarget);
  const double value = cells.column().number(row);
  if (std::isnan(value)) {
    const std::string text = cells.column().text(row);
    refuse_cell(table, row, target.name,
                concat_to_string("expected a number, got ", in_quotes(text), csv::guess_of(text),
                                 "; `task: classification` predicts classes"));
  }
  if (!target.is_log) return value;
  if (value <= 0) {
    refuse_cell(table, row, target.name,
                concat_to_string("its logarithm is the target, but it is ", value,
                                 ", not above 0; remove log"));
  }
  return std::log(value);
}

bool all_integers(const std::vector<std::string>& texts) {
  return std::ranges::all_of(
      texts, [](const std::string& text) { return csv::integer_of(text).has_value(); });
}

std::vector<std::string> classes_of(const CellReader& cells, std::span<const int64_t> rows) {
  std::set<std::string> found;
  for (const int64_t row : rows) found.insert(cells.column().text(row));
  std::vector<std::string> out(found.begin(), found.end());
  if (all_integers(out)) {
    std::ranges::sort(out, {}, [](const std::string& text) { return *csv::integer_of(text); });
  }
  return out;
}

// Returns the class of each row.
std::vector<int64_t> classes_in(const TargetColumn& target, const RawTable& table,
                                std::span<const int64_t> rows, bool allows_missing = false) {
  const CellReader cells(target_column(table, target.name), target.missing);
  std::unordered_map<std::string, int64_t> index;
  for (const std::string& name : target.classes) index.emplace(name, std::ssize(index));
  std::vector<int64_t> out;
  for (const int64_t row : rows) {
    if (cells.is_missing(row)) {
      if (!allows_missing) refuse_cell(table, row, target.name, kNoTarget);
      out.push_back(-1);
      continue;
    }
    const std::string text = cells.column().text(row);
    const auto found = index.find(text);
    if (found == index.end()) {
      refuse_cell(table, row, target.name,
                  concat_to_string("class ", in_quotes(text),
                                   " is not in the training data; the nearest of its classes are ",
                                   csv::nearest_names(target.classes, text, 10)));
    }
    out.push_back(found->second);
  }
  return out;
}

// Returns the values of each row as the model predicts them.
std::vector<float> values_in(const TargetColumn& target, const RawTable& table,
                             std::span<const int64_t> rows, bool allows_missing) {
  const CellReader cells(target_column(table, target.name), target.missing);
  std::vector<float> out;
  for (const int64_t row : rows) {
    const bool has_none = allows_missing && cells.is_missing(row);
    const double value = has_none ? std::numeric_limits<double>::quiet_NaN()
                                  : target_value(target, table, cells, row);
    out.push_back(float((value - target.mean) / target.std));
  }
  return out;
}

}  // namespace

TargetColumn fit_target(const RawTable& table, const ColumnSummary& column, Task task, bool is_log,
                        bool is_scaled, std::span<const int64_t> rows,
                        std::span<const int64_t> all_rows) {
  TargetColumn out{.name = column.name, .missing = column.missing_cells, .is_log = is_log};
  const CellReader cells(target_column(table, column.name), column.missing_cells);
  if (task == Task::kClassification) {
    out.classes = classes_of(cells, all_rows);
    return out;
  }
  std::vector<double> values;
  for (const int64_t row : rows) values.push_back(target_value(out, table, cells, row));
  const auto [low, high] = std::ranges::minmax_element(values);
  require<DataError>(values.size() < 2 || *low < *high, table.files[0].path, ": column ",
                     in_quotes(out.name), " has the one value ", cells.column().text(rows[0]),
                     " in all training rows: there is nothing to learn");
  if (!is_scaled || values.empty()) return out;
  const Standardizer scale = fit_standardizer(values, 1);
  out.mean = scale.mean[0];
  out.std = scale.std[0];
  return out;
}

Tensor encode_targets(const TableEncoding& encoding, const RawTable& table,
                      std::span<const int64_t> rows, bool allows_missing) {
  const auto n = std::ssize(rows), count = std::ssize(encoding.targets);
  std::vector<float> out;
  for (const TargetColumn& target : encoding.targets) {
    if (target.classes.empty()) {
      std::ranges::copy(values_in(target, table, rows, allows_missing), std::back_inserter(out));
      continue;
    }
    const std::vector<int64_t> classes = classes_in(target, table, rows, allows_missing);
    if (count == 1) return tensor_of(classes.data(), {n});
    out.insert(out.end(), classes.begin(), classes.end());
  }
  const Tensor values = tensor_of(out.data(), {count, n});
  return count == 1 ? values.reshape({n}) : values.transpose(0, 1).contiguous();
}

std::vector<int64_t> rows_with_targets(const TableEncoding& encoding, const Tensor& targets) {
  const bool is_regression = encoding.targets[0].classes.empty();
  const std::vector<double> values = targets.to(kFloat64).cpu().contiguous().to_vector<double>();
  const int64_t count = std::ssize(encoding.targets);
  std::vector<int64_t> out;
  for (int64_t row = 0; row < targets.size(0); ++row) {
    const auto first = values.begin() + row * count;
    const bool is_missing = std::any_of(first, first + count, [&](double value) {
      return is_regression ? std::isnan(value) : value < 0;
    });
    if (!is_missing) out.push_back(row);
  }
  return out;
}

Tensor encode_weights(const TableEncoding& encoding, const RawTable& table,
                      std::span<const int64_t> rows) {
  const RawColumn& column = target_column(table, encoding.weight);
  std::vector<float> out;
  for (const int64_t row : rows) {
    const double value = column.number(row);
    if (value >= 0 && value <= double{std::numeric_limits<float>::max()}) {
      out.push_back(float(value));
      continue;
    }
    const std::string text = column.text(row);
    refuse_cell(table, row, column.name,
                text.empty() ? "the weight is missing; expected a number of at least 0"
                             : concat_to_string("expected a weight, a number of at least 0, got ",
                                                in_quotes(text)));
  }
  return tensor_of(out.data(), {std::ssize(out)});
}

std::vector<Label> labels_of(const std::vector<TargetColumn>& targets) {
  std::vector<Label> out;
  if (targets.size() == 1 || targets[0].classes.empty()) return out;
  for (const TargetColumn& target : targets) out.push_back({target.name, target.classes});
  return out;
}

std::vector<int64_t> strata_of(const TableEncoding& encoding, const RawTable& table,
                               std::span<const int64_t> rows) {
  if (encoding.targets.size() == 1) return classes_in(encoding.targets[0], table, rows);
  std::vector<std::vector<int64_t>> combinations(rows.size());
  for (const TargetColumn& target : encoding.targets) {
    const std::vector<int64_t> classes = classes_in(target, table, rows);
    for (size_t i = 0; i < rows.size(); ++i) combinations[i].push_back(classes[i]);
  }
  std::map<std::vector<int64_t>, int64_t> counts;
  for (const auto& each : combinations) ++counts[each];
  // A combination that fewer rows have cannot be divided over three parts.
  constexpr int64_t kRare = 10;
  std::map<std::vector<int64_t>, int64_t> index;
  std::vector<int64_t> out;
  for (const auto& each : combinations) {
    const bool is_rare = counts[each] < kRare;
    out.push_back(is_rare ? 0 : index.try_emplace(each, std::ssize(index) + 1).first->second);
  }
  return out;
}

void require_learnable(const TableEncoding& encoding, const std::string& file) {
  for (const TargetColumn& each : encoding.targets) {
    require<DataError>(encoding.targets.size() == 1 || each.classes.size() <= 2, file, ": column ",
                       in_quotes(each.name), " has ", each.classes.size(),
                       " classes; several targets of classes must have two each");
  }
  for (const TargetColumn& each : encoding.targets) {
    require<DataError>(
        each.classes.size() != 1, file, ": column ", in_quotes(each.name), " has the one value ",
        each.classes.empty() ? "" : in_quotes(each.classes[0]), ": there is nothing to learn");
  }
}

void describe_targets(DataInfo& info, Task task, const TableEncoding& encoding) {
  const TargetColumn& first = encoding.targets[0];
  info.task = task;
  if (task == Task::kRegression) {
    info.outputs = std::ssize(encoding.targets);
    info.target_mean = first.mean;
    info.target_std = first.std;
    info.target_is_log = first.is_log;
    info.several_targets = scales_of_several(encoding.targets);
    return;
  }
  info.labels = labels_of(encoding.targets);
  info.class_names = first.classes;
  if (!info.labels.empty()) info.class_names.clear();
  for (const Label& label : info.labels) info.class_names.push_back(label.name);
  info.outputs = std::ssize(info.class_names);
}

std::vector<TargetScale> scales_of_several(const std::vector<TargetColumn>& targets) {
  std::vector<TargetScale> out;
  if (targets.size() == 1 || !targets[0].classes.empty()) return out;
  for (const TargetColumn& target : targets) {
    out.push_back({target.name, target.mean, target.std, target.is_log});
  }
  return out;
}

}  // namespace taper::v0::data
