#include "data/series/series_grid.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "data/source.h"
#include "data/tables/reading/csv_cells.h"
#include "framework/base/cancel.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

using detail::in_quotes;

constexpr int64_t kMostWords = 50;
// Gaps may make the series this many times as long as the table, and in any case this long.
constexpr int64_t kMostGrowth = 20, kAlwaysFine = 100'000;

MissingCells usual_missing() { return {usual_missing_words(), {}}; }

// Returns the index of a column. Throws InputError with the nearest names if it does not exist.
size_t column_named(const RawTable& table, const std::string& name) {
  return size_t(find_column(table, name));
}

// Reads the times of the rows.
class Times {
 public:
  Times(const RawTable& table, const SeriesEncoding& encoding)
      : table_(table),
        column_(table.columns[column_named(table, encoding.time)]),
        cells_(column_, missing_),
        encoding_(encoding) {}

  double at(int64_t row) const {
    if (cells_.is_missing(row)) refuse_cell(table_, row, column_.name, "the time is missing");
    const double time = encoding_.step.are_dates
                            ? date_in_cell(column_, row, encoding_.date_form, encoding_.date_order)
                            : column_.number(row);
    if (!std::isnan(time)) return time;
    refuse_cell(table_, row, column_.name,
                concat_to_string("expected ", encoding_.step.are_dates ? "a date" : "a number",
                                 ", got ", in_quotes(column_.text(row))));
  }

 private:
  const RawTable& table_;
  const RawColumn& column_;
  const MissingCells missing_ = usual_missing();
  CellReader cells_;
  const SeriesEncoding& encoding_;
};

// The rows of one series, in the order of their times.
struct SeriesRows {
  std::string name;
  std::vector<std::string> keys;
  std::vector<int64_t> rows;
  std::vector<double> times;
};

std::vector<SeriesRows> group_rows(const RawTable& table, const SeriesEncoding& encoding) {
  std::vector<SeriesRows> out;
  if (encoding.series.empty()) {
    out.push_back({});
    out[0].rows.resize(size_t(table.rows));
    std::iota(out[0].rows.begin(), out[0].rows.end(), int64_t(0));
    return out;
  }
  std::vector<const RawColumn*> columns;
  for (const std::string& name : encoding.series) {
    columns.push_back(&table.columns[column_named(table, name)]);
  }
  std::map<std::vector<std::string>, size_t> known;
  for (int64_t row = 0; row < table.rows; ++row) {
    std::vector<std::string> keys;
    for (const RawColumn* column : columns) keys.push_back(column->text(row));
    const auto [at, is_new] = known.emplace(keys, out.size());
    if (is_new) {
      std::string name;
      for (const std::string& key : keys) name += (name.empty() ? "" : " / ") + key;
      out.push_back({.name = name, .keys = std::move(keys), .rows = {}, .times = {}});
    }
    out[at->second].rows.push_back(row);
  }
  check_stop();
  return out;
}

std::string of_series(const std::string& name) {
  return name.empty() ? "" : concat_to_string(" in series ", in_quotes(name));
}

// Sorts the rows by time. Returns whether they were in another order. Throws InputError for a time
// that occurs twice.
bool sort_rows(const RawTable& table, const SeriesEncoding& encoding, SeriesRows& s) {
  const Times times(table, encoding);
  std::vector<std::pair<double, int64_t>> order;
  for (const int64_t row : s.rows) order.emplace_back(times.at(row), row);
  const bool is_sorted = std::ranges::is_sorted(order);
  std::ranges::sort(order);
  for (size_t i = 0; i < order.size(); ++i) {
    s.rows[i] = order[i].second;
    s.times.push_back(order[i].first);
    if (i == 0 || order[i].first != order[i - 1].first) continue;
    refuse_cell(
        table, s.rows[i], encoding.time,
        concat_to_string(
            in_quotes(table.columns[column_named(table, encoding.time)].text(s.rows[i])),
            " occurs twice", of_series(s.name), ", first in ", table.place_of(s.rows[i - 1]),
            encoding.series.empty() ? "; `series: COLUMN` tells several series apart" : ""));
  }
  return !is_sorted;
}

// --- columns ---

// Times with a word must be dates; otherwise they may be numbers.
void fit_times(const RawTable& table, SeriesEncoding& encoding) {
  const size_t at = column_named(table, encoding.time);
  const RawColumn& column = table.columns[at];
  TableRequest request;
  request.missing = usual_missing_words();
  for (const RawColumn& each : table.columns) request.columns[each.name] = ColumnKind::kIgnore;
  request.columns.erase(column.name);
  ColumnSummary found = understand_columns(table, request)[at];
  const CellReader cells(column, found.missing_cells);
  for (int64_t row = 0; found.kind != ColumnKind::kDate && row < table.rows; ++row) {
    if (column.is_number(row) || cells.is_missing(row)) continue;
    request.columns[column.name] = ColumnKind::kDate;  // throws for the first cell that is none
    found = understand_columns(table, request)[at];
  }
  encoding.date_form = found.date_form;
  encoding.date_order = found.date_order;
  encoding.step.are_dates = found.kind == ColumnKind::kDate;
}

void fit_step(const RawTable& table, SeriesEncoding& encoding) {
  std::vector<std::vector<double>> times;
  for (SeriesRows& s : group_rows(table, encoding)) {
    (void)sort_rows(table, encoding, s);
    times.push_back(std::move(s.times));
  }
  const auto step = find_step(times, encoding.step.are_dates);
  require<InputError>(step.has_value(), table.files[0].path, ": no series has two times, so there ",
                      "is nothing to learn from",
                      encoding.series.empty() ? "" : "; does `series` name the right columns?");
  encoding.step = *step;
  encoding.step.are_dates = step->unit != StepUnit::kNumbers;
  if (encoding.gaps != Gaps::kIgnore) return;
  encoding.step.unit = StepUnit::kRows;
  if (step->unit == StepUnit::kMonths) encoding.step.length *= 30.436875 * 86400;
}

void fit_known(const RawTable& table, KnownColumn& known) {
  const RawColumn& column = table.columns[column_named(table, known.name)];
  const MissingCells missing = usual_missing();
  const CellReader cells(column, missing);
  std::set<std::string> words;
  for (int64_t row = 0; row < table.rows && std::ssize(words) <= kMostWords; ++row) {
    if (!cells.is_missing(row)) words.insert(column.text(row));
  }
  const bool are_numbers = [&] {
    for (int64_t row = 0; row < table.rows; ++row) {
      if (!column.is_number(row) && !cells.is_missing(row)) return false;
    }
    return true;
  }();
  if (are_numbers) return;
  if (std::ssize(words) > kMostWords) {
    throw OptionError(
        "known", concat_to_string(table.files[0].path, ": column ", in_quotes(known.name),
                                  " has more than ", kMostWords, " different words; leave it out"));
  }
  known.words.assign(words.begin(), words.end());
}

// --- the grid ---

class GridBuilder {
 public:
  GridBuilder(const RawTable& table, const SeriesEncoding& encoding)
      : table_(table),
        encoding_(encoding),
        target_at_(table.find(encoding.target)),
        width_(size_t(encoding.known_features())) {
    if (target_at_ >= 0) target_.emplace(table.columns[size_t(target_at_)], missing_);
    for (const KnownColumn& known : encoding.known) {
      known_.emplace_back(table.columns[column_named(table, known.name)], missing_);
    }
  }

  SeriesGrid build() {
    SeriesGrid out;
    for (SeriesRows& s : group_rows(table_, encoding_)) {
      out.notes.was_unsorted |= sort_rows(table_, encoding_, s);
      out.series.push_back(series_of(s));
    }
    out.notes.gaps = notes_.gaps;
    out.notes.missing = notes_.missing;
    out.notes.first_gap = notes_.first_gap;
    out.notes.known_filled = notes_.known_filled;
    return out;
  }

 private:
  // Returns the target of a row; nan if it is missing.
  double value_at(int64_t row) const {
    if (!target_ || target_->is_missing(row)) return NAN;
    const RawColumn& column = target_->column();
    if (column.is_number(row)) return column.number(row);
    const std::string text = column.text(row);
    const auto number = csv::decorated_number(text);
    const bool has_comma = number && number->may_have_decimal_comma;
    refuse_cell(table_, row, column.name,
                concat_to_string("expected a number, got ", in_quotes(text), csv::guess_of(text),
                                 has_comma ? ", or set read: {decimal: \",\"}" : ""));
  }

  // Returns the step at which each row is. Throws InputError for a time that is not on the grid.
  std::vector<int64_t> steps_of(const SeriesRows& s) {
    std::vector<int64_t> out(s.rows.size());
    std::iota(out.begin(), out.end(), int64_t(0));
    if (encoding_.step.unit == StepUnit::kRows) return out;
    for (size_t i = 0; i < s.rows.size(); ++i) {
      const auto step = encoding_.step.steps_between(s.times[0], s.times[i]);
      if (!step) refuse_irregular(s, i);
      out[i] = *step;
    }
    growth_ += out.back() + 1 - std::ssize(out);
    if (growth_ > std::max(kAlwaysFine, kMostGrowth * table_.rows)) refuse_growth(s, out);
    return out;
  }
  [[noreturn]] void refuse_irregular(const SeriesRows& s, size_t i) const {
    const TimeStep& step = encoding_.step;
    refuse_cell(
        table_, s.rows[i], encoding_.time,
        concat_to_string(in_quotes(step.time_text(s.times[i])), " is no whole number of steps of ",
                         step.text(), " after ", in_quotes(step.time_text(s.times[0])),
                         ", where the series begins", of_series(s.name),
                         "; `gaps: ignore` takes rows as equally spaced"));
  }
  [[noreturn]] void refuse_growth(const SeriesRows& s, const std::vector<int64_t>& steps) const {
    size_t longest = 1;
    for (size_t i = 1; i < steps.size(); ++i) {
      if (steps[i] - steps[i - 1] > steps[longest] - steps[longest - 1]) longest = i;
    }
    refuse_cell(
        table_, s.rows[longest], encoding_.time,
        concat_to_string("most steps of ", encoding_.step.text(),
                         " are missing: ", steps[longest] - steps[longest - 1] - 1, " after ",
                         in_quotes(encoding_.step.time_text(s.times[longest - 1])),
                         of_series(s.name), "; `gaps: ignore` takes rows as equally spaced"));
  }

  OneSeries series_of(const SeriesRows& s) {
    const std::vector<int64_t> steps = steps_of(s);
    const auto count = size_t(steps.back() + 1);
    std::vector<double> values(count, NAN);
    std::vector<int64_t> row_at(count, -1);
    int64_t last = -1;  // step of the last value
    for (size_t i = 0; i < steps.size(); ++i) {
      const auto at = size_t(steps[i]);
      row_at[at] = s.rows[i];
      values[at] = value_at(s.rows[i]);
      if (!std::isnan(values[at])) last = steps[i];
    }
    OneSeries out{.name = s.name, .keys = s.keys, .start = s.times[0]};
    if (encoding_.step.unit == StepUnit::kRows) out.times = s.times;
    out.future = std::ssize(values) - (last + 1);
    values.resize(size_t(last + 1));
    out.known = known_of(row_at);
    fill(s, row_at, values, out);
    return out;
  }

  // Gives missing steps values between their neighbors, and steps before the first value that
  // value.
  void fill(const SeriesRows& s, const std::vector<int64_t>& row_at, std::vector<double>& values,
            OneSeries& out) {
    out.is_filled.assign(values.size(), false);
    for (size_t i = 0; i < values.size();) {
      if (!std::isnan(values[i])) {
        ++i;
        continue;
      }
      size_t end = i;
      while (std::isnan(values[end])) ++end;  // the last value is never missing
      note_gap(s, row_at, i, end);
      const double after = values[end], before = i > 0 ? values[i - 1] : after;
      for (size_t k = i; k < end; ++k) {
        values[k] = before + (after - before) * double(k - i + 1) / double(end - i + 1);
        out.is_filled[k] = true;
      }
      i = end;
    }
    out.values = std::move(values);
  }

  void note_gap(const SeriesRows& s, const std::vector<int64_t>& row_at, size_t begin, size_t end) {
    const int64_t steps = int64_t(end - begin);
    const TimeStep& step = encoding_.step;
    if (encoding_.gaps == Gaps::kRefuse) {
      size_t next = begin;
      while (row_at[next] < 0) ++next;
      refuse_cell(table_, row_at[next], encoding_.target,
                  concat_to_string(steps, steps == 1 ? " step of " : " steps of ", step.text(),
                                   steps == 1 ? " has" : " have", " no value", of_series(s.name),
                                   "; `gaps: fill` fills them"));
    }
    if (notes_.gaps++ == 0) {
      const double from =
          step.unit == StepUnit::kRows ? s.times[begin] : step.after(s.times[0], int64_t(begin));
      notes_.first_gap = concat_to_string(steps, steps == 1 ? " step" : " steps", " from ",
                                          step.time_text(from), of_series(s.name));
    }
    notes_.missing += steps;
  }

  // Returns the known features of each step. A missing cell has the value before it, or else the
  // first one.
  std::vector<float> known_of(const std::vector<int64_t>& row_at) {
    std::vector<float> out(row_at.size() * width_);
    size_t column = 0;
    for (size_t k = 0; k < known_.size(); ++k) {
      const KnownColumn& known = encoding_.known[k];
      int64_t row = -1;  // of the value before
      for (const int64_t at : row_at) {
        if (row < 0 && at >= 0 && !known_[k].is_missing(at)) row = at;
      }
      for (size_t i = 0; i < row_at.size(); ++i) {
        const bool has_value = row_at[i] >= 0 && !known_[k].is_missing(row_at[i]);
        notes_.known_filled += row_at[i] >= 0 && !has_value;
        if (has_value) row = row_at[i];
        if (row >= 0) write_known(known, k, row, &out[i * width_ + column]);
      }
      column += size_t(known.num_features());
    }
    return out;
  }
  void write_known(const KnownColumn& known, size_t k, int64_t row, float* to) const {
    const RawColumn& column = known_[k].column();
    if (known.words.empty()) {
      if (!column.is_number(row)) {
        refuse_cell(table_, row, known.name,
                    concat_to_string("expected a number, got ", in_quotes(column.text(row))));
      }
      *to = float((column.number(row) - known.mean) / known.std);
      return;
    }
    const auto word = std::ranges::find(known.words, column.text(row));
    if (word != known.words.end()) to[word - known.words.begin()] = 1;  // others: all 0
  }

  const RawTable& table_;
  const SeriesEncoding& encoding_;
  const MissingCells missing_ = usual_missing();
  const int64_t target_at_;
  const size_t width_;
  std::optional<CellReader> target_;
  std::vector<CellReader> known_;
  GridNotes notes_;
  int64_t growth_ = 0;
};

}  // namespace

int64_t SeriesEncoding::known_features() const {
  return std::accumulate(known.begin(), known.end(), int64_t(0),
                         [](int64_t n, const KnownColumn& k) { return n + k.num_features(); });
}

double OneSeries::time_at(int64_t number, const TimeStep& step) const {
  if (times.empty()) return step.after(start, number);
  const auto last = std::ssize(times) - 1;
  return number <= last ? times[size_t(number)]
                        : times[size_t(last)] + double(number - last) * step.length;
}

void fit_columns(const RawTable& table, SeriesEncoding& encoding) {
  fit_times(table, encoding);
  fit_step(table, encoding);
  for (KnownColumn& known : encoding.known) fit_known(table, known);
}

SeriesGrid grid_of(const RawTable& table, const SeriesEncoding& encoding) {
  return GridBuilder(table, encoding).build();
}

RawTable read_series_file(const SeriesEncoding& encoding,
                          const std::vector<std::filesystem::path>& files) {
  TableReadOptions options{.delimiter = encoding.delimiter,
                           .decimal = encoding.decimal,
                           .encoding = encoding.encoding,
                           .skip = encoding.skip};
  options.expected_columns = {encoding.time, encoding.target};
  RawTable table = read_table(expand_wildcards(files), options, encoding.series);
  std::vector<std::string> needed = encoding.series;
  needed.push_back(encoding.time);
  for (const KnownColumn& known : encoding.known) needed.push_back(known.name);
  for (const std::string& name : needed) (void)find_column(table, name);
  return table;
}

}  // namespace taper::v0::data
