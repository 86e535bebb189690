#include "data/tables/reading/row_scanner.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "data/tables/reading/number_cell.h"
#include "framework/base/error.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data::reading {

RowScanner::RowScanner(TextBuffer& text, std::string path, const CellFormat& format, const char* at,
                       int64_t line)
    : text_(text), path_(std::move(path)), format_(format), at_(at), line_(line) {}

int64_t RowScanner::scan(const RowTarget& target) {
  target_ = &target;
  row_ = target.first_row;
  room_ = 0;
  place_ = std::numeric_limits<int64_t>::min();
  cells_.resize(target.columns.size());
  return format_.is_blanks ? scan_rows<true>() : scan_rows<false>();
}

template <bool kBlanks> int64_t RowScanner::scan_rows() {
  const char* at = at_;
  while (true) {
    lines_in_row_ = opened_ = 0;
    const char* const first = skip_separators<kBlanks>(skip_blanks(at));
    if (*first == '\n' || *first == '\r') {  // a blank line
      const End next = skip_line_end(first);
      if (next) {
        ++line_;
        at = next;
        continue;
      }
    }
    if (row_ >= room_) make_room();
    const End next = scan_row<kBlanks>(first);
    if (!next) {
      if (!more(at)) break;
      continue;
    }
    if (line_ - row_ != place_) {
      place_ = line_ - row_;
      target_->on_place(row_, line_);
    }
    line_ += 1 + lines_in_row_;
    ++row_;
    at = next;
  }
  return row_ - target_->first_row;
}

template <bool kBlanks> bool RowScanner::ends_cell(char c) const {
  return c == format_.delimiter || c == '\n' || c == '\r' || (kBlanks && c == '\t');
}

// Scans one row and returns the start of the next one.
template <bool kBlanks> RowScanner::End RowScanner::scan_row(const char* at) {
  const size_t columns = cells_.size();
  const char point = format_.point;
  const int64_t place = row_ % RawColumn::kChunk;
  for (size_t column = 0;; ++column) {
    if (column == columns) fail_length(at, column);
    double value;
    uint64_t cell;
    End end = scan_number(at, point, value);
    if (end && ends_cell<kBlanks>(*end) && !target_->is_text[column]) {
      cell = std::bit_cast<uint64_t>(value);
    } else {
      column_ = column;
      end = scan_cell<kBlanks>(at, column, cell);
      if (!end) return nullptr;
    }
    cells_[column][place] = cell;
    end = skip_separators<kBlanks>(end);
    if (*end == '\n' || *end == '\r') {
      const End next = skip_line_end(end);
      if (next && column + 1 != columns) fail_length(next, column + 1);
      return next;
    }
    at = end + (kBlanks ? 0 : 1);
  }
}

// Skips what separates two cells if that is a run.
template <bool kBlanks> const char* RowScanner::skip_separators(const char* at) {
  while (kBlanks && (*at == ' ' || *at == '\t')) ++at;
  return at;
}

const char* RowScanner::skip_blanks(const char* at) const {
  while (is_blank(*at)) ++at;
  return at;
}

// Steps over "\n", "\r\n" or "\r".
RowScanner::End RowScanner::skip_line_end(const char* at) {
  if (*at == '\n') return at + 1;
  if (at[1] == '\n') return at + 2;
  const bool may_continue = at + 1 == text_.end() && !text_.is_complete();
  return may_continue ? nullptr : at + 1;
}

// Returns the first delimiter, line end, or end of the text in memory.
const char* RowScanner::end_of_word(const char* at) const {
#ifdef __SSE2__
  const __m128i delimiter = _mm_set1_epi8(format_.delimiter);
  const __m128i tab = _mm_set1_epi8(format_.is_blanks ? '\t' : '\n');
  // The text is followed by zero bytes.
  for (;; at += 16) {
    const __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i ends =
        _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(text, delimiter), _mm_cmpeq_epi8(text, tab)),
                     _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(text, _mm_set1_epi8('\n')),
                                               _mm_cmpeq_epi8(text, _mm_set1_epi8('\r'))),
                                  _mm_cmpeq_epi8(text, _mm_setzero_si128())));
    const auto mask = unsigned(_mm_movemask_epi8(ends));
    if (mask != 0) return at + std::countr_zero(mask);
  }
#else
  const auto is_end = [this](char c) {
    return c == format_.delimiter || c == '\n' || c == '\r' || c == '\0' ||
           (format_.is_blanks && c == '\t');
  };
  while (!is_end(*at)) ++at;
  return at;
#endif
}

// Scans a cell of any form and returns its end, which is a delimiter or a line end.
template <bool kBlanks>
RowScanner::End RowScanner::scan_cell(const char* at, size_t column, uint64_t& cell) {
  if (!kBlanks) at = skip_blanks(at);
  if (*at == '"') return scan_quoted<kBlanks>(at, column, cell);
  const char* const end = end_of_word(at);
  if (*end == '\0') return nullptr;
  const char* last = end;
  while (last > at && is_blank(last[-1])) --last;
  cell = cell_of({at, size_t(last - at)}, column);
  return end;
}

template <bool kBlanks>
RowScanner::End RowScanner::scan_quoted(const char* at, size_t column, uint64_t& cell) {
  const auto next_quote = [this](const char* from) {
    return static_cast<const char*>(std::memchr(from, '"', size_t(text_.end() - from)));
  };
  const char* from = at + 1;
  const char* quote = next_quote(from);
  unquoted_.clear();
  while (quote && quote[1] == '"') {
    unquoted_.append(from, quote + 1);
    from = quote + 2;
    quote = next_quote(from);
  }
  if (!quote) {
    opened_ = line_ + lines_in_row_;
    return nullptr;
  }
  const char* const end = skip_blanks(quote + 1);
  if (*end == '\0') return nullptr;
  lines_in_row_ += std::count(at, quote, '\n');
  if (!ends_cell<kBlanks>(*end)) {
    fail(line_ + lines_in_row_, column,
         "expected the cell to end after its closing quote; a quote within quotes is written "
         "twice");
  }
  if (unquoted_.empty()) {
    cell = cell_of({from, size_t(quote - from)}, column);
  } else {
    cell = cell_of(unquoted_.append(from, quote), column);
  }
  return end;
}

uint64_t RowScanner::cell_of(std::string_view text, size_t column) {
  RawColumn& to = *target_->columns[column];
  const char first = text.empty() ? 'x' : text[0];
  const bool may_be_number =
      (first >= '0' && first <= '9') || first == '-' || first == '+' || first == format_.point;
  if (may_be_number && !target_->is_text[column]) {
    const std::optional<double> number = number_in_cell(text, format_.point);
    if (number) return std::bit_cast<uint64_t>(*number);
  }
  return to.word_cell(text);
}

void RowScanner::make_room() {
  room_ = (row_ / RawColumn::kChunk + 1) * RawColumn::kChunk;  // the next chunk is elsewhere
  for (size_t i = 0; i < cells_.size(); ++i) {
    room_ = std::min(room_, target_->columns[i]->reserve(row_));
    cells_[i] = target_->columns[i]->chunk(row_);
  }
}

bool RowScanner::more(const char*& at) {
  const TextBuffer::More more = text_.more(at, line_);
  if (more == TextBuffer::More::kRead) {
    target_->on_progress(row_);
    return true;
  }
  if (more == TextBuffer::More::kFull) {
    fail(line_, column_,
         concat_to_string("the row has more than ", TextBuffer::kMostText >> 20, " MiB",
                          opened_ > 0 ? "; is a quote not closed?" : ""));
  }
  if (at != text_.end()) fail(opened_, column_, "a quote is opened here and never closed");
  return false;
}

void RowScanner::fail(int64_t line, size_t column, const std::string& what) const {
  const auto& names = target_->names;
  throw InputError(path_, ":", line, ": ",
                   column < names.size() ? concat_to_string(names[column], ": ") : "", what);
}

// `at` is where the next cell or row begins, behind the given number of cells.
void RowScanner::fail_length(const char* at, size_t cells) const {
  const size_t columns = cells_.size();
  const bool is_last = at == text_.end() && text_.is_complete();
  throw InputError(
      path_, ":", line_, ": expected ", columns, " cells, got ",
      cells == columns ? columns + count_cells(at) : cells,
      is_last && cells < columns ? "; it is the last row: is the file truncated?" : "");
}

// Returns the number of cells up to the line's end, as far as they are in memory.
size_t RowScanner::count_cells(const char* at) const {
  bool is_quoted = false;
  size_t count = 1;
  for (; at != text_.end() && (is_quoted || (*at != '\n' && *at != '\r')); ++at) {
    is_quoted = is_quoted != (*at == '"');
    const bool is_run = format_.is_blanks && (at[1] == ' ' || at[1] == '\t');
    count += !is_quoted && !is_run && *at == format_.delimiter;
  }
  return count;
}

}  // namespace taper::v0::data::reading
