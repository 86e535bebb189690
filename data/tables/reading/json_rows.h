// Rows of a table as JSON lines: one object per line. Not a public header.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tables/reading/raw_column.h"
#include "data/tables/reading/text_buffer.h"

namespace taper::v0::data::reading {

// Where the values of a row go.
struct JsonTarget {
  // Returns the column of a key, which may be a new one, whose cells of earlier rows are empty. The
  // pointer need not stay valid.
  std::function<RawColumn*(std::string_view key)> column_of;
  std::function<bool(std::string_view key)> is_text;  // whether a column's numbers stay words
  // Called at the end of each row with the line and the number of values.
  std::function<void(int64_t line, int64_t values)> on_row;
  std::function<void()> on_progress;  // called now and then
};

// Reads the rows of a file, except the first `skip` lines. Numbers are cells of numbers, and so
// are strings that are spelled like one; other strings, true and false are words, and null is an
// empty cell. Blank lines are skipped. Throws InputError with the file and the line, and with the
// key where there is one: for a line that is no JSON object, and for nested values.
void scan_json_rows(TextBuffer& text, const std::string& path, int64_t skip,
                    const JsonTarget& target);

}  // namespace taper::v0::data::reading
