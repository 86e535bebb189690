#include "data/tables/table_encoding.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "data/source.h"
#include "data/tables/reading/byte_source.h"
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
    refuse_cell(table, row, f.name,
                concat_to_string("expected a ", f.kind == ColumnKind::kDate ? "date" : "number",
                                 ", as in training, got ", in_quotes(column.text(row))));
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
                  const EncodingOptions& options) {
  std::map<std::string, int64_t> counts;
  for (const int64_t row : rows) ++counts[category_in_cell(cells, row)];
  for (const auto& [word, count] : counts) {
    const bool is_word = word.empty() ? options.has_missing_category : count >= options.rare;
    if (is_word) f.words.push_back(word);
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
    fit_category(f, cells, rows, options);
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

// The indices of a category's cells, as FeatureColumn defines them. Each word of the column is
// looked up once.
class CategoryIndex {
 public:
  CategoryIndex(const FeatureColumn& f, const CellReader& cells) : cells_(cells) {
    for (const std::string& word : f.words) index_.emplace(word, float(index_.size() + 1));
    missing_ = find("");
    const WordRange words = cells.column().words();
    for (size_t i = 0; i < words.size(); ++i) {
      of_word_.push_back(cells.is_missing_word(int64_t(i)) ? missing_
                                                           : find(std::string(words[i])));
    }
  }
  // Returns 0 for a word that training did not have.
  float of(int64_t row) {
    const int64_t word = cells_.column().word(row);
    if (word >= 0) return of_word_[size_t(word)];
    if (cells_.is_missing(row)) return missing_;
    const auto [found, is_new] = of_number_.try_emplace(cells_.column().number(row), 0.f);
    if (is_new) found->second = find(cells_.column().text(row));
    return found->second;
  }

 private:
  float find(const std::string& word) const {
    const auto found = index_.find(word);
    return found == index_.end() ? 0 : found->second;
  }

  const CellReader& cells_;
  std::unordered_map<std::string, float> index_;
  std::unordered_map<double, float> of_number_;
  std::vector<float> of_word_;
  float missing_ = 0;
};

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
    CategoryIndex index(f, cells);
    for (size_t i = 0; i < rows_.size(); ++i) {
      const float found = index.of(rows_[i]);
      if (found == 0 && encoding.refuses_unknown) {
        const std::string word = category_in_cell(cells, rows_[i]);
        refuse_cell(table, rows_[i], f.name,
                    concat_to_string(in_quotes(word), " is not among the words of training: ",
                                     csv::nearest_names(f.words, word, 10),
                                     "; `unknown: category` takes it as an unknown word"));
      }
      *at(i) = found;
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

// Gives the columns of a file without a header the names of training. If it lacks exactly the
// targets, or these and the weight, the names skip them.
static void name_columns(const TableEncoding& encoding, RawTable& table,
                         const std::filesystem::path& file) {
  std::vector<std::string> names = encoding.column_names;
  const size_t whole = names.size();
  if (table.columns.size() + encoding.targets.size() == whole) {
    for (const TargetColumn& target : encoding.targets) std::erase(names, target.name);
  }
  if (!encoding.weight.empty() && table.columns.size() + encoding.targets.size() + 1 == whole) {
    for (const TargetColumn& target : encoding.targets) std::erase(names, target.name);
    std::erase(names, encoding.weight);
  }
  require<InputError>(table.columns.size() == names.size(), file.string(), ": expected ", whole,
                      " columns, as the training file has, got ", table.columns.size());
  for (size_t i = 0; i < names.size(); ++i) table.columns[i].name = names[i];
}

// Returns whether the header of a file, after `skip` lines, is this column alone.
static bool has_only_column(const std::filesystem::path& file, const std::string& name,
                            int64_t skip) {
  constexpr size_t kMostBytes = 1 << 16;
  if (name.empty() || !std::filesystem::exists(file)) return false;
  std::string text(kMostBytes, '\0');
  text.resize(reading::open_bytes(file)->read(text.data(), text.size()));
  std::string_view rest = text;
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
  for (int64_t i = 0; i < skip; ++i) {
    rest.remove_prefix(std::min(rest.size(), rest.find('\n') + 1));  // npos + 1 is 0
  }
  std::string_view header = rest.substr(0, rest.find('\n'));
  if (header.ends_with('\r')) header.remove_suffix(1);
  return header == name || header == concat_to_string('"', name, '"');
}

RawTable read_table_like(const TableEncoding& encoding, const std::filesystem::path& file,
                         bool needs_targets) {
  using Header = TableReadOptions::Header;
  TableReadOptions options{.delimiter = "auto",
                           .decimal = encoding.decimal,
                           .encoding = encoding.encoding,
                           .skip = encoding.skip,
                           .header = encoding.has_header ? Header::kPresent : Header::kAbsent};
  // The commas and blanks of texts do not separate cells if there are no other cells.
  if (encoding.has_header && has_only_column(file, encoding.text, encoding.skip)) {
    constexpr const char* kNever = "\x1f";
    options.delimiter = kNever;
  }
  std::vector<std::string> words = encoding.keep;
  if (!encoding.text.empty()) words.push_back(encoding.text);
  RawTable table = read_table(expand_wildcards({file}), options, words);
  if (!encoding.has_header) name_columns(encoding, table, file);
  std::vector<std::string> needed;
  for (const FeatureColumn& f : encoding.features) needed.push_back(f.name);
  if (!encoding.text.empty()) needed.push_back(encoding.text);
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
