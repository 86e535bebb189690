// Splits delimited text into rows and cells. Not a public header.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tables/reading/pending_words.h"
#include "data/tables/reading/raw_column.h"
#include "data/tables/reading/separators.h"
#include "data/tables/reading/text_buffer.h"

namespace taper::v0::data::reading {

// How the text of a cell is written.
struct CellFormat {
  char delimiter = ',';
  bool is_blanks = false;  // runs of blanks and tabs separate cells, and `delimiter` is a blank
  char point = '.';        // the decimal separator
};

// Where rows are written. Cell i of each row is written to `columns[i]`.
struct RowTarget {
  std::vector<RawColumn*> columns{};
  std::vector<std::string> names{};  // for messages: "column 3" or "column 'age'"
  std::vector<char> is_text{};       // whether a column's numbers stay words
  CellAllocator* cells = nullptr;    // where memory for cells comes from; nullptr: malloc
  int64_t first_row = 0;             // the row that the first one becomes
  // Called with a row and its first line if the row is not in the line after the previous row.
  std::function<void(int64_t row, int64_t line)> on_place{};
  // Called with the number of rows so far, now and then.
  std::function<void(int64_t rows)> on_progress{};
};

// Reads quoted cells with doubled quotes, line ends of all systems, and blanks around cells. Lines
// that are empty or blank are skipped. Throws InputError with the file, the line and the column.
class RowScanner {
 public:
  // Starts at `at`, which is in line `line`.
  RowScanner(TextBuffer& text, std::string path, const CellFormat& format, const char* at,
             int64_t line);

  // Reads all rows, and returns their number. A row of another length than the target is an error.
  int64_t scan(const RowTarget& target);

 private:
  // The end of a cell or row that was scanned, or nullptr if the text in memory ends before the
  // cell or row does.
  using End = const char*;

  template <bool kBlanks> int64_t scan_rows();
  const char* last_start_of_row() const;
  template <bool kBlanks> End scan_row(const char* at, Separators& ends);
  template <bool kBlanks> End scan_cell(const char* at, End end, uint64_t& cell, Separators& ends);
  template <bool kBlanks> End scan_quoted(const char* at, uint64_t& cell);
  struct QuotedText {
    const char* closing = nullptr;  // the closing quote, or nullptr if it was not found
    std::string_view text{};        // between the quotes, where doubled ones are single
    int64_t line_ends = 0;          // in the text
  };
  QuotedText unquote_short(const char* from);
  QuotedText unquote(const char* from);
  template <bool kBlanks> bool ends_cell(char c) const;
  bool is_blank(char c) const { return (c == ' ' || c == '\t') && c != format_.delimiter; }
  const char* skip_blanks(const char* at) const;
  template <bool kBlanks> static const char* skip_separators(const char* at);
  End skip_line_end(const char* at);
  // Return the cell for a text in column_. Other text or the padding follows `end`.
  uint64_t cell_of(std::string_view text);
  uint64_t cell_in_buffer(const char* at, const char* end);
  void make_room();
  // Reads more text if the text in memory ends within a row. Returns false at the end of the file.
  bool more(const char*& at);
  [[noreturn]] void fail(int64_t line, size_t column, const std::string& what) const;
  [[noreturn]] void fail_length(const char* at, size_t cells) const;
  size_t count_cells(const char* at) const;

  TextBuffer& text_;
  const std::string path_;
  const CellFormat format_;
  const char* at_;
  int64_t line_;

  const RowTarget* target_ = nullptr;
  int64_t row_ = 0, room_ = 0;
  std::vector<uint64_t*> cells_;  // the chunk that contains row_, for each column
  int64_t place_ = 0;             // line minus row of the last place
  int64_t lines_in_row_ = 0;      // line ends in quoted cells of the current row
  size_t column_ = 0;             // the column that the scan has reached in the current row
  int64_t opened_ = 0;            // the line of a quote that the text in memory does not close
  // The text of a cell that has doubled quotes.
  std::array<char, 128> unquoted_short_{};
  std::string unquoted_;

  // The cells of recent short words of a column. The keys are the words, padded with zeros.
  struct WordCache {
    static constexpr size_t kSlots = 1024, kMostSize = 16;
    struct Slot {
      uint64_t first, second;  // the word
      uint64_t cell;           // 0: the slot is empty
    };
    Slot slots[kSlots] = {};
  };
  std::vector<std::unique_ptr<WordCache>> caches_;
  std::vector<char> uses_cache_;  // whether words of a column may repeat, in a table of many rows
  PendingWords pending_;
  std::array<bool, 256> starts_number_{};  // whether a cell that begins with this character may be
                                           // a number
  // Whether the next cell of a column is likely to be a word, although it may begin with a digit.
  std::vector<char> has_words_;
};

}  // namespace taper::v0::data::reading
