#include "data/tables/reading/table_layout.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <ranges>
#include <set>

#include "data/tables/reading/csv_cells.h"
#include "framework/base/error.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data::reading {
namespace {

using csv::Fields;
using csv::Record;
using taper::detail::in_quotes;

constexpr size_t kMostRows = 1000;  // maximum number of rows that are examined
constexpr size_t kMostForDelimiter = 200;
constexpr size_t kMostCells = 1'000'000;
constexpr size_t kMostText = size_t(4) << 20;  // in which a delimiter is sought
constexpr size_t kMostAbove = 100;             // lines above a table
constexpr std::string_view kDelimiters = ",;\t|";

// Splits a sample into rows of cells without checking them: a quote that is not closed ends with
// the text. Omits a last row that may be cut off.
class SampleSplitter {
 public:
  SampleSplitter(std::string_view text, const CellFormat& format, int64_t line)
      : rest_(text), format_(format), line_(line) {}

  std::vector<Record> run(size_t most, bool is_whole) {
    std::vector<Record> out;
    size_t cells = 0;
    while (!rest_.empty() && out.size() < most && cells < kMostCells) {
      Record row{.line = line_, .fields = {}};
      const bool is_complete = split_row(row.fields);
      if (!is_complete && !is_whole) break;
      const bool is_blank = row.fields.size() == 1 && row.fields[0].empty();
      cells += row.fields.size();
      if (!is_blank) out.push_back(std::move(row));
    }
    return out;
  }
  // Returns the line of the row after those that run() returned.
  int64_t line() const { return line_; }
  size_t size_left() const { return rest_.size(); }

 private:
  bool is_delimiter(char c) const {
    return c == format_.delimiter || (format_.is_blanks && c == '\t');
  }
  void skip_blanks() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t') &&
           (format_.is_blanks || rest_[0] != format_.delimiter)) {
      rest_.remove_prefix(1);
    }
  }
  // Returns false if the text ended before the row did, or if the row has too many cells.
  bool split_row(Fields& cells) {
    while (cells.size() <= kMostCells) {
      skip_blanks();
      if (format_.is_blanks && !cells.empty() && take_line_end()) return true;
      cells.push_back(split_cell());
      if (rest_.empty()) return false;
      if (take_line_end()) return true;
      rest_.remove_prefix(1);
    }
    rest_ = {};
    return false;
  }
  bool take_line_end() {
    const size_t size = rest_.starts_with("\r\n")                            ? 2
                        : rest_.starts_with('\n') || rest_.starts_with('\r') ? 1
                                                                             : 0;
    rest_.remove_prefix(size);
    line_ += size > 0;
    return size > 0;
  }
  std::string split_cell() {
    std::string out;
    const bool is_quoted = rest_.starts_with('"');
    if (is_quoted) take_quoted(out);
    const auto ends = [this](char c) { return is_delimiter(c) || c == '\n' || c == '\r'; };
    const auto end = std::ranges::find_if(rest_, ends);
    const std::string_view tail(rest_.begin(), end);
    rest_.remove_prefix(tail.size());
    if (is_quoted) return out;
    return std::string(tail.substr(0, tail.find_last_not_of(" \t") + 1));
  }
  void take_quoted(std::string& out) {
    rest_.remove_prefix(1);
    while (!rest_.empty()) {
      const size_t quote = std::min(rest_.find('"'), rest_.size());
      const bool is_double = rest_.substr(quote).starts_with("\"\"");
      const std::string_view part = rest_.substr(0, quote + (is_double ? 1 : 0));
      line_ += std::ranges::count(part, '\n');
      out += part;
      rest_.remove_prefix(std::min(quote + (is_double ? 2 : 1), rest_.size()));
      if (!is_double) return;
    }
  }

  std::string_view rest_;
  const CellFormat format_;
  int64_t line_;
};

// Returns the most frequent number of cells, and the share of the rows that have it.
struct Width {
  size_t cells = 0;
  double share = 0;
};
Width width_of(const std::vector<Record>& rows, size_t from = 0) {
  std::map<size_t, size_t> counts;
  for (const Record& row : rows | std::views::drop(from)) ++counts[row.fields.size()];
  Width out;
  for (const auto& [cells, count] : counts) {
    const double share = double(count) / double(rows.size() - from);
    if (share >= out.share) out = {cells, share};
  }
  return out;
}

// Returns whether a cell contains a character that may be the real delimiter. A comma between
// digits may be a decimal comma.
bool has_other_delimiter(const std::string& cell, char delimiter) {
  const auto is_digit = [&](size_t i) {
    return i < cell.size() && std::isdigit(static_cast<unsigned char>(cell[i])) != 0;
  };
  for (size_t i = 0; i < cell.size(); ++i) {
    if (cell[i] == delimiter || kDelimiters.find(cell[i]) == kDelimiters.npos) continue;
    const bool is_decimal = cell[i] == ',' && i > 0 && is_digit(i - 1) && is_digit(i + 1) &&
                            std::ranges::count(cell, ',') == 1;
    if (!is_decimal) return true;
  }
  return false;
}

// Returns how well a delimiter explains the rows, from 0 to 1.
double score_of(const std::vector<Record>& rows, char delimiter) {
  const Width width = width_of(rows);
  if (width.cells < 2) return 0;
  size_t clean = 0, all = 0;
  for (const Record& row : rows) {
    if (row.fields.size() != width.cells) continue;
    all += width.cells;
    clean += size_t(std::ranges::count_if(row.fields, [&](const std::string& cell) {
      return !has_other_delimiter(cell, delimiter);
    }));
  }
  // The first row may be a line above the table, or a header without the name of the row names.
  const Width rest = rows.size() > 2 ? width_of(rows, 1) : width;
  const double share = rest.cells == width.cells ? std::max(width.share, rest.share) : width.share;
  return share * double(clean) / double(all);
}

CellFormat find_format(const std::string& path, std::string_view text, bool is_whole, char point) {
  constexpr double kNameSays = 0.25;
  is_whole = is_whole && text.size() <= kMostText;
  text = text.substr(0, kMostText);
  CellFormat best{.delimiter = point == ',' ? ';' : ',', .point = point};
  double best_score = 0;
  for (const char delimiter : kDelimiters) {
    if (delimiter == point) continue;
    const CellFormat format{.delimiter = delimiter, .point = point};
    const auto rows = SampleSplitter(text, format, 1).run(kMostForDelimiter, is_whole);
    double score = rows.empty() ? 0 : score_of(rows, delimiter);
    if (score > 0.5 && delimiter == '\t' && path.find(".tsv") != std::string::npos)
      score += kNameSays;
    if (score <= best_score) continue;
    best = format;
    best_score = score;
  }
  if (best_score > 0.5) return best;
  const CellFormat blanks{.delimiter = ' ', .is_blanks = true, .point = point};
  const auto rows = SampleSplitter(text, blanks, 1).run(kMostForDelimiter, is_whole);
  return !rows.empty() && score_of(rows, ' ') > std::max(best_score, 0.8) ? blanks : best;
}

CellFormat requested_format(const std::string& delimiter, char point) {
  const bool is_blanks = delimiter == "blanks";
  const bool fits =
      is_blanks ||
      (delimiter.size() == 1 && !std::isalnum(static_cast<unsigned char>(delimiter[0])) &&
       std::string_view("\"\r\n.+-_").find(delimiter[0]) == std::string_view::npos &&
       static_cast<unsigned char>(delimiter[0]) < 0x80);
  require<ValueError>(fits, "delimiter: expected one character such as ',' or ';', \"blanks\" or ",
                      "\"auto\", got ", in_quotes(delimiter));
  require<ValueError>(is_blanks || delimiter[0] != point,
                      "delimiter: the comma cannot separate both cells and decimals");
  return {.delimiter = is_blanks ? ' ' : delimiter[0], .is_blanks = is_blanks, .point = point};
}

// Returns the offset of the text after the first `count` lines.
size_t skip_lines(const std::string& path, std::string_view text, int64_t count) {
  size_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    at = std::min(text.find_first_of("\r\n", at), text.size());
    require<InputError>(at < text.size(), path, ": expected more than the ", i,
                        " lines that are here, because read.skip is ", count);
    at += text.substr(at).starts_with("\r\n") ? 2 : 1;
  }
  return at;
}

bool are_all_words(const Fields& cells) {
  return std::ranges::all_of(cells, [](const std::string& c) { return csv::is_text(c); });
}

// Throws if there are lines above the table, that is, if the first rows have another length than
// all others.
void refuse_lines_above(const std::string& path, const std::vector<Record>& rows) {
  const Width width = width_of(rows);
  size_t above = 0;
  while (above < rows.size() && rows[above].fields.size() != width.cells) ++above;
  if (above == 0 || above > kMostAbove || above + 2 > rows.size() || width.cells < 2) return;
  if (width_of(rows, above).share < 0.9) return;
  const int64_t last = rows[above].line - 1;
  const std::string what =
      above == 1 ? concat_to_string("this line has ", rows[0].fields.size(), " cells")
                 : concat_to_string("this line and those below it have other numbers of cells");
  csv::fail_at(path, rows[0].line, what, ", but the rows from line ", rows[above].line, " on have ",
               width.cells,
               "; what is neither a header nor a row is left out by `read: {skip: ", last, "}`");
}

class LayoutFinder {
 public:
  LayoutFinder(const std::string& path, const LayoutRequest& request)
      : path_(path), request_(request) {}

  TableLayout run(std::string_view text, bool is_whole) {
    const char point = request_.decimal == "," ? ',' : '.';
    require<ValueError>(request_.decimal == "," || request_.decimal == ".",
                        "decimal: expected . or ,, got ", in_quotes(request_.decimal));
    require<ValueError>(request_.skip >= 0, "skip: expected at least 0, got ", request_.skip);
    size_t start = skip_lines(path_, text, request_.skip);
    const auto declared = csv::declared_delimiter(text.substr(start));
    if (declared) start += csv::kDelimiterLine;
    const std::string_view rest = text.substr(start);
    out_.format = declared                       ? requested_format({*declared}, point)
                  : request_.delimiter == "auto" ? find_format(path_, rest, is_whole, point)
                                                 : requested_format(request_.delimiter, point);
    const int64_t line = 1 + request_.skip;
    rows_ = SampleSplitter(rest, out_.format, line).run(kMostRows, is_whole);
    if (rows_.empty()) throw InputError(path_, ": expected rows of data, got an empty file");
    find_names();
    out_.start = start;
    out_.start_line = line;
    if (!out_.has_header) return std::move(out_);
    SampleSplitter splitter(rest, out_.format, line);
    (void)splitter.run(1, is_whole);
    out_.start = text.size() - splitter.size_left();
    out_.start_line = splitter.line();
    return std::move(out_);
  }

 private:
  void find_names() {
    const size_t width = width_of(rows_).cells;
    Fields first = rows_[0].fields;
    const bool is_short = request_.header != LayoutRequest::Header::kAbsent && rows_.size() > 1 &&
                          first.size() + 1 == width && width_of(rows_, 1).share == 1 &&
                          are_all_words(first);
    if (is_short) {
      out_.has_header = true;
      complete(first);
    } else {
      refuse_lines_above(path_, rows_);
      out_.has_header = is_header();
      if (!out_.has_header) first.assign(first.size(), "");
    }
    name_columns(first);
  }

  // Completes a header that lacks one name. This is the name of the column of row names, as R
  // writes them, or of an empty column after a delimiter at the end of each row.
  void complete(Fields& header) {
    const auto ends_empty = [](const Record& row) { return row.fields.back().empty(); };
    const bool is_last = std::all_of(rows_.begin() + 1, rows_.end(), ends_empty);
    header.insert(is_last ? header.end() : header.begin(), "");
    out_.notes.push_back(concat_to_string(path_, ": the header has no name for the ",
                                          is_last ? "last" : "first", " column"));
  }

  bool is_header() const {
    using Header = LayoutRequest::Header;
    if (request_.header != Header::kAuto) return request_.header == Header::kPresent;
    const Fields& first = rows_[0].fields;
    const auto is_known = [this](const std::string& cell) {
      return request_.known_names.contains(cell);
    };
    const auto is_expected = [this](const std::string& cell) {
      return request_.expected_names.contains(cell) && csv::is_text(cell);
    };
    if (2 * std::ranges::count_if(first, is_known) >= std::ssize(first)) return true;
    if (std::ranges::any_of(first, is_expected) || has_years(rows_[0])) return true;
    return csv::detect_header(path_, rows_, "data.read.header") || has_names_of_words();
  }

  // Returns whether all numbers of the row are years that follow each other, which are names of
  // columns, and the next row has other numbers.
  bool has_years(const Record& row) const {
    constexpr int64_t kFirst = 1800, kLast = 2200;
    std::vector<int64_t> years;
    for (const std::string& cell : row.fields) {
      const std::optional<int64_t> number = csv::integer_of(cell);
      if (!number && !csv::is_text(cell)) return false;
      if (!number) continue;
      const bool follows = years.empty() || *number == years.back() + 1;
      if (!follows || *number < kFirst || *number > kLast) return false;
      years.push_back(*number);
    }
    const bool is_first = &row == rows_.data();
    return years.size() > 1 && (!is_first || (rows_.size() > 1 && !has_years(rows_[1])));
  }

  // Returns whether the first row is a header: its words are distinct, and one of them is unlike
  // the cells below it. A single row of words is a header without rows.
  bool has_names_of_words() const {
    const Fields& first = rows_[0].fields;
    const std::set<std::string> different(first.begin(), first.end());
    if (different.size() < first.size() || !are_all_words(first)) return false;
    for (size_t i = 0; i < first.size(); ++i) {
      if (rows_.size() > 2 && csv::is_unlike_the_rest(rows_, i)) return true;
    }
    return rows_.size() == 1;
  }

  // Makes the names of the columns unique.
  void name_columns(const Fields& names) {
    std::set<std::string> taken;
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string name = names[i].empty() ? concat_to_string("column ", i) : names[i];
      std::string own = name;
      for (int time = 2; !taken.insert(own).second; ++time) {
        own = concat_to_string(name, " (", time, ")");
      }
      if (own != name) {
        out_.notes.push_back(concat_to_string(path_, ": column ", i, " is called ", in_quotes(own),
                                              ", because an earlier one is called ",
                                              in_quotes(name)));
      }
      out_.names.push_back(std::move(own));
    }
  }

  const std::string& path_;
  const LayoutRequest& request_;
  TableLayout out_;
  std::vector<Record> rows_;
};

}  // namespace

TableLayout find_layout(const std::string& path, std::string_view sample, bool is_whole,
                        const LayoutRequest& request) {
  return LayoutFinder(path, request).run(sample, is_whole);
}

}  // namespace taper::v0::data::reading
