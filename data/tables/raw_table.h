// Tables as they are in files: columns of cells, without a meaning. CSV and similar text, plain or
// compressed, and JSON lines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tables/reading/raw_column.h"

namespace taper::v0::data {

// How far the reading of all files is. Bytes are those of the files, compressed or not.
struct TableReadProgress {
  int64_t bytes = 0, total_bytes = 0;
  int64_t rows = 0;
};

// How the text of a table is read. JSON lines use `skip` and `encoding` only.
struct TableReadOptions {
  enum class Header { kAuto, kPresent, kAbsent };

  // One character, "blanks" (runs of blanks and tabs), or "auto", which finds one of , ; tab | and
  // blanks. A first line such as "sep=;" in the file overrides it.
  std::string delimiter = "auto";
  std::string decimal = ".";       // the decimal separator of numbers: "." or ","
  std::string encoding = "utf-8";  // or "latin-1" or "utf-16"; a byte order mark overrides it
  int64_t skip = 0;                // number of lines at the top of each file that are not read
  Header header = Header::kAuto;   // whether the first row contains column names
  // Called about once per quarter of a MiB of text. It may throw to end the reading.
  std::function<void(const TableReadProgress&)> progress{};
};

// What was found in one file.
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
  // What a user should know, each one sentence: renamed or missing columns, decimal commas.
  std::vector<std::string> notes;

  // Returns the index of the column of that name, or -1.
  int64_t find(std::string_view name) const;
  // Returns "FILE:LINE" of a row, where its first line is.
  std::string place_of(int64_t row) const;

  // Rows from `row` on are in consecutive lines from `line` on, up to the next entry.
  struct Place {
    int64_t row, file, line;
  };
  std::vector<Place> places;
};

// Reads tables and joins their rows. Columns are joined by name: one that a file lacks is empty in
// its rows, which `notes` names. Files without a header need equally many columns. A path may
// contain the wildcards of glob(7).
//
// A cell is a number if all of it is a finite decimal number without needless leading zeros, quoted
// or not; otherwise it is a word, without blanks around it unless they are quoted. In columns
// that `text_columns` names, every cell is a word as it stands in the file. JSON's null is an empty
// cell; true and false are words.
//
// The format follows from the content and the name: delimited text, JSON lines (.jsonl, .ndjson),
// either of them compressed by gzip or zstd or as the only table in a zip archive. Compressed files
// are decompressed in parts.
//
// Throws InputError with the file, and the line and column where there is one: for a file that is
// missing, empty, truncated, damaged or in another format; text that is not in the encoding; a row
// of another length; a quote that is not closed or closed within a cell; lines above the table,
// which `skip` removes; a first row that may or may not be a header; more than 250,000 columns; a
// row of more than 64 MiB; a compressed file that expands without end. Throws ValueError for
// invalid options. Calls check_stop().
RawTable read_table(const std::vector<std::filesystem::path>& files,
                    const TableReadOptions& options = {},
                    const std::vector<std::string>& text_columns = {});

// Returns the files that the paths name, in their order; those of a wildcard are sorted. Throws
// InputError for a wildcard that no file matches.
std::vector<std::filesystem::path> expand_wildcards(
    const std::vector<std::filesystem::path>& paths);

}  // namespace taper::v0::data
