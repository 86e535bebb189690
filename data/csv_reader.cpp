#include "data/csv_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <ranges>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "framework/hooks.h"
#include "framework/io/input_file.h"
#include "framework/text.h"

namespace taper::data {
namespace {

using namespace detail;

using Fields = std::vector<std::string>;

constexpr size_t kMostCategories = 1000;  // of a column
constexpr size_t kMostShown = 10;         // in a message
constexpr size_t kMostCompared = 5000;    // names, with one that is not among them

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
    check_stop();
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

// As people write that there is no value.
bool says_missing(const std::string& field) {
  constexpr std::string_view kWords[] = {"", "NA", "N/A", "NaN", "nan", "null", "?"};
  return std::ranges::find(kWords, field) != std::end(kWords);
}

std::optional<int64_t> integer_of(const std::string& field) {
  int64_t value = 0;
  return parse_number(field, value) == std::errc{} ? std::optional(value) : std::nullopt;
}

// A word in the first row above a number makes a header, unless the first row has such numbers too:
// that may as well be data with a slip in it, and must not vanish silently. What a column has is
// said by its first cell that is not missing.
bool detect_header(const std::string& file, const std::vector<Record>& rows) {
  const Record& first = rows[0];
  std::optional<size_t> word, number;
  for (size_t i = 0; i < first.fields.size(); ++i) {
    const auto has_cell = [i](const Record& row) {
      return row.fields.size() > i && !says_missing(row.fields[i]);
    };
    const auto row = std::find_if(rows.begin() + 1, rows.end(), has_cell);
    const Number::Kind below = row == rows.end() ? Number::kEmpty : number_of(row->fields[i]).kind;
    const Number::Kind above = number_of(first.fields[i]).kind;
    if (below == Number::kText || below == Number::kEmpty || above == Number::kEmpty) continue;
    (above == Number::kText ? word : number) = i;
  }
  if (word && number) {
    fail_at(file, first.line, "column ", *word, " has ", in_quotes(first.fields[*word]),
            " where a later row has a number, but column ", *number, " has the number ",
            in_quotes(first.fields[*number]),
            ": mend the row, or say with data.header whether it is a header");
  }
  return word.has_value();
}

// Those of the first few thousand that are the most like `wanted`.
std::string nearest_names(const Fields& names, const std::string& wanted, size_t most = 3) {
  struct Near {
    size_t distance;
    std::string_view name;
  };
  std::vector<Near> all;
  for (const std::string& name : names | std::views::take(kMostCompared)) {
    all.push_back({edit_distance(wanted, name), name});
  }
  std::ranges::stable_sort(all, {}, &Near::distance);
  std::string out;
  for (const Near& near : all | std::views::take(most)) {
    out += cat(out.empty() ? "" : ", ", in_quotes(near.name));
  }
  return out;
}

bool has_decimal_comma(const std::string& field) {
  const size_t comma = field.find(',');
  if (comma == std::string::npos) return false;
  std::string other = field;
  other[comma] = '.';
  return number_of(other).kind == Number::kFinite;
}

// What may be behind a cell that is no number, for the end of a message.
std::string guess_of(const std::string& field) {
  if (has_decimal_comma(field)) return "; write decimals with a point";
  const size_t other = field.find_first_of(";\t|");
  return other == std::string::npos
             ? ""
             : cat("; is the delimiter ", in_quotes({&field[other], 1}), "?");
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
  TableReader(std::string file, const CsvFormat& options, const CsvRecipe* train,
              bool may_lack_label)
      : file_(std::move(file)),
        options_(options),
        train_(train),
        may_lack_label_(may_lack_label),
        is_regression_(options.task == Task::kRegression) {}

  CsvTable run(std::string_view text) {
    Scanner scanner(file_, text, options_.delimiter[0]);
    const std::optional<Record> first = scanner.next();
    if (!first) throw InputError(cat(file_, ": expected rows of data, got an empty file"));
    if (first->fields.size() == 1 && !(may_lack_label_ && train_->columns == 1)) {
      fail_at(file_, first->line, "expected features and a label, got the one field ",
              in_quotes(first->fields[0]), "; is the delimiter '", options_.delimiter, "'?");
    }
    rows_.push_back(*first);
    while (std::optional<Record> record = scanner.next()) rows_.push_back(std::move(*record));
    take_columns(*first);
    if (table_.has_header) rows_.erase(rows_.begin());
    for (const Record& row : rows_) {
      if (row.fields.size() == names_.size()) continue;
      fail_at(file_, row.line, "expected ", names_.size(), " fields, got ", row.fields.size());
    }
    if (rows_.empty() || is_bare_header()) {
      fail_at(file_, first->line, "expected rows of data, got only a header");
    }
    if (!train_) find_categories();
    table_.rows = std::ssize(rows_);
    for (const Record& row : rows_) add(row);
    if (!is_regression_ && label_ != kNone) index_labels();
    return std::move(table_);
  }

 private:
  static constexpr size_t kNone = size_t(-1);

  // One row of words alone, to learn from.
  bool is_bare_header() const {
    const bool may_be = !train_ && options_.header == CsvFormat::Header::kAuto;
    if (!may_be || rows_.size() > 1) return false;
    const Fields& cells = rows_[0].fields;
    return std::ranges::all_of(
        cells, [](const auto& cell) { return number_of(cell).kind == Number::kText; });
  }

  // What the columns are, from the first row and whether it is a header.
  void take_columns(const Record& first) {
    bool has_header = options_.header == CsvFormat::Header::kPresent;
    if (options_.header == CsvFormat::Header::kAuto) {
      const std::string& known = train_ ? train_->feature_names[0] : options_.label;
      const bool has_name = std::ranges::find(first.fields, known) != first.fields.end();
      has_header =
          (has_name && number_of(known).kind == Number::kText) || detect_header(file_, rows_);
    }
    for (size_t i = 0; i < first.fields.size(); ++i) {
      names_.push_back(has_header ? first.fields[i] : cat("column ", i));
    }
    if (train_) {
      static_cast<CsvRecipe&>(table_) = *train_;
      const bool lacks_label = may_lack_label_ && std::ssize(names_) == train_->columns;
      label_ = lacks_label ? kNone : size_t(train_->label_column);
      require_columns_of_train(first.line, has_header);
      table_.has_header = has_header;
      return;
    }
    table_.options = options_;
    table_.has_header = has_header;
    table_.label_column = find_label(first.line);
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

  void require_columns_of_train(int64_t line, bool has_header) const {
    Fields expected = train_->feature_names;
    if (label_ != kNone) expected.insert(expected.begin() + int64_t(label_), train_->label_name);
    if (names_.size() != expected.size()) {
      fail_at(file_, line, "expected ", train_->columns + 1,
              " fields as in the training file, got ", names_.size());
    }
    if (!has_header || !train_->has_header) return;
    const auto [ours, theirs] = std::ranges::mismatch(names_, expected);
    if (ours == names_.end()) return;
    fail_at(file_, line, "expected column ", ours - names_.begin(), " to be ", in_quotes(*theirs),
            " as in the training file, got ", in_quotes(*ours));
  }

  std::string column_text(size_t column) const {
    return table_.has_header ? cat("column ", in_quotes(names_[column])) : names_[column];
  }

  bool is_gap(const std::string& field) const {
    return options_.missing == CsvFormat::Missing::kMean && says_missing(field);
  }

  // Columns without a single number are words; in others a word is a slip, found when it is read.
  void find_categories() {
    for (size_t i = 0; i < names_.size(); ++i) {
      check_stop();
      if (i == label_) continue;
      std::set<std::string> words;
      if (options_.categories == CsvFormat::Categories::kOneHot) words = words_of(i);
      if (words.size() > kMostCategories) {
        throw InputError(cat(file_, ": ", column_text(i), " has ", words.size(),
                             " different words, each of which would be a feature: at most ",
                             kMostCategories, " are taken; leave the column out"));
      }
      if (!words.empty() && std::ranges::all_of(words, has_decimal_comma)) {
        fail_at(file_, rows_[0].line, column_text(i), " has numbers with a decimal comma, as ",
                in_quotes(*words.begin()), ": write decimals with a point");
      }
      table_.categories.emplace_back(words.begin(), words.end());
      table_.width += std::max<int64_t>(std::ssize(words), 1);
    }
  }

  std::set<std::string> words_of(size_t column) const {
    std::set<std::string> words;
    for (const Record& row : rows_) {
      const std::string& field = row.fields[column];
      if (is_gap(field) || field.empty()) continue;
      if (number_of(field).kind != Number::kText) return {};
      words.insert(field);
    }
    return words;
  }

  float require_number(const Record& record, size_t column) const {
    const std::string& field = record.fields[column];
    const Number number = number_of(field);
    if (number.kind == Number::kFinite) return number.value;
    const std::string cell = in_quotes(field);
    const bool one_hot = options_.categories == CsvFormat::Categories::kOneHot;
    fail_at(file_, record.line, column_text(column),
            number.kind == Number::kEmpty
                ? " is empty: expected a number (`missing: mean` fills gaps in features)"
            : number.kind == Number::kNotFinite ? cat(": expected a finite number, got ", cell)
            : number.kind == Number::kTooLarge
                ? cat(": ", cell, " is out of float32's range")
                : cat(": expected a number, got ", cell, guess_of(field),
                      one_hot ? "; other rows have numbers there"
                              : "; every column but a class label "
                                "must be numeric, or take "
                                "`categories: one_hot`"));
  }

  void add_category(const Record& record, size_t column, const Fields& words) {
    const std::string& word = record.fields[column];
    const auto found = std::ranges::lower_bound(words, word);
    if (found == words.end() || *found != word) {
      if (word.empty()) {
        fail_at(file_, record.line, column_text(column),
                " is empty: expected a word (`missing: mean` fills gaps in features)");
      }
      fail_at(file_, record.line, column_text(column), ": ", in_quotes(word),
              " is no category of the training file; it has ",
              words.size() > kMostShown ? cat(words.size(), ", the nearest are ") : "",
              nearest_names(words, word, kMostShown));
    }
    for (auto w = words.begin(); w != words.end(); ++w) table_.features.push_back(w == found);
  }

  void add(const Record& record) {
    check_stop();
    for (size_t i = 0, column = 0; i < record.fields.size(); ++i) {
      if (i == label_) continue;
      const Fields& words = table_.categories[column++];
      if (is_gap(record.fields[i])) {
        table_.features.insert(table_.features.end(), std::max<size_t>(words.size(), 1),
                               std::numeric_limits<float>::quiet_NaN());
      } else if (words.empty()) {
        table_.features.push_back(require_number(record, i));
      } else {
        add_category(record, i, words);
      }
    }
    if (label_ == kNone) return;
    if (is_regression_) {
      table_.targets.push_back(require_number(record, label_));
    } else if (record.fields[label_].empty()) {
      fail_at(file_, record.line, column_text(label_), " is empty: expected a class label");
    }
  }

  // Against the classes of the training file, or else those found here.
  void index_labels() {
    if (!train_) {
      Fields labels;
      for (const Record& row : rows_) labels.push_back(row.fields[label_]);
      table_.classes = class_names(labels);
    }
    const bool integers = all_integers(table_.classes);
    std::unordered_map<std::string, int64_t> index;
    for (const std::string& name : table_.classes) index.emplace(name, std::ssize(index));
    for (const Record& row : rows_) {
      const std::string& label = row.fields[label_];
      const std::optional<int64_t> value = integers ? integer_of(label) : std::nullopt;
      const auto found = index.find(value ? cat(*value) : label);
      if (found == index.end()) {
        fail_at(file_, row.line, column_text(label_), ": class ", in_quotes(label),
                " is not in the training file; the nearest of its classes are ",
                nearest_names(table_.classes, label));
      }
      table_.labels.push_back(found->second);
    }
  }

  std::string file_;
  const CsvFormat& options_;
  const CsvRecipe* train_;
  bool may_lack_label_, is_regression_;
  CsvTable table_;
  Fields names_;      // of all columns
  size_t label_ = 0;  // the label's among them, or kNone
  std::vector<Record> rows_;
};

CsvTable read_table(const std::filesystem::path& path, const CsvFormat& options,
                    const CsvRecipe* train, bool may_lack_label) {
  const std::string& delimiter = options.delimiter;
  if (delimiter.size() != 1 || delimiter.find_first_of("\"\r\n") == 0) {
    throw ValueError("a CSV delimiter is one character, and cannot be a quote or a line end");
  }
  std::string text = read_file(path, "CSV file");
  if (const size_t zero = text.find('\0'); zero != std::string::npos) {
    throw InputError(cat(path.string(), ": expected CSV as UTF-8 text, got a zero byte at offset ",
                         zero, "; is it compressed, UTF-16 or binary?"));
  }
  if (const size_t bad = first_invalid(text); bad < text.size()) {
    fail_at(path.string(), 1 + std::count(text.begin(), text.begin() + int64_t(bad), '\n'),
            "not UTF-8 text (byte ", int(uint8_t(text[bad])), "): save the file as UTF-8");
  }
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  return TableReader(path.string(), options, train, may_lack_label).run(text);
}

}  // namespace

CsvTable read_csv(const std::filesystem::path& file, const CsvFormat& options) {
  return read_table(file, options, nullptr, false);
}

CsvTable read_csv_like(const CsvRecipe& train, const std::filesystem::path& file,
                       bool may_lack_label) {
  return read_table(file, train.options, &train, may_lack_label);
}

}  // namespace taper::data
