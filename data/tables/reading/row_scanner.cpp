#include "data/tables/reading/row_scanner.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

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
  caches_.resize(target.columns.size());
  uses_cache_.assign(target.columns.size(), 0);
  has_words_ = target.is_text;
  starts_number_ = {};
  for (const unsigned char c : std::string("0123456789-") + format_.point) starts_number_[c] = true;
  return format_.is_blanks ? scan_rows<true>() : scan_rows<false>();
}

template <bool kBlanks> int64_t RowScanner::scan_rows() {
  const char* at = at_;
  const auto separators = [&] {
    return Separators(at, text_.end(), format_.delimiter, kBlanks ? '\t' : '\n');
  };
  Separators ends = separators();
  const char* last_start = last_start_of_row();
  while (true) {
    lines_in_row_ = opened_ = 0;
    const char* const first = skip_separators<kBlanks>(skip_blanks(at));
    const bool is_blank_line = *first == '\n' || *first == '\r';
    if (row_ >= room_) make_room();
    const End next = is_blank_line         ? skip_line_end(first)
                     : first <= last_start ? scan_row<kBlanks>(first, ends)
                                           : nullptr;
    if (!next) {
      if (!more(at)) break;
      ends = separators();
      last_start = last_start_of_row();
      continue;
    }
    at = next;
    if (is_blank_line) {
      ++line_;
      continue;
    }
    if (line_ - row_ != place_) {
      place_ = line_ - row_;
      target_->on_place(row_, line_);
    }
    line_ += 1 + lines_in_row_;
    ++row_;
  }
  pending_.flush();
  return row_ - target_->first_row;
}

// Returns a place after which no row that is in memory as a whole begins, because the next '\n' is
// not in memory. Scanning the beginning of a row would add its words twice. A long row is scanned
// anyway, so that messages name the cell that does not end.
const char* RowScanner::last_start_of_row() const {
  constexpr size_t kLong = size_t(1) << 16;
  const std::string_view text(text_.begin(), size_t(text_.end() - text_.begin()));
  const size_t last_line_end = text.rfind('\n');
  if (text_.is_complete() || last_line_end == text.npos) return text_.end();
  const size_t long_row = text.size() - std::min(text.size(), kLong);
  return text_.begin() + std::max(last_line_end, long_row);
}

template <bool kBlanks> bool RowScanner::ends_cell(char c) const {
  return c == format_.delimiter || c == '\n' || c == '\r' || (kBlanks && c == '\t');
}

// Scans one row and returns the start of the next one.
template <bool kBlanks> RowScanner::End RowScanner::scan_row(const char* at, Separators& ends) {
  const size_t columns = cells_.size();
  const char point = format_.point;
  const int64_t place = row_ % RawColumn::kChunk;
  ends.skip_to(at);
  for (size_t column = 0;; ++column) {
    if (column == columns) fail_length(at, column);
    End end = ends.next();
    double value;
    const bool may_be_number = starts_number_[static_cast<unsigned char>(*at)];
    const bool is_number =
        may_be_number && !has_words_[column] && end && read_number(at, end, point, value);
    if (is_number) {
      cells_[column][place] = std::bit_cast<uint64_t>(value);
    } else {
      has_words_[column] = char(may_be_number || target_->is_text[column]);
      column_ = column;
      end = scan_cell<kBlanks>(at, end, cells_[column][place], ends);
      if (!end) return nullptr;
    }
    if (kBlanks) {
      end = skip_separators<kBlanks>(end);
      ends.skip_to(end);
    }
    if (*end == '\n' || *end == '\r') {
      const End next = skip_line_end(end);
      if (next && column + 1 != columns) fail_length(next, column + 1);
      return next;
    }
    at = end + (kBlanks ? 0 : 1);
  }
}

// Skips the characters between two cells if these may be separated by several.
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

// Scans a cell of any form in column_ and returns its end, which is a delimiter or a line end.
// `end` is the next separator, which may be within quotes.
template <bool kBlanks>
RowScanner::End RowScanner::scan_cell(const char* at, End end, uint64_t& cell, Separators& ends) {
  if (!kBlanks) at = skip_blanks(at);
  if (*at == '"') {
    end = scan_quoted<kBlanks>(at, cell);
    if (end) ends.skip_to(end + 1);
    return end;
  }
  if (!end) return nullptr;
  const char* last = end;
  while (last > at && is_blank(last[-1])) --last;
  cell = cell_in_buffer(at, last);
  return end;
}

// Scans a quoted cell, which begins at `at`, and returns its end.
template <bool kBlanks> RowScanner::End RowScanner::scan_quoted(const char* at, uint64_t& cell) {
  QuotedText found = unquote_short(at + 1);
  if (!found.closing) found = unquote(at + 1);
  if (!found.closing) {
    opened_ = line_ + lines_in_row_;
    return nullptr;
  }
  const char* const end = skip_blanks(found.closing + 1);
  if (*end == '\0') return nullptr;
  lines_in_row_ += found.line_ends;
  if (!ends_cell<kBlanks>(*end)) {
    fail(line_ + lines_in_row_, column_,
         "expected the cell to end after its closing quote; a quote within quotes is written "
         "twice");
  }
  const char* const text = found.text.data();
  cell = cell_in_buffer(text, text + found.text.size());
  return end;
}

// Finds the end of a cell that has fewer than 64 characters, as nearly all have, after its opening
// quote. Reads all quotes at once.
RowScanner::QuotedText RowScanner::unquote_short(const char* from) {
  constexpr size_t kPart = 16;
  char* to = unquoted_short_.data();
  // Copies whole parts. There is room after the last one.
  const auto copy = [&to](const char* begin, const char* end) {
    const auto size = size_t(end - begin);
    for (size_t i = 0; i < size; i += kPart) std::memcpy(to + i, begin + i, kPart);
    to += size;
  };
  const char* piece = from;
  uint64_t quotes = find_in_block(from, '"');
  while (quotes != 0) {
    const char* const quote = from + std::countr_zero(quotes);
    if (quote[1] != '"') {
      const uint64_t before_quote = (quotes & -quotes) - 1;
      const int64_t line_ends = std::popcount(find_in_block(from, '\n') & before_quote);
      if (piece == from) return {quote, {from, quote}, line_ends};
      copy(piece, quote);
      return {quote, {unquoted_short_.data(), to}, line_ends};
    }
    copy(piece, quote + 1);
    piece = quote + 2;
    quotes &= quotes - 1;
    quotes &= quotes - 1;  // the second quote of the pair
  }
  return {};
}

// Finds the end of a cell of any length, after its opening quote.
RowScanner::QuotedText RowScanner::unquote(const char* from) {
  const auto next_quote = [this](const char* at) {
    return static_cast<const char*>(std::memchr(at, '"', size_t(text_.end() - at)));
  };
  const char* const first = from;
  const char* quote = next_quote(from);
  unquoted_.clear();
  while (quote && quote[1] == '"') {
    unquoted_.append(from, quote + 1);
    from = quote + 2;
    quote = next_quote(from);
  }
  if (!quote) return {};
  const int64_t line_ends = std::count(first, quote, '\n');
  if (unquoted_.empty()) return {quote, {from, quote}, line_ends};
  return {quote, unquoted_.append(from, quote), line_ends};
}

// Returns the cell for a text. Other text or the padding follows the text.
uint64_t RowScanner::cell_in_buffer(const char* at, const char* end) {
  const auto size = size_t(end - at);
  if (size > WordCache::kMostSize || !uses_cache_[column_]) return cell_of({at, size});
  std::unique_ptr<WordCache>& cache = caches_[column_];
  if (!cache) cache = std::make_unique<WordCache>();
  const auto load = [](const char* from, size_t bytes) {
    uint64_t word;
    std::memcpy(&word, from, sizeof word);
    return bytes == 0 ? 0 : word << (64 - 8 * bytes);
  };
  const uint64_t first = load(at, std::min<size_t>(size, 8));
  const uint64_t second = load(at + 8, size - std::min<size_t>(size, 8));
  constexpr uint64_t kMix = 0x9E3779B97F4A7C15;
  const uint64_t hash = (first ^ (second << 1 | second >> 63)) * kMix;
  WordCache::Slot& slot = cache->slots[hash >> 54];
  if (slot.cell != 0 && slot.first == first && slot.second == second) return slot.cell;
  const uint64_t cell = cell_of({at, size});
  slot = {first, second, cell};
  return cell;
}

uint64_t RowScanner::cell_of(std::string_view text) {
  RawColumn& to = *target_->columns[column_];
  const bool has_many = size_t(to.word_list().size()) > PendingWords::kManyWords;
  // A text that the column already has as a word is not a number.
  const int64_t known = has_words_[column_] && !has_many ? to.find_word(text) : -1;
  if (known >= 0) return RawColumn::cell_of_word(known);
  const char first = text.empty() ? 'x' : text[0];
  const bool may_be_number =
      (first >= '0' && first <= '9') || first == '-' || first == '+' || first == format_.point;
  if (may_be_number && !target_->is_text[column_]) {
    const std::optional<double> number = number_in_cell(text, format_.point);
    has_words_[column_] = char(!number);
    if (number) return std::bit_cast<uint64_t>(*number);
  }
  if (!has_many || row_ < RawColumn::kChunk || !to.has_distinct_words()) {
    return to.word_cell(text);
  }
  if (text.size() > PendingWords::kLongest) {
    pending_.flush();
    return to.word_cell(text);
  }
  constexpr uint64_t kLater = 0;
  pending_.add(to, text, &cells_[column_][row_ % RawColumn::kChunk]);
  return kLater;
}

void RowScanner::make_room() {
  room_ = (row_ / RawColumn::kChunk + 1) * RawColumn::kChunk;  // the next chunk is elsewhere
  pending_.flush();
  for (size_t i = 0; i < cells_.size(); ++i) {
    RawColumn& column = *target_->columns[i];
    column.stop_looking_up_if_unique(row_);
    uses_cache_[i] = char(row_ >= RawColumn::kChunk && column.has_distinct_words());
    if (target_->cells) column.pack_chunk_before(row_, *target_->cells);
    room_ = std::min(room_, column.reserve(row_, target_->cells));
    cells_[i] = column.chunk(row_);
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

// Throws the error for a row of another length. `at` is the beginning of the next cell or row,
// after `cells` cells.
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
