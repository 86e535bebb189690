#include "data/tables/columns.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <unordered_set>

#include <fnmatch.h>

#include "data/source.h"
#include "data/tables/reading/csv_cells.h"
#include "data/tables/reading/csv_decorated.h"
#include "framework/base/cancel.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

using detail::in_quotes;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
// A target of at most this many different integers is a class.
constexpr int64_t kMostClassNumbers = 10;
// A column of words is ignored if it has more than kFewWords different ones and at least this share
// of its rows differs.
constexpr double kMostlyDifferent = 0.5, kNearlyAll = 0.9;
constexpr int64_t kFewWords = 20;
// A column with at least this share of numbers has numbers; its words are then missing values.
constexpr double kMostlyNumbers = 0.95;
// Larger numbers are no integers but multiples of powers of two, unless they are identifiers.
constexpr double kLargestInteger = 9.3e18, kLargestExact = 9.007199254740992e15;

// What a pass over the cells of a column finds.
struct CellCounts {
  int64_t numbers = 0, words = 0, missing = 0;
  int64_t distinct = 0;
  bool are_integers = true;   // all numbers
  bool is_row_number = true;  // each number is one more than that of the row before
  double low = std::numeric_limits<double>::infinity(), high = -low;
  int64_t known() const { return numbers + words; }
};

void count_number(CellCounts& out, const RawColumn& column, int64_t row, double value) {
  ++out.numbers;
  out.are_integers =
      out.are_integers && value == std::floor(value) && std::abs(value) < kLargestInteger;
  out.is_row_number = out.is_row_number && out.are_integers && std::abs(value) < kLargestExact &&
                      (row == 0 || value == column.number(row - 1) + 1);
  out.low = std::min(out.low, value);
  out.high = std::max(out.high, value);
}

int64_t count_different(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  return std::unique(numbers.begin(), numbers.end()) - numbers.begin();
}

CellCounts count_cells(const CellReader& cells) {
  const RawColumn& column = cells.column();
  CellCounts out;
  std::vector<double> numbers;
  std::vector<bool> is_seen(column.words().size());
  for (int64_t row = 0; row < column.size(); ++row) {
    const int64_t word = column.word(row);
    if (cells.is_missing(row)) {
      ++out.missing;
      out.is_row_number = false;
    } else if (word < 0) {
      numbers.push_back(column.number(row));
      count_number(out, column, row, numbers.back());
    } else {
      ++out.words;
      out.distinct += !is_seen[size_t(word)];
      is_seen[size_t(word)] = true;
    }
  }
  check_stop();
  out.distinct += count_different(std::move(numbers));
  return out;
}

// --- names ---

// Returns whether the name has one of the words, as "movieId", "user_id" and "ID" have "id".
bool has_word(const std::string& name, const std::vector<std::string>& words) {
  std::vector<std::string> parts(1);
  for (size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    const bool is_upper = std::isupper(c) != 0;
    const bool begins = is_upper && i > 0 && std::islower(static_cast<unsigned char>(name[i - 1]));
    if (begins || std::isalpha(c) == 0) parts.emplace_back();
    if (std::isalpha(c) != 0) parts.back() += name[i];
  }
  return std::ranges::any_of(parts, [&](const std::string& part) {
    return std::ranges::count(words, detail::lower_case(part)) > 0;
  });
}
bool names_an_identifier(const std::string& name) {
  return has_word(name, {"id", "ids", "uid", "uuid", "guid", "key", "index", "idx", "rowname",
                         "rownames", "rownum", "serial"});
}
bool names_a_time(const std::string& name) {
  return has_word(name,
                  {"time", "timestamp", "date", "datetime", "created", "updated", "at", "on"});
}

// --- kinds ---

// A kind that was found, with the reason.
struct Finding {
  ColumnKind kind;
  std::string note{};
};

bool are_dates_in_digits(const RawColumn& column, const CellReader& cells) {
  for (int64_t row = 0; row < column.size(); ++row) {
    if (!cells.is_missing(row) && !parse_date(column.text(row))) return false;
  }
  return true;
}

// Returns the form of a column of integers that are dates.
std::optional<DateForm> date_form_of(const CellCounts& n, const CellReader& cells) {
  const RawColumn& column = cells.column();
  if (n.numbers == 0 || n.words > 0 || !n.are_integers || n.distinct < 2) return std::nullopt;
  const bool has_eight_digits = n.low >= 19000101 && n.high <= 21001231;
  if (has_eight_digits && are_dates_in_digits(column, cells)) return DateForm::kDigits;
  if (!names_a_time(column.name)) return std::nullopt;
  if (n.low >= 1e8 && n.high < 5e9) return DateForm::kSeconds;
  if (n.low >= 1e11 && n.high < 5e12) return DateForm::kMilliseconds;
  return std::nullopt;
}

// Returns the words of the column that are not missing.
std::vector<std::string_view> known_words(const CellReader& cells) {
  std::vector<std::string_view> out;
  const WordRange words = cells.column().words();
  for (size_t i = 0; i < words.size(); ++i) {
    if (!cells.is_missing_word(int64_t(i))) out.push_back(words[i]);
  }
  return out;
}

bool are_dates(std::span<const std::string_view> words, DateOrder order) {
  return !words.empty() && std::ranges::all_of(words, [&](std::string_view word) {
    return parse_date(word, order).has_value();
  });
}

std::string quoted_name(const std::string& name) {
  const bool is_plain = std::ranges::all_of(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; });
  return is_plain ? name : concat_to_string('"', name, '"');
}
std::string use_as(const std::string& name, const char* kind) {
  return concat_to_string(" (columns: {", quoted_name(name), ": ", kind, "} uses it)");
}

Finding kind_of_numbers(const CellCounts& n, const std::string& name) {
  if (n.is_row_number && n.numbers > 4) {
    return {ColumnKind::kIgnore, "the number of the row" + use_as(name, "number")};
  }
  const bool is_identifier = n.are_integers && names_an_identifier(name);
  if (is_identifier && double(n.distinct) >= kNearlyAll * double(n.numbers)) {
    return {ColumnKind::kIgnore, "an identifier of the row" + use_as(name, "number")};
  }
  if (is_identifier) {
    return {ColumnKind::kCategory, "the numbers identify something"};
  }
  return {ColumnKind::kNumber};
}

Finding kind_of_words(const CellCounts& n, const std::string& name) {
  const double share = double(n.distinct) / double(n.known());
  if (n.distinct > kFewWords && share >= kMostlyDifferent) {
    return {ColumnKind::kIgnore,
            concat_to_string(share >= kNearlyAll ? "nearly every row differs" : "most rows differ",
                             use_as(name, "text"))};
  }
  return {ColumnKind::kCategory};
}

// Throws InputError for a column of such numbers. Shows a cell that cannot have thousands
// separators if there is one, because "1,5" explains "1,234".
[[noreturn]] void refuse_decorated(const RawTable& table, const RawColumn& column) {
  using csv::DecoratedNumber;
  int64_t shown = -1;
  DecoratedNumber number;
  for (int64_t row = 0; row < column.size(); ++row) {
    const auto found = csv::decorated_number(column.text(row));
    if (!found || (shown >= 0 && found->kind != DecoratedNumber::kDecimalComma)) continue;
    shown = row;
    number = *found;
    if (number.kind == DecoratedNumber::kDecimalComma) break;
  }
  throw InputError(concat_to_string(
      table.place_of(shown), ": column ", in_quotes(column.name), " has numbers with ",
      number.kind == DecoratedNumber::kDecimalComma ? "a decimal comma"
      : number.kind == DecoratedNumber::kThousands  ? "thousands separators"
                                                    : "a unit",
      ", as ", in_quotes(column.text(shown)), ": ", number.advice,
      number.may_have_decimal_comma ? ", or set `read: {decimal: \",\"}`" : "", "; `columns: {",
      quoted_name(column.name), ": category}` takes the texts as they are"));
}

// Throws InputError if nearly all words are numbers with separators or one unit.
void refuse_decorated(const RawTable& table, const CellReader& cells,
                      std::span<const std::string_view> words) {
  constexpr size_t kFew = 10;
  std::map<std::string, size_t> counts;  // by the unit; separators count as one
  for (const std::string_view word : words) {
    const auto number = csv::decorated_number(word);
    if (!number) continue;
    const bool is_unit = number->kind == csv::DecoratedNumber::kUnit;
    if (is_unit && words.size() <= kFew) continue;  // "2 doors" and "4 doors" may be categories
    ++counts[is_unit ? number->affix : ""];
  }
  for (const auto& [affix, count] : counts) {
    if (10 * count >= 9 * words.size()) refuse_decorated(table, cells.column());
  }
}

std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    out += concat_to_string(out.empty() ? "" : ", ", in_quotes(word));
  }
  return out;
}

// Words in a column that otherwise has numbers are missing values; so are "*" and "-" among words,
// and numbers such as -99 among positive ones. Adds them to `missing` and returns them, for the
// report.
std::vector<std::string> find_more_missing(const CellReader& cells, const CellCounts& n,
                                           MissingCells& missing) {
  std::vector<std::string> out;
  const RawColumn& column = cells.column();
  const std::vector<std::string_view> words = known_words(cells);
  const bool has_numbers = double(n.numbers) >= kMostlyNumbers * double(n.known());
  const bool has_words = n.numbers == 0 && std::ssize(words) > 2;
  for (const std::string_view word : words) {
    const bool is_sign = word == "*" || word == "-";
    if (has_numbers || (has_words && is_sign)) out.emplace_back(word);
  }
  missing.words.insert(missing.words.end(), out.begin(), out.end());
  constexpr double kCodes[] = {-99, -999, -9999};
  if (n.numbers == 0 || std::ranges::count(kCodes, n.low) == 0) return out;
  int64_t coded = 0;
  for (int64_t row = 0; row < column.size(); ++row) {
    const double value = column.number(row);
    if (value < 0 && value != n.low) return out;
    coded += value == n.low;
  }
  if (coded < 2) return out;
  missing.numbers.push_back(n.low);
  out.push_back(concat_to_string(n.low));
  return out;
}

// Determines the kind of a column from its cells.
Finding find_kind(const RawTable& table, const CellReader& cells, const CellCounts& n,
                  ColumnSummary& out) {
  const std::string& name = cells.column().name;
  if (n.known() == 0) return {ColumnKind::kIgnore, "empty"};
  if (n.distinct == 1 && n.missing == 0) return {ColumnKind::kIgnore, "the same in every row"};
  if (const auto form = date_form_of(n, cells)) {
    out.date_form = *form;
    return {ColumnKind::kDate};
  }
  if (n.words == 0) return kind_of_numbers(n, name);
  const std::vector<std::string_view> words = known_words(cells);
  out.date_order = find_date_order(words);
  if (n.numbers == 0 && are_dates(words, out.date_order)) return {ColumnKind::kDate};
  if (n.numbers == 0) refuse_decorated(table, cells, words);
  return kind_of_words(n, name);
}

// Determines how the dates of a column are written that the user says has dates.
void find_date_form(const RawTable& table, const CellReader& cells, const CellCounts& n,
                    ColumnSummary& out) {
  const RawColumn& column = cells.column();
  out.date_form = date_form_of(n, cells).value_or(DateForm::kText);
  if (n.words == 0 && out.date_form == DateForm::kText) {
    out.date_form = n.high >= 1e11 ? DateForm::kMilliseconds : DateForm::kSeconds;
  }
  out.date_order = find_date_order(known_words(cells));
  for (int64_t row = 0; row < column.size(); ++row) {
    if (cells.is_missing(row)) continue;
    if (!std::isnan(date_in_cell(column, row, out.date_form, out.date_order))) continue;
    refuse_cell(table, row, column.name,
                concat_to_string("expected a date, got ", in_quotes(column.text(row))));
  }
}

std::optional<ColumnKind> given_kind(const TableRequest& request, const std::string& name) {
  const auto exact = request.columns.find(name);
  if (exact != request.columns.end()) return exact->second;
  for (const auto& [pattern, kind] : request.columns) {
    if (matches_column(pattern, name)) return kind;
  }
  return std::nullopt;
}

MissingCells missing_cells_of(const TableRequest& request) {
  MissingCells out{request.missing, {}};
  for (const std::string& word : request.missing) {
    double value = 0;
    const bool is_number = detail::parse_number(word, value) == std::errc();
    if (is_number && std::isfinite(value)) out.numbers.push_back(value);
  }
  return out;
}

// Throws InputError for a word in a column of numbers.
void require_numbers(const RawTable& table, const CellReader& cells) {
  const RawColumn& column = cells.column();
  for (int64_t row = 0; row < column.size(); ++row) {
    if (column.is_number(row) || cells.is_missing(row)) continue;
    refuse_cell(
        table, row, column.name,
        concat_to_string(
            "expected a number, got ", in_quotes(column.text(row)), csv::guess_of(column.text(row)),
            "; missing: {values: [...]} lists the words that say that a value is missing"));
  }
}

ColumnSummary summarize(const RawTable& table, const RawColumn& column,
                        const TableRequest& request) {
  ColumnSummary out{.name = column.name, .missing_cells = missing_cells_of(request)};
  const std::optional<ColumnKind> given = given_kind(request, column.name);
  CellCounts n = count_cells(CellReader(column, out.missing_cells));
  std::vector<std::string> more;
  if (!given || *given == ColumnKind::kNumber) {
    more = find_more_missing(CellReader(column, out.missing_cells), n, out.missing_cells);
  }
  const CellReader cells(column, out.missing_cells);
  if (!more.empty()) n = count_cells(cells);
  const Finding found = given ? Finding{*given} : find_kind(table, cells, n, out);
  out.kind = found.kind;
  out.note = found.note;
  if (given == ColumnKind::kDate) find_date_form(table, cells, n, out);
  if (out.kind == ColumnKind::kNumber) require_numbers(table, cells);
  if (!more.empty()) {
    out.note += concat_to_string(out.note.empty() ? "" : "; ", listed(more), " counts as missing");
  }
  out.distinct = n.distinct;
  out.missing = n.missing;
  return out;
}

// Throws OptionError for a name or pattern that no column has.
void require_known(const RawTable& table, const TableRequest& request) {
  std::vector<std::string> names;
  for (const RawColumn& column : table.columns) names.push_back(column.name);
  for (const auto& [pattern, kind] : request.columns) {
    const bool is_known = std::ranges::any_of(
        names, [&](const std::string& name) { return matches_column(pattern, name); });
    if (is_known) continue;
    throw OptionError("columns",
                      concat_to_string(table.files[0].path, " has no column ", in_quotes(pattern),
                                       "; the nearest are ", csv::nearest_names(names, pattern)));
  }
}

// Throws OptionError for several columns of weights.
void require_one_weight(const std::vector<ColumnSummary>& columns) {
  std::vector<std::string> names;
  for (const ColumnSummary& column : columns) {
    if (column.kind == ColumnKind::kWeight) names.push_back(column.name);
  }
  if (names.size() < 2) return;
  throw OptionError("columns", concat_to_string("columns: only one column can be the weight, not ",
                                                in_quotes(names[0]), " and ", in_quotes(names[1])));
}

}  // namespace

CellReader::CellReader(const RawColumn& column, const MissingCells& missing)
    : column_(&column), is_missing_word_(column.words().size()), missing_numbers_(missing.numbers) {
  if (!column.has_distinct_words()) {
    const std::unordered_set<std::string_view> words(missing.words.begin(), missing.words.end());
    size_t index = 0;
    for (const std::string_view word : column.words()) {
      is_missing_word_[index++] = word.empty() || words.contains(word);
    }
    return;
  }
  for (const std::string& word : missing.words) {
    const int64_t index = column.find_word(word);
    if (index >= 0) is_missing_word_[size_t(index)] = true;
  }
  const int64_t empty = column.find_word("");
  if (empty >= 0) is_missing_word_[size_t(empty)] = true;
}

bool CellReader::is_missing_number(double value) const {
  return std::ranges::find(missing_numbers_, value) != missing_numbers_.end();
}

std::vector<std::string> usual_missing_words() {
  return {"",    "NA",   "N/A",  "n/a",  "#N/A", "<NA>", "NaN", "nan",
          "NAN", "null", "Null", "NULL", "None", "-nan", "?"};
}

int64_t find_column(const RawTable& table, const std::string& name) {
  const auto count = std::ssize(table.columns);
  if (const int64_t found = table.find(name); found >= 0) return found;
  int64_t index = 0;
  const bool is_index = detail::parse_number(name, index) == std::errc();
  if (is_index && index >= -count && index < count) return (index + count) % count;
  std::vector<std::string> names;
  for (const RawColumn& column : table.columns) names.push_back(column.name);
  const TableFile& file = table.files[0];
  throw InputError(concat_to_string(
      file.path, ": no column ", in_quotes(name),
      file.has_header
          ? concat_to_string("; the nearest of its columns are ", csv::nearest_names(names, name))
          : concat_to_string("; the file has no header, so a column is an index in ", -count,
                             " .. ", count - 1)));
}

std::vector<ColumnSummary> understand_columns(const RawTable& table, const TableRequest& request) {
  require_known(table, request);
  std::vector<ColumnSummary> out;
  for (const RawColumn& column : table.columns) out.push_back(summarize(table, column, request));
  if (!request.group.empty()) {
    ColumnSummary& group = out[size_t(find_column(table, request.group))];
    group.kind = ColumnKind::kGroup;
    group.note = "its rows stay together";
  }
  for (const std::string& name : request.targets) {
    const auto at = size_t(find_column(table, name));
    out[at].kind = ColumnKind::kTarget;
    out[at].note.clear();
    out[at].missing_cells = missing_cells_of(request);
  }
  require_one_weight(out);
  return out;
}

bool matches_column(const std::string& pattern, const std::string& name) {
  return name == pattern || fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

double date_in_cell(const RawColumn& column, int64_t row, DateForm form, DateOrder order) {
  if (form == DateForm::kSeconds) return column.number(row);
  if (form == DateForm::kMilliseconds) return column.number(row) / 1000;
  return parse_date(column.text(row), order).value_or(kNan);
}

Task task_for(const RawColumn& target, const MissingCells& missing) {
  const CellCounts n = count_cells(CellReader(target, missing));
  // A stray word in a column of numbers does not make each number a class. It is refused later.
  const bool has_values =
      double(n.numbers) >= kMostlyNumbers * double(n.known()) && n.distinct > 2 * kMostClassNumbers;
  const bool are_classes =
      has_values ? false : n.words > 0 || (n.are_integers && n.distinct <= kMostClassNumbers);
  return are_classes ? Task::kClassification : Task::kRegression;
}

Task task_for_several(const RawTable& table, const std::vector<const ColumnSummary*>& targets) {
  bool are_pairs = true;
  std::string numbers, words;  // the targets of either kind
  for (const ColumnSummary* target : targets) {
    const RawColumn& column = table.columns[size_t(find_column(table, target->name))];
    const CellCounts n = count_cells(CellReader(column, target->missing_cells));
    are_pairs = are_pairs && n.distinct == 2 && (n.words > 0 || n.are_integers);
    std::string& names = n.words > 0 ? words : numbers;
    names += concat_to_string(
        names.empty() ? "" : ", ", in_quotes(target->name),
        n.words > 0 && n.distinct != 2 ? concat_to_string(" (", n.distinct, " words)") : "");
  }
  if (are_pairs) return Task::kClassification;
  if (words.empty()) return Task::kRegression;
  throw OptionError(
      "target",
      concat_to_string("target: several targets must all be numbers, or all have two different "
                       "values, such as yes and no; these have words: ",
                       words,
                       numbers.empty() ? "" : concat_to_string("; and these numbers: ", numbers),
                       "; train a model for each, or with the targets of one kind"));
}

void refuse_cell(const RawTable& table, int64_t row, const std::string& column,
                 const std::string& what) {
  throw InputError(
      concat_to_string(table.place_of(row), ": column ", in_quotes(column), ": ", what));
}

}  // namespace taper::v0::data
