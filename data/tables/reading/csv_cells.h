// CSV files as text: records of fields, and the meaning of a field. Not a public header.
#pragma once

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "data/tables/reading/csv_decorated.h"
#include "framework/base/cancel.h"
#include "framework/base/error.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data::csv {

using namespace detail;

using Fields = std::vector<std::string>;

struct Record {
  int64_t line = 0;  // number of its first line, from 1
  Fields fields;
};

template <class... Args>
[[noreturn]] void fail_at(const std::string& file, int64_t line, const Args&... args) {
  throw InputError(file, ":", line, ": ", args...);
}

// Splits text into records of fields. Throws InputError for a quote that is not closed, or that is
// closed within a field.
class Scanner {
 public:
  Scanner(const std::string& file, std::string_view text, const std::string& delimiter)
      : file_(file), rest_(text), delimiter_(delimiter), ends_(delimiter + "\r\n") {
    std::erase(blanks_, delimiter[0]);
  }

  // Passes each record that is not a blank line to `give`, in order.
  void run(const auto& give) {
    while (!rest_.empty()) {
      check_stop();
      Record record{.line = line_, .fields = {scan_field()}};
      while (take(delimiter_)) record.fields.push_back(scan_field());
      line_ += take("\r\n") || take("\n") || take("\r");
      const bool is_blank = record.fields.size() == 1 && record.fields[0].empty();
      if (!is_blank) give(std::move(record));
    }
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
  // Returns the length of an unquoted field.
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

// The number in a cell, or the reason why the cell is not a number.
struct Number {
  enum Kind { kFinite, kEmpty, kText, kNotFinite, kTooLarge } kind = kFinite;
  double value = 0;
};
inline Number number_of(const std::string& field) {
  if (field.empty()) return {Number::kEmpty};
  double value = 0;
  const std::errc error = parse_number(field, value);
  if (error == std::errc::result_out_of_range) return {Number::kTooLarge};
  if (error != std::errc{}) return {Number::kText};
  if (!std::isfinite(value)) return {Number::kNotFinite};
  // A larger number cannot be represented, because models use float32.
  if (std::abs(value) > double{std::numeric_limits<float>::max()}) return {Number::kTooLarge};
  return {Number::kFinite, value};
}

inline bool is_text(const std::string& field) { return number_of(field).kind == Number::kText; }

inline std::optional<int64_t> integer_of(const std::string& field) {
  int64_t value = 0;
  return parse_number(field, value) == std::errc{} ? std::optional(value) : std::nullopt;
}

// Returns whether a cell marks a missing value. The rule is the same in every column, including the
// label's.
inline bool says_missing(const std::string& field) {
  constexpr std::string_view kWords[] = {"",    "NA",  "N/A",  "n/a",  "#N/A", "<NA>", "NaN",
                                         "nan", "NAN", "null", "Null", "NULL", "-nan", "?"};
  return std::ranges::find(kWords, field) != std::end(kWords);
}

// Returns the character that Excel's first line, such as "sep=;", names. The line has
// kDelimiterLine characters before its end.
inline constexpr size_t kDelimiterLine = 5;
inline std::optional<char> declared_delimiter(std::string_view text) {
  constexpr std::string_view kKey = "sep=";
  const size_t end = std::min(text.find_first_of("\r\n"), text.size());
  if (!text.starts_with(kKey) || end != kDelimiterLine) return std::nullopt;
  const char delimiter = text[kKey.size()];
  const bool is_none = std::isalnum(static_cast<unsigned char>(delimiter)) || delimiter == '"';
  return is_none ? std::nullopt : std::optional(delimiter);
}

// Returns a guess of what a cell that is not a number means, for the end of a message.
inline std::string guess_of(const std::string& field) {
  if (const auto number = decorated_number(field)) return concat_to_string("; ", number->advice);
  const size_t other = field.find_first_of(";\t|");
  return other == std::string::npos
             ? ""
             : concat_to_string("; is the delimiter ", in_quotes({&field[other], 1}), "?");
}

// Returns the names that are most similar to `wanted`. Considers only the first few thousand names.
inline std::string nearest_names(const Fields& names, const std::string& wanted, size_t most = 3) {
  constexpr size_t kMostCompared = 5000;
  std::multimap<size_t, std::string_view> by_distance;
  for (const std::string& name : names | std::views::take(kMostCompared)) {
    by_distance.emplace(edit_distance(wanted, name), name);
  }
  std::string out;
  for (const std::string_view name : by_distance | std::views::values | std::views::take(most)) {
    out += concat_to_string(out.empty() ? "" : ", ", in_quotes(name));
  }
  return out;
}

// The columns in which later rows have numbers: the last one in which the first row has a word, and
// the last one in which it has a number. The first later cell that is not missing decides whether a
// column contains numbers.
struct FirstRowKinds {
  std::optional<size_t> word, number;
};
inline FirstRowKinds first_row_kinds(const std::vector<Record>& rows) {
  const Record& first = rows[0];
  FirstRowKinds out;
  for (size_t i = 0; i < first.fields.size(); ++i) {
    const auto has_cell = [i](const Record& row) {
      return row.fields.size() > i && !says_missing(row.fields[i]);
    };
    const auto row = std::find_if(rows.begin() + 1, rows.end(), has_cell);
    const Number::Kind below = row == rows.end() ? Number::kEmpty : number_of(row->fields[i]).kind;
    const Number::Kind above = number_of(first.fields[i]).kind;
    if (below == Number::kText || below == Number::kEmpty || above == Number::kEmpty) continue;
    (above == Number::kText ? out.word : out.number) = i;
  }
  return out;
}

// Returns whether the first row is a header: it has a word above a number. If it also has a number
// above a number, it may be data with a mistake, which must not be dropped silently; then throws
// InputError. `key` names the setting that decides, for the message.
inline bool detect_header(const std::string& file, const std::vector<Record>& rows,
                          const char* key = "data.header") {
  const Record& first = rows[0];
  const auto [word, number] = first_row_kinds(rows);
  if (word && number) {
    fail_at(file, first.line, "column ", *word, " has ", in_quotes(first.fields[*word]),
            " where a later row has a number, but column ", *number, " has the number ",
            in_quotes(first.fields[*number]), ": mend the row, or say with ", key,
            " whether it is a header");
  }
  return word.has_value();
}

// Returns whether a column's first cell is a word that occurs only there and seems to be of another
// kind than the cells below it. It does if these contain a number, or if they have at most half as
// many different words as cells.
inline bool is_unlike_the_rest(const std::vector<Record>& rows, size_t column) {
  const std::string& first = rows[0].fields[column];
  if (!is_text(first)) return false;
  std::set<std::string> words;
  bool has_numbers = false;
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].fields.size() <= column) continue;
    const std::string& cell = rows[i].fields[column];
    words.insert(cell);
    has_numbers = has_numbers || !(is_text(cell) || says_missing(cell));
  }
  return !words.contains(first) && (has_numbers || 2 * words.size() <= rows.size() - 1);
}

// Returns whether a table that is read without a header seems to begin with one.
inline bool seems_to_have_header(const std::vector<Record>& rows) {
  bool is_unlike = rows.size() > 2;
  for (size_t i = 0; is_unlike && i < rows[0].fields.size(); ++i) {
    is_unlike = is_unlike_the_rest(rows, i);
  }
  return is_unlike;
}

}  // namespace taper::v0::data::csv
