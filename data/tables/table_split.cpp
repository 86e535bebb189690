#include "data/tables/table_split.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <unordered_map>

#include "data/source.h"
#include "data/split.h"
#include "framework/factory/factories.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

using detail::in_quotes;

constexpr int64_t kFewRows = 200;  // of a table without a validation part

struct Fractions {
  double validation, test;
  double train() const { return 1 - validation - test; }
};

[[noreturn]] void refuse(const std::string& what) { throw OptionError("split", what); }

Fractions fractions_of(const TableSplit& split, int64_t rows) {
  const auto of = [](const std::optional<std::string>& part, double usual) {
    return part ? TableSplit::fraction_of(*part).value_or(0) : usual;
  };
  Fractions out{of(split.validation, rows > kFewRows ? 0.1 : 0), of(split.test, 0.2)};
  if (split.folds > 0) out.test = 1 / double(split.folds);
  if (out.train() <= 0) {
    refuse(concat_to_string("split: validation ", out.validation, " and test ", out.test,
                            " leave nothing to train"));
  }
  return out;
}

// Returns which of three parts each of `count` items is in: 0 training, 1 validation, 2 test.
std::vector<int> random_parts(int64_t count, const Fractions& fractions,
                              const std::vector<int64_t>& classes, const TableSplit& split) {
  std::vector<int> out(size_t(count), 0);
  if (split.folds == 0) {
    const double test = std::round(double(count) * fractions.test),
                 validation = std::round(double(count) * fractions.validation);
    const auto parts = divide_rows(count, {double(count) - test - validation, validation, test},
                                   classes, split.seed);
    for (int part : {1, 2}) {
      for (const int64_t i : parts[size_t(part)]) out[size_t(i)] = part;
    }
    return out;
  }
  const auto folds = divide_rows(count, std::vector<double>(size_t(split.folds), fractions.test),
                                 classes, split.seed);
  std::vector<int64_t> rest, rest_classes;
  for (size_t fold = 0; fold < folds.size(); ++fold) {
    for (const int64_t i : folds[fold]) {
      if (fold == size_t(split.fold)) out[size_t(i)] = 2;
      if (fold != size_t(split.fold)) rest.push_back(i);
    }
  }
  std::ranges::sort(rest);
  for (const int64_t i : rest) {
    if (!classes.empty()) rest_classes.push_back(classes[size_t(i)]);
  }
  const double share = fractions.validation / (1 - fractions.test);
  const auto parts =
      divide_rows(std::ssize(rest), {1 - share, share}, rest_classes, split.seed + 1);
  for (const int64_t i : parts[1]) out[size_t(rest[size_t(i)])] = 1;
  return out;
}

const RawColumn& column_of(const RawTable& table, const TableSplit& split) {
  try {
    return table.columns[size_t(find_column(table, split.column))];
  } catch (const InputError& error) {
    refuse(concat_to_string("split.column: ", error.what()));
  }
}

std::vector<int> group_parts(const RawTable& table, const std::vector<int64_t>& rows,
                             const Fractions& fractions, const TableSplit& split) {
  const RawColumn& column = column_of(table, split);
  std::unordered_map<std::string, int64_t> groups;
  std::vector<int64_t> group_of;
  for (const int64_t row : rows) {
    group_of.push_back(groups.try_emplace(column.text(row), std::ssize(groups)).first->second);
  }
  const std::vector<int> parts = random_parts(std::ssize(groups), fractions, {}, split);
  std::vector<int> out;
  for (const int64_t group : group_of) out.push_back(parts[size_t(group)]);
  return out;
}

// Returns the date or number of each row.
std::vector<double> times_of(const RawTable& table, const std::vector<int64_t>& rows,
                             const RawColumn& column) {
  const WordRange range = column.words();
  const std::vector<std::string_view> words(range.begin(), range.end());
  const DateOrder order = find_date_order(words);
  std::vector<double> out;
  for (const int64_t row : rows) {
    const double time = column.is_number(row) ? column.number(row)
                                              : date_in_cell(column, row, DateForm::kText, order);
    if (std::isnan(time)) {
      refuse(concat_to_string(table.place_of(row), ": split by time: column ",
                              in_quotes(column.name), " has ", in_quotes(column.text(row)),
                              ", which is no date and no number"));
    }
    out.push_back(time);
  }
  return out;
}

std::vector<int> time_parts(const RawTable& table, const std::vector<int64_t>& rows,
                            const Fractions& fractions, const TableSplit& split) {
  const std::vector<double> times = times_of(table, rows, column_of(table, split));
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::stable_sort(order, {}, [&](size_t i) { return times[i]; });
  const auto count = double(rows.size());
  const auto test = size_t(std::llround(count * fractions.test));
  const auto validation = size_t(std::llround(count * fractions.validation));
  std::vector<int> out(rows.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t from_end = order.size() - i;
    out[order[i]] = from_end <= test ? 2 : from_end <= test + validation ? 1 : 0;
  }
  return out;
}

std::vector<int> column_parts(const RawTable& table, const std::vector<int64_t>& rows,
                              const TableSplit& split) {
  const RawColumn& column = column_of(table, split);
  const std::unordered_map<std::string, int> parts = {
      {"train", 0}, {"training", 0}, {"validation", 1}, {"val", 1},
      {"valid", 1}, {"dev", 1},      {"test", 2},       {"testing", 2}};
  std::vector<int> out;
  for (const int64_t row : rows) {
    const auto found = parts.find(detail::lower_case(column.text(row)));
    if (found == parts.end()) {
      refuse(concat_to_string(table.place_of(row), ": split by column: column ",
                              in_quotes(column.name), " has ", in_quotes(column.text(row)),
                              "; expected train, validation or test"));
    }
    out.push_back(found->second);
  }
  return out;
}

std::string how_text(const TableSplit& split, bool is_stratified, const std::string& target) {
  const std::string seed = concat_to_string(
      split.folds > 0 ? concat_to_string(", fold ", split.fold, " of ", split.folds) : "",
      ", seed ", split.seed);
  switch (split.by) {
    case TableSplit::By::kGroup: return concat_to_string("whole groups of ", split.column, seed);
    case TableSplit::By::kTime: return concat_to_string("in the order of ", split.column);
    case TableSplit::By::kColumn: return concat_to_string("by column ", split.column);
    default:
      return is_stratified ? concat_to_string("stratified by ", target, seed)
                           : concat_to_string("at random", seed);
  }
}

}  // namespace

std::optional<double> TableSplit::fraction_of(const std::string& text) {
  double value = 0;
  if (detail::parse_number(text, value) != std::errc()) return std::nullopt;
  return value;
}

bool TableSplit::is_part(const std::string& text) {
  const std::optional<double> fraction = fraction_of(text);
  return fraction ? *fraction >= 0 && *fraction < 1 : !text.empty();
}

RowParts split_rows(const RawTable& table, const std::vector<int64_t>& rows,
                    const std::vector<int64_t>& classes, const std::string& target,
                    const TableSplit& split) {
  const Fractions fractions = fractions_of(split, std::ssize(rows));
  const bool is_stratified = split.by == TableSplit::By::kStratify && !classes.empty();
  std::vector<int> parts;
  switch (split.by) {
    case TableSplit::By::kGroup: parts = group_parts(table, rows, fractions, split); break;
    case TableSplit::By::kTime: parts = time_parts(table, rows, fractions, split); break;
    case TableSplit::By::kColumn: parts = column_parts(table, rows, split); break;
    default:
      parts = random_parts(std::ssize(rows), fractions,
                           is_stratified ? classes : std::vector<int64_t>(), split);
  }
  RowParts out{{}, {}, {}, how_text(split, is_stratified, target)};
  const std::array<std::vector<int64_t>*, 3> lists = {&out.train, &out.validation, &out.test};
  for (size_t i = 0; i < rows.size(); ++i) lists[size_t(parts[i])]->push_back(rows[i]);
  return out;
}

}  // namespace taper::v0::data
