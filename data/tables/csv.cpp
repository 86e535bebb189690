#include "data/tables/csv.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <ranges>
#include <set>
#include <unordered_map>
#include <utility>

#include "autograd/ops/binary.h"
#include "autograd/ops/unary.h"
#include "framework/factories.h"
#include "framework/host/hooks.h"
#include "framework/io/input_file.h"
#include "framework/io/text.h"

namespace taper::inline v0::data {
namespace {

using namespace detail;

using Fields = std::vector<std::string>;

constexpr size_t kMostCategories = 1000;  // of a column
constexpr size_t kMostShown = 10;         // in a message
constexpr size_t kMostCompared = 5000;    // names, with one that is not among them

template <class... Args>
[[noreturn]] void fail_at(const std::string& file, int64_t line, const Args&... args) {
  throw InputError(cat(file, ":", line, ": ", args...));
}

// --- from text to fields ---

struct Record {
  int64_t line = 0;  // where it starts, from 1
  Fields fields;
};

// Cuts text into records and fields.
class Scanner {
 public:
  Scanner(const std::string& file, std::string_view text, const std::string& delimiter)
      : file_(file), rest_(text), delimiter_(delimiter), ends_(delimiter + "\r\n") {
    std::erase(blanks_, delimiter[0]);
  }

  // The next record that is not a blank line.
  std::optional<Record> next() {
    check_stop();
    while (!rest_.empty()) {
      Record record{.line = line_, .fields = {scan_field()}};
      while (take(delimiter_)) record.fields.push_back(scan_field());
      line_ += take("\r\n") || take("\n") || take("\r");
      if (record.fields.size() > 1 || !record.fields[0].empty()) return record;
    }
    return std::nullopt;
  }

 private:
  bool take(std::string_view what) {
    if (!rest_.starts_with(what)) return false;
    rest_.remove_prefix(what.size());
    return true;
  }
  void skip_blanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(blanks_), rest_.size()));
  }
  // How far the field goes that is not quoted.
  size_t length() const { return std::min(rest_.find_first_of(ends_), rest_.size()); }

  std::string scan_field() {
    skip_blanks();
    if (take("\"")) return scan_quoted();
    std::string out(rest_.substr(0, length()));
    rest_.remove_prefix(out.size());
    out.resize(out.find_last_not_of(blanks_) + 1);  // npos + 1 is 0
    return out;
  }

  std::string scan_quoted() {
    const int64_t opened = line_;
    for (std::string out; !rest_.empty(); rest_.remove_prefix(1)) {
      if (take("\"") && !rest_.starts_with('"')) {
        skip_blanks();
        if (length() == 0) return out;
        fail_at(file_, line_, "expected the field to end after its closing quote; ",
                "a quote within quotes is written twice");
      }
      line_ += rest_[0] == '\n';
      out += rest_[0];
    }
    fail_at(file_, opened, "a quote is opened here and never closed");
  }

  const std::string& file_;
  std::string_view rest_;
  const std::string delimiter_, ends_;
  std::string blanks_ = " \t";
  int64_t line_ = 1;
};

// --- from fields to values ---

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

bool is_text(const std::string& field) { return number_of(field).kind == Number::kText; }

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
  std::multimap<size_t, std::string_view> by_distance;
  for (const std::string& name : names | std::views::take(kMostCompared)) {
    by_distance.emplace(edit_distance(wanted, name), name);
  }
  std::string out;
  for (const std::string_view name : by_distance | std::views::values | std::views::take(most)) {
    out += cat(out.empty() ? "" : ", ", in_quotes(name));
  }
  return out;
}

bool has_decimal_comma(std::string field) {
  const size_t comma = field.find(',');
  if (comma == std::string::npos) return false;
  field[comma] = '.';
  return number_of(field).kind == Number::kFinite;
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
Fields class_names(const std::set<std::string>& texts) {
  if (!all_integers(texts)) return {texts.begin(), texts.end()};
  std::set<int64_t> values;
  for (const std::string& text : texts) values.insert(*integer_of(text));
  Fields names;
  for (const int64_t value : values) names.push_back(cat(value));
  return names;
}

// Whether a file tells what its columns are, or is to have those of the training file.
enum class Role { kTraining, kLike, kLikeMayLackLabel };

// Reads one file by a recipe, which has the options alone where the training file is read.
class TableReader {
 public:
  TableReader(std::string file, const CsvRecipe& recipe, Role role)
      : file_(std::move(file)), role_(role), table_{recipe} {}

  CsvTable run(std::string_view text) {
    Scanner scanner(file_, text, options_.delimiter);
    while (std::optional<Record> record = scanner.next()) {
      const bool is_first = rows_.empty(), is_one = record->fields.size() == 1;
      if (is_first && is_one && !(role_ == Role::kLikeMayLackLabel && table_.columns == 1)) {
        fail_at(file_, record->line, "expected features and a label, got the one field ",
                in_quotes(record->fields[0]), "; is the delimiter '", options_.delimiter, "'?");
      }
      rows_.push_back(std::move(*record));
    }
    if (rows_.empty()) throw InputError(cat(file_, ": expected rows of data, got an empty file"));
    const int64_t line = rows_[0].line;
    take_columns();
    if (table_.has_header) rows_.erase(rows_.begin());
    for (const Record& row : rows_) {
      if (row.fields.size() == names_.size()) continue;
      fail_at(file_, row.line, "expected ", names_.size(), " fields, got ", row.fields.size());
    }
    if (rows_.empty() || is_bare_header()) {
      fail_at(file_, line, "expected rows of data, got only a header");
    }
    if (role_ == Role::kTraining) find_categories();
    table_.rows = std::ssize(rows_);
    for (const Record& row : rows_) add(row);
    if (!is_regression() && label_ != kNone) index_labels();
    return std::move(table_);
  }

 private:
  static constexpr size_t kNone = size_t(-1);

  template <class... Args>
  [[noreturn]] void fail(const Record& row, size_t column, const Args&... args) const {
    fail_at(file_, row.line, column_text(column), args...);
  }

  bool is_regression() const { return options_.task == Task::kRegression; }
  bool is_one_hot() const { return options_.categories == CsvFormat::Categories::kOneHot; }
  bool is_gap(const std::string& field) const {
    return options_.missing == CsvFormat::Missing::kMean && says_missing(field);
  }
  std::string column_text(size_t column) const {
    return table_.has_header ? cat("column ", in_quotes(names_[column])) : names_[column];
  }

  // One row of words alone, to learn from.
  bool is_bare_header() const {
    const bool is_sought = options_.header == CsvFormat::Header::kAuto;
    return role_ == Role::kTraining && is_sought && rows_.size() == 1 &&
           std::ranges::all_of(rows_[0].fields, is_text);
  }

  // What the columns are, from the first row and whether it is a header.
  void take_columns() {
    const Record& first = rows_[0];
    const bool is_training = role_ == Role::kTraining;
    bool has_header = options_.header == CsvFormat::Header::kPresent;
    if (options_.header == CsvFormat::Header::kAuto) {
      const std::string& known = is_training ? options_.label : table_.feature_names[0];
      const bool has_name = std::ranges::find(first.fields, known) != first.fields.end();
      has_header = (has_name && is_text(known)) || detect_header(file_, rows_);
    }
    for (size_t i = 0; i < first.fields.size(); ++i) {
      names_.push_back(has_header ? first.fields[i] : cat("column ", i));
    }
    const bool had_header = std::exchange(table_.has_header, has_header);
    if (!is_training) return require_columns(first.line, has_header && had_header);
    label_ = find_label(first.line);
    table_.label_column = int64_t(label_);
    table_.label_name = names_[label_];
    table_.feature_names = names_;
    table_.feature_names.erase(table_.feature_names.begin() + table_.label_column);
    table_.columns = std::ssize(table_.feature_names);
  }

  size_t find_label(int64_t line) const {
    const std::string& label = options_.label;
    const auto count = std::ssize(names_);
    const auto found = std::ranges::find(names_, label);
    if (table_.has_header && found != names_.end()) {
      if (std::ranges::count(names_, label) == 1) return size_t(found - names_.begin());
      fail_at(file_, line, "two columns are named ", in_quotes(label), "; give the label's index");
    }
    const std::optional<int64_t> index = integer_of(label);
    if (index && *index >= -count && *index < count) return size_t((*index + count) % count);
    fail_at(file_, line, "no label column ", in_quotes(label), ": expected an index in ", -count,
            " .. ", count - 1,
            table_.has_header
                ? cat(" or a name in the header; the nearest are ", nearest_names(names_, label))
                : "; the file has no header to find a name in");
  }

  // Those of the training file, in their order, but for the label where it may be missing.
  void require_columns(int64_t line, bool have_names) {
    const bool lacks_label =
        role_ == Role::kLikeMayLackLabel && std::ssize(names_) == table_.columns;
    label_ = lacks_label ? kNone : size_t(table_.label_column);
    Fields expected = table_.feature_names;
    if (!lacks_label) {
      expected.insert(expected.begin() + table_.label_column, table_.label_name);
    }
    if (names_.size() != expected.size()) {
      fail_at(file_, line, "expected ", table_.columns + 1, " fields as in the training file, got ",
              names_.size());
    }
    const auto [ours, theirs] = std::ranges::mismatch(names_, expected);
    if (!have_names || ours == names_.end()) return;
    fail_at(file_, line, "expected column ", ours - names_.begin(), " to be ", in_quotes(*theirs),
            " as in the training file, got ", in_quotes(*ours));
  }

  // Columns without a single number are words; in others a word is a slip, found when it is read.
  void find_categories() {
    for (size_t i = 0; i < names_.size(); ++i) {
      check_stop();
      if (i == label_) continue;
      const std::set<std::string> words = words_of(i);
      if (words.size() > kMostCategories) {
        throw InputError(cat(file_, ": ", column_text(i), " has ", words.size(),
                             " different words, each of which would be a feature: at most ",
                             kMostCategories, " are taken; leave the column out"));
      }
      if (!words.empty() && std::ranges::all_of(words, has_decimal_comma)) {
        fail(rows_[0], i, " has numbers with a decimal comma, as ", in_quotes(*words.begin()),
             ": write decimals with a point");
      }
      table_.categories.emplace_back(words.begin(), words.end());
      table_.width += std::max<int64_t>(std::ssize(words), 1);
    }
  }

  std::set<std::string> words_of(size_t column) const {
    std::set<std::string> words;
    if (!is_one_hot()) return words;
    for (const Record& row : rows_) {
      const std::string& field = row.fields[column];
      if (is_gap(field) || field.empty()) continue;
      if (!is_text(field)) return {};
      words.insert(field);
    }
    return words;
  }

  float number_at(const Record& row, size_t column) const {
    const std::string& field = row.fields[column];
    const Number number = number_of(field);
    if (number.kind == Number::kFinite) return number.value;
    if (number.kind == Number::kEmpty) {
      fail(row, column, " is empty: expected a number (`missing: mean` fills gaps in features)");
    }
    const std::string cell = in_quotes(field);
    if (number.kind == Number::kNotFinite) {
      fail(row, column, ": expected a finite number, got ", cell);
    }
    if (number.kind == Number::kTooLarge) {
      fail(row, column, ": ", cell, " is out of float32's range");
    }
    fail(row, column, ": expected a number, got ", cell, guess_of(field),
         is_one_hot() ? "; other rows have numbers there"
                      : "; every column but a class label must be numeric, or take "
                        "`categories: one_hot`");
  }

  // A number, or 1 for the word that the cell has and 0 for the others.
  void add_features(const Record& row, size_t column, const Fields& words) {
    const std::string& word = row.fields[column];
    if (is_gap(word)) {
      table_.features.insert(table_.features.end(), std::max<size_t>(words.size(), 1),
                             std::numeric_limits<float>::quiet_NaN());
      return;
    }
    if (words.empty()) return table_.features.push_back(number_at(row, column));
    const auto found = std::ranges::lower_bound(words, word);
    if (found == words.end() || *found != word) {
      if (word.empty()) {
        fail(row, column, " is empty: expected a word (`missing: mean` fills gaps in features)");
      }
      fail(row, column, ": ", in_quotes(word), " is no category of the training file; it has ",
           words.size() > kMostShown ? cat(words.size(), ", the nearest are ") : "",
           nearest_names(words, word, kMostShown));
    }
    for (auto w = words.begin(); w != words.end(); ++w) table_.features.push_back(w == found);
  }

  void add(const Record& row) {
    check_stop();
    auto words = table_.categories.begin();
    for (size_t i = 0; i < names_.size(); ++i) {
      if (i != label_) add_features(row, i, *words++);
    }
    if (label_ == kNone) return;
    if (is_regression()) return table_.targets.push_back(number_at(row, label_));
    if (row.fields[label_].empty()) fail(row, label_, " is empty: expected a class label");
  }

  // Against the classes of the training file, or else those found here.
  void index_labels() {
    if (role_ == Role::kTraining) {
      std::set<std::string> found;
      for (const Record& row : rows_) found.insert(row.fields[label_]);
      table_.classes = class_names(found);
    }
    const bool integers = all_integers(table_.classes);
    std::unordered_map<std::string, int64_t> index;
    for (const std::string& name : table_.classes) index.emplace(name, std::ssize(index));
    for (const Record& row : rows_) {
      const std::string& label = row.fields[label_];
      const std::optional<int64_t> value = integers ? integer_of(label) : std::nullopt;
      const auto found = index.find(value ? cat(*value) : label);
      if (found == index.end()) {
        fail(row, label_, ": class ", in_quotes(label),
             " is not in the training file; the nearest of its classes are ",
             nearest_names(table_.classes, label));
      }
      table_.labels.push_back(found->second);
    }
  }

  const std::string file_;
  const Role role_;
  CsvTable table_;
  const CsvFormat& options_ = table_.options;
  Fields names_;      // of all columns
  size_t label_ = 0;  // the label's among them, or kNone
  std::vector<Record> rows_;
};

CsvTable read_table(const std::filesystem::path& path, const CsvRecipe& recipe, Role role) {
  const std::string& delimiter = recipe.options.delimiter;
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
  return TableReader(path.string(), recipe, role).run(text);
}

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

CsvTable read_csv(const std::filesystem::path& file, const CsvFormat& options) {
  return read_table(file, {.options = options}, Role::kTraining);
}

CsvTable read_csv_like(const CsvRecipe& train, const std::filesystem::path& file,
                       bool may_lack_label) {
  return read_table(file, train, may_lack_label ? Role::kLikeMayLackLabel : Role::kLike);
}

Splits Csv::load(uint64_t seed) const {
  CsvTable table = read_csv(path, *this);
  check_columns(table, path);
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
  for (const Batch& half : {rows.train, rows.test}) {
    data::standardize(half.inputs.span<float>(), table.scale);
    scale_targets(info, half.targets);
  }
  info.table = std::make_shared<const CsvRecipe>(std::move(table));
  return splits_of(info, rows);
}

DatasetPtr Csv::more(const DataInfo& info, const std::filesystem::path& file) const {
  if (!info.table) throw InputError(cat(file.string(), ": the training data were no table"));
  const CsvTable table = read_csv_like(*info.table, file, true);
  const Batch rows = rows_of(table);
  data::standardize(rows.inputs.span<float>(), table.scale);
  scale_targets(info, rows.targets);
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

}  // namespace taper::inline v0::data
