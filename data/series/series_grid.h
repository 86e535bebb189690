// Series on a grid of equal steps, read from the rows of a table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/series/series_encoding.h"
#include "data/tables/raw_table.h"

namespace taper::v0::data {

// One series. Step i is at the time step.after(start, i).
struct OneSeries {
  std::string name;                 // "" if the table has one series
  std::vector<std::string> keys{};  // the cells of the columns that tell series apart
  double start = 0;
  std::vector<double> values{};   // of the target; missing steps have values between others
  std::vector<bool> is_filled{};  // whether the step has no value in the table
  std::vector<float> known{};     // [num_steps(), known features]
  std::vector<double> times{};    // of each row, if rows count as equally spaced
  int64_t future = 0;             // steps after the last value, with known features

  int64_t size() const { return std::ssize(values); }
  int64_t num_steps() const { return size() + future; }
  double time_at(int64_t step_number, const TimeStep& step) const;
};

// The facts about the rows that the report states.
struct GridNotes {
  int64_t gaps = 0, missing = 0;  // in how many places how many steps were missing
  std::string first_gap{};        // "A: 3 steps after 2024-01-05"
  int64_t known_filled = 0;       // missing cells of known columns
  bool was_unsorted = false;
};

struct SeriesGrid {
  std::vector<OneSeries> series;
  GridNotes notes;
};

// Sets date_form, date_order, step and the words of known columns in the encoding, whose names are
// set, from the table. Throws InputError with the file, and the line if there is one, for a column
// that is missing or has cells that are no times or numbers. Throws OptionError for a known column
// with too many words.
void fit_columns(const RawTable& table, SeriesEncoding& encoding);

// Returns the series of a table in the order of their first rows. Rows may be in any order.
// needs_target: false if the column of the target may be missing. Throws InputError with file and
// line for a time that occurs twice in a series, that is not on the grid, or lacks; for a cell that
// is no number; for a gap, if these are refused; and for gaps that are much longer than the table.
SeriesGrid grid_of(const RawTable& table, const SeriesEncoding& encoding);

// Reads a file with the encoding's columns. Throws the errors of read_table(), and InputError for a
// missing column.
RawTable read_series_file(const SeriesEncoding& encoding,
                          const std::vector<std::filesystem::path>& files);

}  // namespace taper::v0::data
