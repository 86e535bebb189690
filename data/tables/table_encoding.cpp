#include "data/tables/table_encoding.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "data/source.h"
#include "data/tables/reading/csv_cells.h"
#include "data/tables/standardizer.h"
#include "data/tables/text_words.h"
#include "framework/base/cancel.h"
#include "framework/factory/factories.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

using detail::in_quotes;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kDateNumbers = 6;

template <class... Args>
[[noreturn]] void fail_at(const RawTable& table, int64_t row, const std::string& column,
                          const Args&... args) {
  throw InputError(
      concat_to_string(table.place_of(row), ": column ", in_quotes(column), ": ", args...));
}

const RawColumn& column_of(const RawTable& table, const std::string& name) {
  return table.columns[size_t(find_column(table, name))];
}

// Returns year, month, day, weekday, hour and days since `first`.
std::array<double, kDateNumbers> date_numbers(double seconds, double first) {
  using namespace std::chrono;
  const auto time = sys_seconds(std::chrono::seconds(int64_t(std::floor(seconds))));
  const auto day = floor<days>(time);
  const year_month_day date(day);
  return {double(int(date.year())),
          double(unsigned(date.month())),
          double(unsigned(date.day())),
          double(weekday(day).iso_encoding() - 1),
          double(duration_cast<hours>(time - day).count()),
          (seconds - first) / 86400};
}

// Returns the number or date of a cell; nan if it is missing.
double real_of(const FeatureColumn& f, const RawTable& table, const CellReader& cells,
               int64_t row) {
  if (cells.is_missing(row)) return kNoNumber;
  const RawColumn& column = cells.column();
  const double value = f.kind == ColumnKind::kDate
                           ? date_in_cell(column, row, f.date_form, f.date_order)
                           : column.number(row);
  if (std::isnan(value)) {
    fail_at(table, row, f.name, "expected a ", f.kind == ColumnKind::kDate ? "date" : "number",
            ", as in training, got ", in_quotes(column.text(row)));
  }
  return value;
}

std::vector<double> reals_of(const FeatureColumn& f, const RawTable& table, const CellReader& cells,
                             std::span<const int64_t> rows) {
  std::vector<double> out;
  out.reserve(rows.size());
  for (const int64_t row : rows) out.push_back(real_of(f, table, cells, row));
  check_stop();
  return out;
}

// Returns the median of the values that are not nan; 0 if all are.
double median_of(std::vector<double> values) {
  std::erase_if(values, [](double x) { return std::isnan(x); });
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// Sets the mean and standard deviation of features from a row-major matrix.
void fit_scale(FeatureColumn& f, const std::vector<double>& matrix, int64_t columns,
               bool is_scaled) {
  if (!is_scaled || matrix.empty()) {
    f.mean.assign(size_t(columns), 0);
    f.std.assign(size_t(columns), 1);
    return;
  }
  Standardizer found = fit_standardizer(matrix, columns);
  f.mean = std::move(found.mean);
  f.std = std::move(found.std);
}

void fit_reals(FeatureColumn& f, std::vector<double> values, bool is_scaled) {
  f.has_gap_feature = std::ranges::any_of(values, [](double x) { return std::isnan(x); });
  f.fill = median_of(values);
  std::erase_if(values, [](double x) { return std::isnan(x); });
  if (f.kind == ColumnKind::kNumber) return fit_scale(f, values, 1, is_scaled);
  f.first_date = values.empty() ? 0 : *std::ranges::min_element(values);
  std::vector<double> numbers;
  for (const double seconds : values) {
    const auto each = date_numbers(seconds, f.first_date);
    numbers.insert(numbers.end(), each.begin(), each.end());
  }
  fit_scale(f, numbers, int64_t(kDateNumbers), is_scaled);
}

// Returns the text of a category's cell; "" if it is missing.
std::string category_in_cell(const CellReader& cells, int64_t row) {
  return cells.is_missing(row) ? "" : cells.column().text(row);
}

void fit_category(FeatureColumn& f, const CellReader& cells, std::span<const int64_t> rows,
                  int64_t rare) {
  std::map<std::string, int64_t> counts;
  for (const int64_t row : rows) ++counts[category_in_cell(cells, row)];
  for (const auto& [word, count] : counts) {
    if (count >= rare || word.empty()) f.words.push_back(word);
  }
}

FeatureColumn fit_feature(const RawTable& table, const ColumnSummary& summary,
                          std::span<const int64_t> rows, const EncodingOptions& options) {
  FeatureColumn f{.name = summary.name,
                  .kind = summary.kind,
                  .missing = summary.missing_cells,
                  .date_form = summary.date_form,
                  .date_order = summary.date_order};
  const CellReader cells(column_of(table, f.name), f.missing);
  if (f.kind == ColumnKind::kCategory) {
    fit_category(f, cells, rows, options.rare);
  } else if (f.kind == ColumnKind::kText) {
    f.words = frequent_words(cells, rows, options.text_words);
  } else {
    fit_reals(f, reals_of(f, table, cells, rows), options.standardize);
  }
  return f;
}

bool is_feature(ColumnKind kind) {
  return kind == ColumnKind::kNumber || kind == ColumnKind::kCategory ||
         kind == ColumnKind::kDate || kind == ColumnKind::kText;
}

// --- encoding ---

// Writes the features of one column to a row-major matrix.
class FeatureWriter {
 public:
  FeatureWriter(Tensor& out, std::span<const int64_t> rows)
      : out_(out.data<float>()), width_(out.size(1)), rows_(rows) {}

  void write_reals(const FeatureColumn& f, const RawTable& table, const CellReader& cells) {
    const std::vector<double> values = reals_of(f, table, cells, rows_);
    for (size_t i = 0; i < values.size(); ++i) {
      float* to = at(i);
      const bool is_missing = std::isnan(values[i]);
      const double value = is_missing ? f.fill : values[i];
      if (f.kind == ColumnKind::kNumber) {
        *to++ = scaled(f, value, 0);
      } else {
        const auto numbers = date_numbers(value, f.first_date);
        for (size_t j = 0; j < kDateNumbers; ++j) *to++ = scaled(f, numbers[j], j);
      }
      if (f.has_gap_feature) *to = is_missing ? 1 : 0;
    }
    first_ += f.real_features();
  }

  void write_texts(const FeatureColumn& f, const CellReader& cells) {
    const WordCounter counter(f.words);
    for (size_t i = 0; i < rows_.size(); ++i) counter.count(cells, rows_[i], at(i));
    first_ += f.real_features();
  }

  void write_categories(const TableEncoding& encoding, const FeatureColumn& f,
                        const RawTable& table, const CellReader& cells) {
    std::unordered_map<std::string, float> index;
    for (const std::string& word : f.words) index.emplace(word, float(index.size() + 1));
    for (size_t i = 0; i < rows_.size(); ++i) {
      const std::string word = category_in_cell(cells, rows_[i]);
      const auto found = index.find(word);
      if (found == index.end() && encoding.refuses_unknown) {
        fail_at(table, rows_[i], f.name, in_quotes(word),
                " is not among the words of training: ", csv::nearest_names(f.words, word, 10),
                "; `unknown: category` takes it as an unknown word");
      }
      *at(i) = found == index.end() ? 0 : found->second;
    }
    ++first_;
  }

 private:
  float* at(size_t i) { return out_ + int64_t(i) * width_ + first_; }
  static float scaled(const FeatureColumn& f, double value, size_t j) {
    return float((value - f.mean[j]) / f.std[j]);
  }

  float* out_;
  int64_t width_, first_ = 0;
  std::span<const int64_t> rows_;
};

double target_value(const TargetColumn& target, const RawTable& table, const CellReader& cells,
                    int64_t row) {
  if (cells.is_missing(row)) fail_at(table, row, target.name, "the target is missing");
  const double value = cells.column().number(row);
  if (std::isnan(value)) {
    fail_at(table, row, target.name, "expected a number, got ", in_quotes(cells.column().text(row)),
            csv::guess_of(cells.column().text(row)), "; `task: classification` predicts classes");
  }
  if (!target.is_log) return value;
  if (value <= 0) {
    fail_at(table, row, target.name, "its logarithm is the target, but it is ", value,
            ", not above 0; remove log");
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

Tensor encode_classes(const TargetColumn& target, const RawTable& table, const CellReader& cells,
                      std::span<const int64_t> rows) {
  std::unordered_map<std::string, int64_t> index;
  for (const std::string& name : target.classes) index.emplace(name, std::ssize(index));
  std::vector<int64_t> out;
  for (const int64_t row : rows) {
    if (cells.is_missing(row)) fail_at(table, row, target.name, "the target is missing");
    const std::string text = cells.column().text(row);
    const auto found = index.find(text);
    if (found == index.end()) {
      fail_at(table, row, target.name, "class ", in_quotes(text),
              " is not in the training data; the nearest of its classes are ",
              csv::nearest_names(target.classes, text, 10));
    }
    out.push_back(found->second);
  }
  return tensor_of(out.data(), {std::ssize(out)});
}

}  // namespace

int64_t FeatureColumn::real_features() const {
  switch (kind) {
    case ColumnKind::kNumber: return 1 + has_gap_feature;
    case ColumnKind::kDate: return int64_t(kDateNumbers) + has_gap_feature;
    case ColumnKind::kText: return std::ssize(words);
    default: return 0;
  }
}

int64_t TableEncoding::real_features() const {
  int64_t sum = 0;
  for (const FeatureColumn& f : features) sum += f.real_features();
  return sum;
}

std::vector<int64_t> TableEncoding::category_sizes() const {
  std::vector<int64_t> out;
  for (const FeatureColumn& f : features) {
    if (f.kind == ColumnKind::kCategory) out.push_back(std::ssize(f.words) + 1);
  }
  return out;
}

std::vector<FeatureColumn> fit_features(const RawTable& table,
                                        const std::vector<ColumnSummary>& columns,
                                        std::span<const int64_t> rows,
                                        const EncodingOptions& options) {
  std::vector<FeatureColumn> out;
  for (const ColumnSummary& column : columns) {
    if (is_feature(column.kind)) out.push_back(fit_feature(table, column, rows, options));
  }
  return out;
}

TargetColumn fit_target(const RawTable& table, const ColumnSummary& column, Task task, bool is_log,
                        bool is_scaled, std::span<const int64_t> rows,
                        std::span<const int64_t> all_rows) {
  TargetColumn out{.name = column.name, .missing = column.missing_cells, .is_log = is_log};
  const CellReader cells(column_of(table, column.name), column.missing_cells);
  if (task == Task::kClassification) {
    out.classes = classes_of(cells, all_rows);
    return out;
  }
  std::vector<double> values;
  for (const int64_t row : rows) values.push_back(target_value(out, table, cells, row));
  if (!is_scaled || values.empty()) return out;
  const Standardizer scale = fit_standardizer(values, 1);
  out.mean = scale.mean[0];
  out.std = scale.std[0];
  return out;
}

Tensor encode_features(const TableEncoding& encoding, const RawTable& table,
                       std::span<const int64_t> rows) {
  Tensor out = empty({std::ssize(rows), encoding.width()}, {.dtype = kFloat32});
  FeatureWriter writer(out, rows);
  for (const FeatureColumn& f : encoding.features) {
    if (f.kind == ColumnKind::kCategory) continue;
    const CellReader cells(column_of(table, f.name), f.missing);
    if (f.kind == ColumnKind::kText) writer.write_texts(f, cells);
    if (f.kind != ColumnKind::kText) writer.write_reals(f, table, cells);
  }
  for (const FeatureColumn& f : encoding.features) {
    if (f.kind != ColumnKind::kCategory) continue;
    writer.write_categories(encoding, f, table, {column_of(table, f.name), f.missing});
  }
  return out;
}

Tensor encode_targets(const TableEncoding& encoding, const RawTable& table,
                      std::span<const int64_t> rows) {
  std::vector<float> out;
  for (const TargetColumn& target : encoding.targets) {
    const CellReader cells(column_of(table, target.name), target.missing);
    if (!target.classes.empty()) return encode_classes(target, table, cells, rows);
    for (const int64_t row : rows) {
      out.push_back(float((target_value(target, table, cells, row) - target.mean) / target.std));
    }
  }
  const auto n = std::ssize(rows), count = std::ssize(encoding.targets);
  const Tensor values = tensor_of(out.data(), {count, n});
  return count == 1 ? values.reshape({n}) : values.transpose(0, 1).contiguous();
}

std::vector<TargetScale> scales_of_several(const TableEncoding& encoding) {
  std::vector<TargetScale> out;
  if (encoding.targets.size() == 1) return out;
  for (const TargetColumn& target : encoding.targets) {
    out.push_back({target.name, target.mean, target.std, target.is_log});
  }
  return out;
}

// Gives the columns of a file without a header the names of training. If it lacks exactly the
// targets, the names skip them.
static void name_columns(const TableEncoding& encoding, RawTable& table,
                         const std::filesystem::path& file) {
  std::vector<std::string> names = encoding.column_names;
  const size_t whole = names.size();
  if (table.columns.size() + encoding.targets.size() == whole) {
    for (const TargetColumn& target : encoding.targets) std::erase(names, target.name);
  }
  require<InputError>(table.columns.size() == names.size(), file.string(), ": expected ", whole,
                      " columns, as the training file has, got ", table.columns.size());
  for (size_t i = 0; i < names.size(); ++i) table.columns[i].name = names[i];
}

RawTable read_table_like(const TableEncoding& encoding, const std::filesystem::path& file,
                         bool needs_targets) {
  using Header = TableReadOptions::Header;
  TableReadOptions options{.delimiter = "auto",
                           .decimal = encoding.decimal,
                           .encoding = encoding.encoding,
                           .skip = encoding.skip,
                           .header = encoding.has_header ? Header::kPresent : Header::kAbsent};
  RawTable table = read_table(expand_wildcards({file}), options, encoding.keep);
  if (!encoding.has_header) name_columns(encoding, table, file);
  std::vector<std::string> needed;
  for (const FeatureColumn& f : encoding.features) needed.push_back(f.name);
  for (const TargetColumn& target : encoding.targets) {
    if (needs_targets) needed.push_back(target.name);
  }
  std::vector<std::string> names;
  for (const RawColumn& column : table.columns) names.push_back(column.name);
  for (const std::string& name : needed) {
    require<InputError>(table.find(name) >= 0, file.string(), ": no column ", in_quotes(name),
                        ", which the model was trained with; the nearest of its columns are ",
                        csv::nearest_names(names, name));
  }
  return table;
}

}  // namespace taper::v0::data
