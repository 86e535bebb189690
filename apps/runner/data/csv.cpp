#include "apps/runner/data/csv.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "apps/runner/errors.h"
#include "apps/runner/text.h"

namespace taper::runner {
namespace {

using Fields = std::vector<std::string>;

struct Record {
  int64_t line = 0;  // where it starts, from 1
  Fields fields;
};

template <class... Args>
[[noreturn]] void fail_at(const std::string& file, int64_t line, const Args&... args) {
  throw InputError(cat(file, ":", line, ": ", args...));
}

// Cuts text into records and fields.
class Scanner {
 public:
  Scanner(const std::string& file, std::string_view text, char delimiter)
      : file_(file), text_(text), delimiter_(delimiter) {}

  // The next record that is not a blank line.
  std::optional<Record> next() {
    while (pos_ < text_.size()) {
      Record record{.line = line_, .fields = {scan_field()}};
      while (pos_ < text_.size() && text_[pos_] == delimiter_) {
        ++pos_;
        record.fields.push_back(scan_field());
      }
      skip_line_end();
      if (record.fields.size() > 1 || !record.fields[0].empty()) return record;
    }
    return std::nullopt;
  }

 private:
  std::string_view rest() const { return text_.substr(pos_); }
  bool is_blank(char c) const { return (c == ' ' || c == '\t') && c != delimiter_; }
  bool at_field_end() const {
    return pos_ == text_.size() || text_[pos_] == delimiter_ || text_[pos_] == '\n' ||
           text_[pos_] == '\r';
  }

  void skip_blanks() {
    while (pos_ < text_.size() && is_blank(text_[pos_])) ++pos_;
  }

  void skip_line_end() {
    if (pos_ == text_.size()) return;
    pos_ += rest().starts_with("\r\n") ? 2 : 1;
    ++line_;
  }

  std::string scan_field() {
    skip_blanks();
    if (rest().starts_with('"')) return scan_quoted();
    const size_t start = pos_;
    while (!at_field_end()) ++pos_;
    size_t end = pos_;
    while (end > start && is_blank(text_[end - 1])) --end;
    return std::string(text_.substr(start, end - start));
  }

  std::string scan_quoted() {
    const int64_t opened = line_;
    std::string out;
    for (++pos_; pos_ < text_.size(); ++pos_) {
      const char c = text_[pos_];
      if (c == '\n') ++line_;
      const bool is_doubled = rest().starts_with("\"\"");
      if (is_doubled) ++pos_;
      if (c != '"' || is_doubled) {
        out += c;
        continue;
      }
      ++pos_;
      skip_blanks();
      if (at_field_end()) return out;
      fail_at(file_, line_, "expected the field to end after its closing quote; ",
              "a quote within quotes is written twice");
    }
    fail_at(file_, opened, "a quote is opened here and never closed");
  }

  const std::string& file_;
  std::string_view text_;
  char delimiter_;
  size_t pos_ = 0;
  int64_t line_ = 1;
};

struct Number {
  enum Kind { kFinite, kEmpty, kText, kNotFinite, kTooLarge } kind = kFinite;
  float value = 0;
};

Number number_of(const std::string& field) {
  if (field.empty()) return {Number::kEmpty};
  double value = 0;
  const std::errc error = parse_number(field, value);
  if (error == std::errc::result_out_of_range) return {Number::kTooLarge};
  if (error != std::errc{}) return {Number::kText};
  if (!std::isfinite(value)) return {Number::kNotFinite};
  // Before the cast, which is undefined beyond float's range.
  if (std::abs(value) > double{std::numeric_limits<float>::max()}) return {Number::kTooLarge};
  return {Number::kFinite, static_cast<float>(value)};
}

std::optional<int64_t> integer_of(const std::string& field) {
  int64_t value = 0;
  return parse_number(field, value) == std::errc{} ? std::optional(value) : std::nullopt;
}

// A word in the first row where the second has a number makes a header, unless the first row has
// such numbers too: that may as well be data with a slip in it, and must not vanish silently.
bool detect_header(const std::string& file, const Record& first, const Record& second) {
  std::optional<size_t> word, number;
  for (size_t i = 0; i < std::min(first.fields.size(), second.fields.size()); ++i) {
    const Number::Kind below = number_of(second.fields[i]).kind;
    const Number::Kind above = number_of(first.fields[i]).kind;
    if (below == Number::kText || below == Number::kEmpty || above == Number::kEmpty) continue;
    (above == Number::kText ? word : number) = i;
  }
  if (word && number) {
    fail_at(file, first.line, "column ", *word, " has ", in_quotes(first.fields[*word]),
            " where the next row has a number, but column ", *number, " has the number ",
            in_quotes(first.fields[*number]),
            ": mend the row, or say with data.header whether it is a header");
  }
  return word.has_value();
}

// The three that are the most like `wanted`.
std::string nearest_names(Fields names, const std::string& wanted) {
  std::ranges::stable_sort(names, {},
                           [&](const std::string& name) { return edit_distance(wanted, name); });
  std::string out;
  for (size_t i = 0; i < std::min<size_t>(names.size(), 3); ++i) {
    out += cat(i > 0 ? ", " : "", in_quotes(names[i]));
  }
  return out;
}

template <class Texts> bool all_integers(const Texts& texts) {
  return std::ranges::all_of(texts, [](const std::string& t) { return integer_of(t).has_value(); });
}

// In their order; integers in one spelling, as 07 and +7 are class 7.
Fields class_names(const Fields& labels) {
  const std::set<std::string> texts(labels.begin(), labels.end());
  if (!all_integers(texts)) return {texts.begin(), texts.end()};
  std::set<int64_t> values;
  for (const std::string& text : texts) values.insert(*integer_of(text));
  Fields names;
  for (const int64_t value : values) names.push_back(cat(value));
  return names;
}

// Reads one file; `train` is null for the training file itself.
class TableReader {
 public:
  TableReader(std::string file, const CsvOptions& options, const CsvTable* train)
      : file_(std::move(file)),
        options_(options),
        train_(train),
        is_regression_(train ? train->classes.empty() : options.task == Task::kRegression) {}

  CsvTable run(std::string_view text) {
    Scanner scanner(file_, text, options_.delimiter[0]);
    const std::optional<Record> first = scanner.next();
    if (!first) throw InputError(cat(file_, ": expected rows of data, got an empty file"));
    if (first->fields.size() == 1) {
      fail_at(file_, first->line, "expected features and a label, got the one field ",
              in_quotes(first->fields[0]), "; is the delimiter '", options_.delimiter, "'?");
    }
    std::optional<Record> record = scanner.next();
    take_columns(*first, record);
    if (!table_.has_header) add(*first);
    for (; record; record = scanner.next()) add(*record);
    if (table_.rows == 0)
      throw InputError(cat(file_, ": expected rows of data, got only a header"));
    if (!is_regression_) index_labels();
    return std::move(table_);
  }

 private:
  // What the columns are, from the first row and whether it is a header.
  void take_columns(const Record& first, const std::optional<Record>& second) {
    table_.has_header = options_.header == CsvOptions::Header::kPresent ||
                        (options_.header == CsvOptions::Header::kAuto && second &&
                         detect_header(file_, first, *second));
    for (size_t i = 0; i < first.fields.size(); ++i) {
      names_.push_back(table_.has_header ? first.fields[i] : cat("column ", i));
    }
    if (train_) require_columns_of_train(first.line);
    table_.label_column = train_ ? train_->label_column : find_label(first.line);
    label_ = static_cast<size_t>(table_.label_column);
    table_.label_name = names_[label_];
    table_.feature_names = names_;
    table_.feature_names.erase(table_.feature_names.begin() + table_.label_column);
    table_.columns = std::ssize(table_.feature_names);
  }

  int64_t find_label(int64_t line) const {
    const std::string& label = options_.label;
    const auto count = std::ssize(names_);
    const auto found = std::ranges::find(names_, label);
    if (table_.has_header && found != names_.end()) {
      if (std::ranges::count(names_, label) == 1) return found - names_.begin();
      fail_at(file_, line, "two columns are named ", in_quotes(label), "; give the label's index");
    }
    const std::optional<int64_t> index = integer_of(label);
    if (index && *index >= -count && *index < count) return *index < 0 ? *index + count : *index;
    fail_at(file_, line, "no label column ", in_quotes(label), ": expected an index in ", -count,
            " .. ", count - 1,
            table_.has_header
                ? cat(" or a name in the header; the nearest are ", nearest_names(names_, label))
                : "; the file has no header to find a name in");
  }

  void require_columns_of_train(int64_t line) const {
    if (std::ssize(names_) != train_->columns + 1) {
      fail_at(file_, line, "expected ", train_->columns + 1,
              " fields as in the training file, got ", names_.size());
    }
    if (!table_.has_header || !train_->has_header) return;
    Fields expected = train_->feature_names;
    expected.insert(expected.begin() + train_->label_column, train_->label_name);
    const auto [ours, theirs] = std::ranges::mismatch(names_, expected);
    if (ours == names_.end()) return;
    fail_at(file_, line, "expected column ", ours - names_.begin(), " to be ", in_quotes(*theirs),
            " as in the training file, got ", in_quotes(*ours));
  }

  std::string column_text(size_t column) const {
    return table_.has_header ? cat("column ", in_quotes(names_[column])) : names_[column];
  }

  float require_number(const Record& record, size_t column) const {
    const std::string& field = record.fields[column];
    const Number number = number_of(field);
    if (number.kind == Number::kFinite) return number.value;
    const std::string cell = in_quotes(field);
    fail_at(file_, record.line, column_text(column),
            number.kind == Number::kEmpty       ? " is empty: expected a number"
            : number.kind == Number::kNotFinite ? cat(": expected a finite number, got ", cell)
            : number.kind == Number::kTooLarge  ? cat(": ", cell, " is out of float32's range")
                                                : cat(": expected a number, got ", cell,
                                                      "; every column but a class label must be "
                                                       "numeric"));
  }

  void add(const Record& record) {
    if (record.fields.size() != names_.size()) {
      fail_at(file_, record.line, "expected ", names_.size(), " fields, got ",
              record.fields.size());
    }
    for (size_t i = 0; i < record.fields.size(); ++i) {
      if (i != label_) table_.features.push_back(require_number(record, i));
    }
    ++table_.rows;
    if (is_regression_) {
      table_.targets.push_back(require_number(record, label_));
      return;
    }
    const std::string& label = record.fields[label_];
    if (label.empty()) {
      fail_at(file_, record.line, column_text(label_), " is empty: expected a class label");
    }
    labels_.push_back(label);
    lines_.push_back(record.line);
  }

  // Against the classes of the training file, or else those found here.
  void index_labels() {
    table_.classes = train_ ? train_->classes : class_names(labels_);
    const bool integers = all_integers(table_.classes);
    std::unordered_map<std::string, int64_t> index;
    for (const std::string& name : table_.classes) index.emplace(name, std::ssize(index));
    for (size_t i = 0; i < labels_.size(); ++i) {
      const std::optional<int64_t> value = integers ? integer_of(labels_[i]) : std::nullopt;
      const auto found = index.find(value ? cat(*value) : labels_[i]);
      if (found == index.end()) {
        fail_at(file_, lines_[i], column_text(label_), ": class ", in_quotes(labels_[i]),
                " is not in the training file; the nearest of its classes are ",
                nearest_names(table_.classes, labels_[i]));
      }
      table_.labels.push_back(found->second);
    }
  }

  std::string file_;
  const CsvOptions& options_;
  const CsvTable* train_;
  bool is_regression_;
  CsvTable table_;
  Fields names_;                // of all columns
  size_t label_ = 0;            // the label's among them
  Fields labels_;               // as text, of each row; unless regression
  std::vector<int64_t> lines_;  // of each row
};

CsvTable read_table(const std::filesystem::path& path, const CsvOptions& options,
                    const CsvTable* train) {
  const std::string& delimiter = options.delimiter;
  if (delimiter.size() != 1 || delimiter.find_first_of("\"\r\n") == 0) {
    throw ConfigError("a CSV delimiter is one character, and cannot be a quote or a line end");
  }
  std::string text = read_file(path, "CSV file");
  if (const size_t zero = text.find('\0'); zero != std::string::npos) {
    throw InputError(cat(path.string(), ": expected CSV as UTF-8 text, got a zero byte at offset ",
                         zero, "; is it compressed, UTF-16 or binary?"));
  }
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  return TableReader(path.string(), options, train).run(text);
}

}  // namespace

CsvTable read_csv(const std::filesystem::path& file, const CsvOptions& options) {
  return read_table(file, options, nullptr);
}

CsvTable read_csv_like(const CsvTable& train, const std::filesystem::path& file,
                       const CsvOptions& options) {
  return read_table(file, options, &train);
}

Standardizer fit_standardizer(std::span<const float> matrix, int64_t columns) {
  if (columns <= 0 || matrix.empty() || std::ssize(matrix) % columns != 0) {
    throw ValueError(
        cat("fit_standardizer: ", matrix.size(), " values are no rows of ", columns, " columns"));
  }
  const auto width = static_cast<size_t>(columns);
  const double rows = static_cast<double>(matrix.size() / width);
  Standardizer out;
  for (size_t j = 0; j < width; ++j) {
    double mean = 0, square = 0;
    for (size_t i = j; i < matrix.size(); i += width) mean += matrix[i];
    mean /= rows;
    for (size_t i = j; i < matrix.size(); i += width) {
      square += (matrix[i] - mean) * (matrix[i] - mean);
    }
    const auto std = static_cast<float>(std::sqrt(square / rows));
    out.mean.push_back(static_cast<float>(mean));
    out.std.push_back(std == 0 ? 1 : std);
  }
  return out;
}

void standardize(std::span<float> matrix, const Standardizer& standardizer) {
  const size_t width = standardizer.mean.size();
  if (width == 0 || matrix.size() % width != 0) {
    throw ValueError(
        cat("standardize: ", matrix.size(), " values are no rows of ", width, " columns"));
  }
  for (size_t i = 0; i < matrix.size(); ++i) {
    const size_t j = i % width;
    matrix[i] =
        static_cast<float>((double{matrix[i]} - standardizer.mean[j]) / standardizer.std[j]);
  }
}

}  // namespace taper::runner
