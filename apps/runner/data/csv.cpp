#include "apps/runner/data/csv.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "apps/runner/errors.h"

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

// A field as it may stand in a one-line message.
std::string in_quotes(std::string_view text) {
  constexpr size_t kMost = 40;
  constexpr std::string_view kDigits = "0123456789abcdef";
  size_t end = std::min(text.size(), kMost);
  while (end < text.size() && end > 0 && (text[end] & 0xc0) == 0x80) --end;  // whole UTF-8 only
  std::string out = "'";
  for (const char c : text.substr(0, end)) {
    const auto byte = static_cast<unsigned char>(c);
    const bool control = byte < 0x20 || byte == 0x7f;
    out += control ? cat("\\x", kDigits[byte >> 4], kDigits[byte & 15]) : std::string(1, c);
  }
  return out + (end < text.size() ? "...'" : "'");
}

std::string read_text(const std::filesystem::path& file) {
  const std::string name = file.string();
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    throw InputError(cat(name, ": expected a CSV file, got a directory"));
  }
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::string text;
  // By read(), which turns a failing device into badbit; stream iterators would throw.
  for (std::array<char, 1 << 16> part; in;
       text.append(part.data(), static_cast<size_t>(in.gcount()))) {
    in.read(part.data(), part.size());
  }
  if (!in.is_open() || in.bad()) {
    throw InputError(
        cat(name, ": cannot read the CSV file: ", std::generic_category().message(errno)));
  }
  if (const size_t zero = text.find('\0'); zero != std::string::npos) {
    throw InputError(cat(name, ": expected CSV as UTF-8 text, got a zero byte at offset ", zero,
                         "; is it compressed, UTF-16 or binary?"));
  }
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  return text;
}

// Cuts text into records and fields.
class Scanner {
 public:
  Scanner(std::string_view text, std::string file, char delimiter)
      : text_(text), file_(std::move(file)), delimiter_(delimiter) {}

  // The next record that is not a blank line.
  std::optional<Record> next();

 private:
  bool at_field_end() const {
    return pos_ == text_.size() || text_[pos_] == delimiter_ || at_line_end();
  }
  bool at_line_end() const { return text_[pos_] == '\n' || text_[pos_] == '\r'; }
  bool is_blank(char c) const { return (c == ' ' || c == '\t') && c != delimiter_; }
  void skip_blanks();
  void skip_line_end();
  Record scan_record();
  std::string scan_field();
  std::string scan_quoted();

  std::string_view text_;
  std::string file_;
  char delimiter_;
  size_t pos_ = 0;
  int64_t line_ = 1;
};

std::optional<Record> Scanner::next() {
  while (pos_ < text_.size()) {
    Record record = scan_record();
    if (record.fields.size() > 1 || !record.fields[0].empty()) return record;
  }
  return std::nullopt;
}

Record Scanner::scan_record() {
  Record record{.line = line_, .fields = {scan_field()}};
  while (pos_ < text_.size() && text_[pos_] == delimiter_) {
    ++pos_;
    record.fields.push_back(scan_field());
  }
  skip_line_end();
  return record;
}

std::string Scanner::scan_field() {
  skip_blanks();
  if (pos_ < text_.size() && text_[pos_] == '"') return scan_quoted();
  const size_t start = pos_;
  while (!at_field_end()) ++pos_;
  size_t end = pos_;
  while (end > start && is_blank(text_[end - 1])) --end;
  return std::string(text_.substr(start, end - start));
}

std::string Scanner::scan_quoted() {
  const int64_t opened = line_;
  std::string out;
  for (++pos_; pos_ < text_.size(); ++pos_) {
    const char c = text_[pos_];
    if (c == '\n') ++line_;
    const bool doubled = c == '"' && text_.substr(pos_ + 1).starts_with('"');
    if (doubled) ++pos_;
    if (c != '"' || doubled) {
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

void Scanner::skip_blanks() {
  while (pos_ < text_.size() && is_blank(text_[pos_])) ++pos_;
}

void Scanner::skip_line_end() {
  if (pos_ == text_.size()) return;
  pos_ += text_.substr(pos_).starts_with("\r\n") ? 2 : 1;
  ++line_;
}

// std::from_chars takes no '+'.
std::string_view without_plus(std::string_view text) {
  return text.size() > 1 && text[0] == '+' && text[1] != '-' ? text.substr(1) : text;
}

struct Number {
  enum Kind { kFinite, kEmpty, kText, kNotFinite, kTooLarge } kind = kFinite;
  float value = 0;
};

Number parse_number(std::string_view field) {
  if (field.empty()) return {Number::kEmpty};
  const std::string_view text = without_plus(field);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return {Number::kText};
  if (error == std::errc::result_out_of_range) return {Number::kTooLarge};
  if (error != std::errc{}) return {Number::kText};
  if (!std::isfinite(value)) return {Number::kNotFinite};
  // Before the cast, which is undefined beyond float's range.
  if (std::abs(value) > double{std::numeric_limits<float>::max()}) return {Number::kTooLarge};
  return {Number::kFinite, static_cast<float>(value)};
}

std::optional<int64_t> parse_integer(std::string_view field) {
  const std::string_view text = without_plus(field);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// What each column of one file is.
struct Layout {
  std::string file;
  bool has_header = false;
  Fields names;  // one a column
  size_t label = 0;
};

std::string describe_column(const Layout& layout, size_t column) {
  return layout.has_header ? cat("column ", in_quotes(layout.names[column])) : layout.names[column];
}

// A word in the first row where the second has a number makes a header, unless the first row has
// such numbers too: that may as well be data with a slip in it, and must not vanish silently.
bool detect_header(const std::string& file, const Record& first, const Record& second) {
  std::optional<size_t> word, number;
  for (size_t i = 0; i < std::min(first.fields.size(), second.fields.size()); ++i) {
    const Number::Kind below = parse_number(second.fields[i]).kind;
    const Number::Kind above = parse_number(first.fields[i]).kind;
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

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string nearest_names(Fields names, const std::string& wanted) {
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return edit_distance(wanted, a) < edit_distance(wanted, b);
  });
  std::string out;
  for (size_t i = 0; i < std::min<size_t>(names.size(), 3); ++i) {
    out += cat(i > 0 ? ", " : "", in_quotes(names[i]));
  }
  return out;
}

size_t find_label(const Layout& layout, const std::string& label, int64_t line) {
  const Fields& names = layout.names;
  const auto count = std::ssize(names);
  const auto found = std::find(names.begin(), names.end(), label);
  if (layout.has_header && found != names.end()) {
    if (std::find(found + 1, names.end(), label) == names.end()) {
      return static_cast<size_t>(found - names.begin());
    }
    fail_at(layout.file, line, "two columns are named ", in_quotes(label),
            "; give the label's index");
  }
  const std::optional<int64_t> index = parse_integer(label);
  if (index && *index >= -count && *index < count) {
    return static_cast<size_t>(*index < 0 ? *index + count : *index);
  }
  fail_at(layout.file, line, "no label column ", in_quotes(label), ": expected an index in ",
          -count, " .. ", count - 1,
          layout.has_header
              ? cat(" or a name in the header; the nearest are ", nearest_names(names, label))
              : std::string("; the file has no header to find a name in"));
}

Layout make_layout(const std::string& file, const CsvOptions& options, const Record& first,
                   const std::optional<Record>& second) {
  Layout layout;
  layout.file = file;
  layout.has_header = options.header == CsvOptions::Header::kPresent;
  if (options.header == CsvOptions::Header::kAuto && second)
    layout.has_header = detect_header(file, first, *second);
  if (layout.has_header) {
    layout.names = first.fields;
    return layout;
  }
  for (size_t i = 0; i < first.fields.size(); ++i) layout.names.push_back(cat("column ", i));
  return layout;
}

void require_columns_of(const CsvTable& train, const Layout& layout, int64_t line) {
  const auto count = std::ssize(layout.names);
  if (count != train.columns + 1) {
    fail_at(layout.file, line, "expected ", train.columns + 1,
            " fields as in the training file, got ", count);
  }
  if (!layout.has_header || !train.has_header) return;
  Fields expected = train.feature_names;
  expected.insert(expected.begin() + train.label_column, train.label_name);
  const auto [ours, theirs] =
      std::mismatch(layout.names.begin(), layout.names.end(), expected.begin());
  if (ours == layout.names.end()) return;
  fail_at(layout.file, line, "expected column ", ours - layout.names.begin(), " to be ",
          in_quotes(*theirs), " as in the training file, got ", in_quotes(*ours));
}

float require_number(const Layout& layout, const Record& record, size_t column) {
  const std::string& field = record.fields[column];
  const Number number = parse_number(field);
  if (number.kind == Number::kFinite) return number.value;
  const std::string name = describe_column(layout, column);
  const auto refuse = [&](const auto&... what) {
    fail_at(layout.file, record.line, name, what...);
  };
  if (number.kind == Number::kEmpty) refuse(" is empty: expected a number");
  if (number.kind == Number::kNotFinite)
    refuse(": expected a finite number, got ", in_quotes(field));
  if (number.kind == Number::kTooLarge)
    refuse(": ", in_quotes(field), " is out of float32's range");
  fail_at(layout.file, record.line, name, ": expected a number, got ", in_quotes(field),
          "; every column but a class label must be numeric");
}

bool all_integers(const Fields& texts) {
  return std::all_of(texts.begin(), texts.end(),
                     [](const std::string& text) { return parse_integer(text).has_value(); });
}

// One spelling for an integer: 07 and +7 are class 7.
std::string integer_text(const std::string& text) { return cat(*parse_integer(text)); }

void sort_unique(Fields& texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
}

Fields class_names(Fields labels) {
  sort_unique(labels);
  if (!all_integers(labels)) return labels;
  std::transform(labels.begin(), labels.end(), labels.begin(), integer_text);
  sort_unique(labels);
  std::sort(labels.begin(), labels.end(), [](const std::string& a, const std::string& b) {
    return *parse_integer(a) < *parse_integer(b);
  });
  return labels;
}

// Gathers the rows of one file.
class TableBuilder {
 public:
  TableBuilder(const Layout& layout, bool regression);
  void add(const Record& record);
  // The table; its classes are those given, or those found in the file.
  CsvTable finish(std::optional<Fields> classes);

 private:
  void index_labels();

  const Layout& layout_;
  bool regression_;
  CsvTable table_;
  Fields labels_;               // as text, of each row; unless regression
  std::vector<int64_t> lines_;  // of each row
};

TableBuilder::TableBuilder(const Layout& layout, bool regression)
    : layout_(layout), regression_(regression) {
  const auto label = static_cast<std::ptrdiff_t>(layout.label);
  table_.has_header = layout.has_header;
  table_.feature_names = layout.names;
  table_.feature_names.erase(table_.feature_names.begin() + label);
  table_.label_name = layout.names[layout.label];
  table_.label_column = label;
  table_.columns = std::ssize(table_.feature_names);
}

void TableBuilder::add(const Record& record) {
  if (record.fields.size() != layout_.names.size()) {
    fail_at(layout_.file, record.line, "expected ", layout_.names.size(), " fields, got ",
            record.fields.size());
  }
  for (size_t i = 0; i < record.fields.size(); ++i) {
    if (i != layout_.label) table_.features.push_back(require_number(layout_, record, i));
  }
  ++table_.rows;
  if (regression_) {
    table_.targets.push_back(require_number(layout_, record, layout_.label));
    return;
  }
  const std::string& label = record.fields[layout_.label];
  if (label.empty()) {
    fail_at(layout_.file, record.line, describe_column(layout_, layout_.label),
            " is empty: expected a class label");
  }
  labels_.push_back(label);
  lines_.push_back(record.line);
}

CsvTable TableBuilder::finish(std::optional<Fields> classes) {
  if (table_.rows == 0)
    throw InputError(cat(layout_.file, ": expected rows of data, got only a header"));
  if (!regression_) {
    table_.classes = classes ? *std::move(classes) : class_names(labels_);
    index_labels();
  }
  return std::move(table_);
}

void TableBuilder::index_labels() {
  const bool integers = all_integers(table_.classes);
  std::unordered_map<std::string, int64_t> index;
  for (const std::string& name : table_.classes) index.emplace(name, std::ssize(index));
  for (size_t i = 0; i < labels_.size(); ++i) {
    const bool integer = integers && parse_integer(labels_[i]);
    const auto found = index.find(integer ? integer_text(labels_[i]) : labels_[i]);
    if (found == index.end()) {
      fail_at(layout_.file, lines_[i], describe_column(layout_, layout_.label), ": class ",
              in_quotes(labels_[i]),
              " is not in the training file; the nearest of its classes are ",
              nearest_names(table_.classes, labels_[i]));
    }
    table_.labels.push_back(found->second);
  }
}

// `train` is null for the training file itself.
CsvTable read_table(const std::filesystem::path& path, const CsvOptions& options,
                    const CsvTable* train) {
  if (std::string_view("\"\r\n").find(options.delimiter) != std::string_view::npos) {
    throw ConfigError("a CSV delimiter cannot be a quote or a line end");
  }
  const std::string file = path.string();
  const std::string text = read_text(path);
  Scanner scanner(text, file, options.delimiter);
  const std::optional<Record> first = scanner.next();
  if (!first) throw InputError(cat(file, ": expected rows of data, got an empty file"));
  if (first->fields.size() == 1) {
    fail_at(file, first->line, "expected features and a label, got the one field ",
            in_quotes(first->fields[0]), "; is the delimiter '", options.delimiter, "'?");
  }
  std::optional<Record> record = scanner.next();
  Layout layout = make_layout(file, options, *first, record);
  if (train) require_columns_of(*train, layout, first->line);
  layout.label = train ? static_cast<size_t>(train->label_column)
                       : find_label(layout, options.label, first->line);
  const bool regression = train ? train->classes.empty() : options.regression;
  TableBuilder builder(layout, regression);
  if (!layout.has_header) builder.add(*first);
  for (; record; record = scanner.next()) builder.add(*record);
  return builder.finish(train ? std::optional(train->classes) : std::nullopt);
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
  std::vector<double> mean(width), square(width);
  for (size_t i = 0; i < matrix.size(); ++i) mean[i % width] += matrix[i];
  for (double& m : mean) m /= rows;
  for (size_t i = 0; i < matrix.size(); ++i) {
    const double d = matrix[i] - mean[i % width];
    square[i % width] += d * d;
  }
  Standardizer out;
  for (size_t j = 0; j < width; ++j) {
    const auto std = static_cast<float>(std::sqrt(square[j] / rows));
    out.mean.push_back(static_cast<float>(mean[j]));
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
