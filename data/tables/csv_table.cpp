// Converts the records of a CSV file to columns of numbers, words and labels.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "data/tables/csv.h"
#include "data/tables/reading/csv_cells.h"
#include "framework/base/cancel.h"
#include "framework/base/log.h"
#include "framework/io/input_file.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

using namespace detail;
using namespace csv;

constexpr size_t kMostCategories = 1000;  // per column
constexpr size_t kMostShown = 10;         // maximum number of items that a message lists

template <class Texts> bool all_integers(const Texts& texts) {
  return std::ranges::all_of(texts, [](const std::string& t) { return integer_of(t).has_value(); });
}

// Returns the sorted class names. Integers have one spelling: 07 and +7 are class 7.
Fields class_names(const std::set<std::string>& texts) {
  if (!all_integers(texts)) return {texts.begin(), texts.end()};
  std::set<int64_t> values;
  for (const std::string& text : texts) values.insert(*integer_of(text));
  Fields names;
  for (const int64_t value : values) names.push_back(concat_to_string(value));
  return names;
}

// Whether the file defines its columns, or must have the columns of the training file.
enum class Role { kTraining, kLike, kLikeMayLackLabel, kUnlabeled };

// Reads one file by a CsvEncoding. For the training file, the encoding contains only the options at
// first.
class TableReader {
 public:
  TableReader(std::string file, const CsvEncoding& encoding, Role role)
      : file_(std::move(file)), role_(role), table_{encoding} {}

  CsvTable run(std::string_view text) {
    Scanner(file_, text, options_.delimiter).run([&](Record record) {
      const bool is_first = rows_.empty(), is_one = record.fields.size() == 1;
      if (is_first && is_one && !(may_lack_label() && table_.columns == 1)) {
        fail_at(file_, record.line, "expected ",
                may_lack_label() ? concat_to_string(table_.columns, " features")
                                 : "features and a label",
                ", got the one field ", in_quotes(record.fields[0]), "; is the delimiter '",
                options_.delimiter, "'?");
      }
      rows_.push_back(std::move(record));
    });
    if (rows_.empty()) throw InputError(file_, ": expected rows of data, got an empty file");
    const int64_t line = rows_[0].line;
    take_columns();
    if (table_.has_header) rows_.erase(rows_.begin());
    for (const Record& row : rows_) {
      if (row.fields.size() == names_.size()) continue;
      fail_at(file_, row.line, "expected ", names_.size(), " fields, got ", row.fields.size());
    }
    const bool has_rows = !rows_.empty() && !is_bare_header();
    if (!has_rows) fail_at(file_, line, "expected rows of data, got only a header");
    if (role_ == Role::kTraining) find_categories();
    table_.rows = std::ssize(rows_);
    table_.cells.reserve(size_t(table_.rows * table_.columns));
    for (Record& row : rows_) {
      check_stop();
      add(row);
      // From here on, only the labels of the rows are needed.
      row.fields = label_ == kNone ? Fields() : Fields{std::move(row.fields[label_])};
    }
    if (!is_regression() && has_labels()) index_labels();
    return std::move(table_);
  }

 private:
  static constexpr size_t kNone = size_t(-1);

  template <class... Args>
  [[noreturn]] void fail(const Record& row, size_t column, const Args&... args) const {
    fail_at(file_, row.line, column_text(column), args...);
  }

  bool may_lack_label() const {
    return role_ == Role::kLikeMayLackLabel || role_ == Role::kUnlabeled;
  }
  // Returns whether the labels of the rows are read.
  bool has_labels() const { return label_ != kNone && role_ != Role::kUnlabeled; }
  bool is_regression() const { return options_.task == Task::kRegression; }
  bool is_one_hot() const { return options_.categories == CsvFormat::Categories::kOneHot; }
  bool is_gap(const std::string& field) const {
    return options_.missing == CsvFormat::Missing::kMean && says_missing(field);
  }
  std::string column_text(size_t column) const {
    return table_.has_header ? concat_to_string("column ", in_quotes(names_[column]))
                             : names_[column];
  }

  // Returns whether the file consists of one row of words, which cannot be used for training.
  bool is_bare_header() const {
    const bool is_sought = options_.header == CsvFormat::Header::kAuto;
    return role_ == Role::kTraining && is_sought && rows_.size() == 1 &&
           std::ranges::all_of(rows_[0].fields, is_text);
  }

  // Determines the columns from the first row and from whether it is a header.
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
      names_.push_back(has_header ? first.fields[i] : concat_to_string("column ", i));
    }
    const bool had_header = std::exchange(table_.has_header, has_header);
    if (!is_training) return require_columns(first.line, has_header && had_header);
    if (!has_header && seems_to_have_header(rows_)) {
      warn(concat_to_string(
          file_, ":", first.line,
          ": this row is read as data, but each of its cells is a word "
          "that never comes again in its column; if they are names, set data.header: present"));
    }
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
    const bool is_in_first_row = std::ranges::count(rows_[0].fields, label) > 0;
    fail_at(file_, line, "no label column ", in_quotes(label), ": expected an index in ", -count,
            " .. ", count - 1,
            table_.has_header ? concat_to_string(" or a name in the header; the nearest are ",
                                                 nearest_names(names_, label))
            : is_in_first_row
                ? "; the first row has such a cell but was read as data: if it is a header, say "
                  "`header: present`"
                : "; the file has no header to find a name in (`header: present` takes the first "
                  "row for one)");
  }

  // Throws unless the columns are those of the training file, in their order. The label may be
  // missing if the role allows it.
  void require_columns(int64_t line, bool have_names) {
    const bool lacks_label = may_lack_label() && std::ssize(names_) == table_.columns;
    label_ = lacks_label ? kNone : size_t(table_.label_column);
    Fields expected = table_.feature_names;
    if (!lacks_label) {
      expected.insert(expected.begin() + table_.label_column, table_.label_name);
    }
    if (names_.size() != expected.size()) {
      fail_at(
          file_, line, "expected ", table_.columns + 1, " fields as in the training file",
          may_lack_label() ? concat_to_string(", or ", table_.columns, " without the label") : "",
          ", got ", names_.size());
    }
    const auto [ours, theirs] = std::ranges::mismatch(names_, expected);
    if (!have_names || ours == names_.end()) return;
    fail_at(file_, line, "expected column ", ours - names_.begin(), " (the first is 0) to be ",
            in_quotes(*theirs), " as in the training file, got ", in_quotes(*ours));
  }

  // Finds the columns of words. A column without a single number contains words. In other columns a
  // word is an error, which is detected when the cell is read.
  void find_categories() {
    for (size_t i = 0; i < names_.size(); ++i) {
      check_stop();
      if (i == label_) continue;
      const std::set<std::string> words = words_of(i);
      refuse_decorated(i, words);
      require<InputError>(words.size() <= kMostCategories, file_, ": ", column_text(i), " has ",
                          words.size(),
                          " different words, each of which would be a feature: ", "at most ",
                          kMostCategories, " are taken; leave the column out");
      table_.categories.emplace_back(words.begin(), words.end());
      table_.width += std::max<int64_t>(std::ssize(words), 1);
    }
  }

  std::set<std::string> words_of(size_t column) const {
    std::set<std::string> words;
    if (!is_one_hot()) return words;
    for (const Record& row : rows_) {
      check_stop();
      const std::string& field = row.fields[column];
      if (says_missing(field)) continue;
      if (!is_text(field)) return {};
      words.insert(field);
    }
    return words;
  }

  // Throws InputError if nearly all words of a column are numbers with separators or with one unit.
  // A few different ones with a unit, such as "2 doors" and "4 doors", may be categories.
  void refuse_decorated(size_t column, const std::set<std::string>& words) const {
    constexpr size_t kFew = 10;
    std::map<std::pair<bool, std::string>, size_t> counts;  // by whether it is a unit, and the text
    for (const std::string& word : words) {
      const auto number = decorated_number(word);
      if (!number) continue;
      const bool is_unit = number->kind == DecoratedNumber::kUnit;
      ++counts[{is_unit, is_unit ? number->affix : ""}];
    }
    for (const auto& [key, count] : counts) {
      if (10 * count < 9 * words.size()) continue;
      const bool is_few = words.size() <= kFew && 2 * words.size() <= rows_.size();
      if (!key.first || !is_few) fail_decorated(column);
    }
  }

  [[noreturn]] void fail_decorated(size_t column) const {
    const auto row = std::ranges::find_if(
        rows_, [&](const Record& r) { return decorated_number(r.fields[column]).has_value(); });
    const std::string& word = row->fields[column];
    const auto [kind, affix, advice, may_have_comma] = *decorated_number(word);
    fail(*row, column, " has numbers with ",
         kind == DecoratedNumber::kDecimalComma ? "a decimal comma"
         : kind == DecoratedNumber::kThousands  ? "thousands separators"
                                                : "a unit",
         ", as ", in_quotes(word), ", and each would be a category: ", advice);
  }

  double number_at(const Record& row, size_t column) const {
    const std::string& field = row.fields[column];
    const Number number = number_of(field);
    if (number.kind == Number::kFinite) return number.value;
    const bool is_target = column == label_;
    if (says_missing(field)) fail_missing(row, column, "number");
    if (number.kind == Number::kNotFinite) {
      fail(row, column, ": expected a finite number, got ", in_quotes(field));
    }
    if (number.kind == Number::kTooLarge) {
      fail(row, column, ": ", in_quotes(field), " is out of float32's range");
    }
    const char* const why =
        decorated_number(field) ? ""
        : is_target ? "; `task: regression` predicts numbers, `task: classification` classes"
        : role_ != Role::kTraining ? "; the training file has numbers there"
        : is_one_hot()             ? "; other rows have numbers there"
                                   : "; every column but a class label must be numeric, or take "
                                     "`categories: one_hot`";
    fail(row, column, ": expected a number, got ", in_quotes(field), guess_of(field), why);
  }

  // Throws InputError for a missing value in a place that requires a `wanted`, such as "number".
  [[noreturn]] void fail_missing(const Record& row, size_t column, const char* wanted) const {
    const std::string& field = row.fields[column];
    fail(row, column, field.empty() ? " is empty" : "", ": expected a ", wanted,
         field.empty()
             ? ""
             : concat_to_string(", got ", in_quotes(field), ", which says that it is missing"),
         column == label_ ? " (remove the row: what is to be predicted must be known)"
                          : " (`missing: mean` fills gaps in features)");
  }

  // Returns the value of a cell: the number, or the index of the word.
  double cell_of(const Record& row, size_t column, const Fields& words) const {
    const std::string& word = row.fields[column];
    if (is_gap(word)) return std::numeric_limits<double>::quiet_NaN();
    if (words.empty()) return number_at(row, column);
    if (says_missing(word)) fail_missing(row, column, "word");
    const auto found = std::ranges::lower_bound(words, word);
    if (found == words.end() || *found != word) {
      fail(row, column, ": ", in_quotes(word), " is no category of the training file; it has ",
           words.size() > kMostShown ? concat_to_string(words.size(), ", the nearest are ") : "",
           nearest_names(words, word, kMostShown));
    }
    return double(found - words.begin());
  }

  void add(const Record& row) {
    auto words = table_.categories.begin();
    for (size_t i = 0; i < names_.size(); ++i) {
      if (i != label_) table_.cells.push_back(cell_of(row, i, *words++));
    }
    if (!has_labels()) return;
    if (is_regression()) return table_.targets.push_back(number_at(row, label_));
    if (says_missing(row.fields[label_])) fail_missing(row, label_, "class label");
  }

  // Maps the rows' labels to class indices, by the classes of the training file or those found
  // here. The labels are the only fields that the rows still have.
  void index_labels() {
    if (role_ == Role::kTraining) {
      std::set<std::string> found;
      for (const Record& row : rows_) found.insert(row.fields[0]);
      table_.classes = class_names(found);
    }
    const bool integers = all_integers(table_.classes);
    std::unordered_map<std::string, int64_t> index;
    for (const std::string& name : table_.classes) index.emplace(name, std::ssize(index));
    for (const Record& row : rows_) {
      check_stop();
      const std::string& label = row.fields[0];
      const std::optional<int64_t> value = integers ? integer_of(label) : std::nullopt;
      const auto found = index.find(value ? concat_to_string(*value) : label);
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
  size_t label_ = 0;  // index of the label column, or kNone
  std::vector<Record> rows_;
};

CsvTable read_table(const std::filesystem::path& path, const CsvEncoding& encoding, Role role) {
  const std::string& delimiter = encoding.options.delimiter;
  require<ValueError>(delimiter.size() == 1 && delimiter.find_first_of("\"\r\n") != 0,
                      "a CSV delimiter is one character, and cannot be a quote or a line end");
  std::string text = read_file(path, "CSV file");
  if (const size_t zero = text.find('\0'); zero != std::string::npos) {
    throw InputError(path.string(), ": expected CSV as UTF-8 text, got a zero byte at offset ",
                     zero, "; is it compressed, UTF-16 or binary?");
  }
  if (const size_t bad = first_invalid(text); bad < text.size()) {
    fail_at(path.string(), 1 + std::count(text.begin(), text.begin() + int64_t(bad), '\n'),
            "not UTF-8 text (byte ", int(uint8_t(text[bad])), "): save the file as UTF-8");
  }
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  CsvEncoding used = encoding;
  if (const auto declared = declared_delimiter(text)) {
    used.options.delimiter = *declared;
    text.erase(0, kDelimiterLine);  // keeps the line end, so that line numbers stay correct
  }
  return TableReader(path.string(), used, role).run(text);
}

}  // namespace

CsvTable read_csv(const std::filesystem::path& file, const CsvFormat& options) {
  return read_table(file, {.options = options}, Role::kTraining);
}

CsvTable read_csv_like(const CsvEncoding& train, const std::filesystem::path& file,
                       LabelColumn label) {
  return read_table(file, train,
                    label == LabelColumn::kRequired   ? Role::kLike
                    : label == LabelColumn::kOptional ? Role::kLikeMayLackLabel
                                                      : Role::kUnlabeled);
}

}  // namespace taper::v0::data
