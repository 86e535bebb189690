// Tables as they are in files: columns of cells without a meaning. Reads CSV and similar text,
// plain or compressed, and JSON lines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tables/reading/raw_column.h"
#include "framework/base/text_enum.h"

namespace taper::v0::data {

// How much of all files has been read. Bytes are those of the files as they are, compressed or not.
struct TableReadProgress {
  int64_t bytes = 0, total_bytes = 0;
  int64_t rows = 0;
};

// Installs a function that is called while tables are read, in the same way as
// TableReadOptions::progress, unless the options have one. It is called by the thread that reads.
// nullptr removes it. By default there is none.
using ShowTableProgress = void (*)(const TableReadProgress&);
void set_table_progress(ShowTableProgress show);

// How the text of a table is read. For JSON lines, only `skip` and `encoding` are used.
struct TableReadOptions {
  struct HeaderValues {
    enum class Value : uint8_t { kAuto, kPresent, kAbsent };
    static constexpr Value kAuto = Value::kAuto, kPresent = Value::kPresent,
                           kAbsent = Value::kAbsent;
    static constexpr const char* kOption = "header";
    static constexpr const char* kWords[] = {"auto", "present", "absent"};
  };
  using Header = TextEnum<HeaderValues>;

  // One character, "blanks" (runs of blanks and tabs), or "auto", which finds one of , ; tab | and
  // blanks. A first line such as "sep=;" in the file overrides it.
  std::string delimiter = "auto";
  std::string decimal = ".";       // the decimal separator of numbers: "." or ","
  std::string encoding = "utf-8";  // or "latin-1" or "utf-16"; a byte order mark overrides it
  int64_t skip = 0;                // number of lines at the top of each file that are not read
  Header header = Header::kAuto;   // whether the first row contains column names
  // Columns that the caller will use. With kAuto, a first row that has one of them is a header.
  std::vector<std::string> expected_columns{};
  // Called about once per quarter of a MiB of text. It may throw to end the reading.
  std::function<void(const TableReadProgress&)> progress{};
};

// The properties of one file that were found when it was read.
struct TableFile {
  std::string path{};
  int64_t rows = 0;
  int64_t bytes = 0;          // the size of the file
  std::string format{};       // "csv" or "jsonl"
  std::string compression{};  // "", "gzip", "zstd" or "zip"
  std::string encoding{};     // "utf-8", "latin-1" or "utf-16"
  std::string delimiter{};    // one character, or "blanks"; empty for JSON lines
  bool has_header = false;    // true for JSON lines
};

// Rows of one or several files. Rows keep the order of the files.
struct RawTable {
  std::vector<RawColumn> columns;
  int64_t rows = 0;
  std::vector<TableFile> files;
  double seconds = 0;  // the time that reading took
  // Sentences for the user, for example about renamed or missing columns and decimal commas.
  std::vector<std::string> notes;

  // Returns the index of the column of that name, or -1.
  int64_t find(std::string_view name) const;
  // Returns the numbers of all rows: 0, 1, ...
  std::vector<int64_t> all_rows() const;
  // Returns "FILE:LINE" for a row, with the line in which the row begins.
  std::string place_of(int64_t row) const;

  // An entry describes the rows from `row` on, up to the row of the next entry: they are in
  // consecutive lines of `file`, from `line` on.
  struct Place {
    int64_t row, file, line;
  };
  std::vector<Place> places;
};

// Reads tables and joins their rows. Columns are joined by name. If a file lacks a column, its
// cells are empty in the rows of that file, and `notes` names the column. Files without a header
// must have the same number of columns. A path may contain the wildcards of glob(7).
//
// A cell is a number if all of it is a finite decimal number without needless leading zeros, quoted
// or not. Otherwise it is a word, without the blanks around it unless they are quoted. In the
// columns that `text_columns` names, by name or by a pattern with * and ?, every cell is a word,
// spelled as in the file. JSON's null is an empty cell; true and false are words.
//
// The format follows from the content and the name. It is delimited text or JSON lines (.jsonl,
// .ndjson). Either may be compressed by gzip or zstd, or be the only table in a zip archive.
// Compressed files are decompressed in parts.
//
// Throws InputError with the file, and if possible the line and column, in these cases:
// - The file is missing, empty, truncated, damaged or in another format.
// - Text is not in the encoding.
// - A row has another length than the others, or more than 16 MiB.
// - A quote is not closed, or is closed within a cell.
// - There are lines above the table, which `skip` removes.
// - It is not clear whether the first row is a header.
// - There are more than 250,000 columns.
// - A compressed file expands without end.
//
// Throws ValueError for invalid options. Calls check_stop().
RawTable read_table(const std::vector<std::filesystem::path>& files,
                    const TableReadOptions& options = {},
                    const std::vector<std::string>& text_columns = {});

// Returns the files that the paths name, in the order of the paths. The files of a wildcard are
// sorted. Throws InputError for a wildcard that no file matches.
std::vector<std::filesystem::path> expand_wildcards(
    const std::vector<std::filesystem::path>& paths);

}  // namespace taper::v0::data
