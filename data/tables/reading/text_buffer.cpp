#include "data/tables/reading/text_buffer.h"

#include <algorithm>
#include <cstring>

#include "framework/base/cancel.h"
#include "framework/base/error.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data::reading {
namespace {

constexpr size_t kFirstSize = size_t(256) << 10;

// The characters of the bytes 0x80 to 0x9F in windows-1252, which files in "latin-1" really use, as
// browsers assume (https://encoding.spec.whatwg.org/index-windows-1252.txt). 0: the character
// has the number of the byte.
constexpr uint16_t kWindows1252[32] = {
    0x20AC, 0,      0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160,
    0x2039, 0x0152, 0,      0x017D, 0,      0,      0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
    0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0,      0x017E, 0x0178};

// Returns the offset of the first byte that is not ASCII.
size_t first_other(const char* text, size_t size) {
  constexpr size_t kBlock = 32;
  size_t at = 0;
  for (; at + kBlock <= size; at += kBlock) {
    uint64_t words[kBlock / 8];
    std::memcpy(words, text + at, kBlock);
    if (((words[0] | words[1] | words[2] | words[3]) & 0x8080808080808080) != 0) break;
  }
  while (at < size && static_cast<signed char>(text[at]) >= 0) ++at;
  return at;
}

}  // namespace

TextBuffer::TextBuffer(std::unique_ptr<ByteSource> source, std::string path, std::string encoding)
    : source_(std::move(source)),
      path_(std::move(path)),
      encoding_(std::move(encoding)),
      text_(kFirstSize + kPadding) {
  kind_ = encoding_ == "latin-1"  ? Encoding::kLatin1
          : encoding_ == "utf-16" ? Encoding::kUtf16Little
                                  : Encoding::kUtf8;
  require<ValueError>(kind_ != Encoding::kUtf8 || encoding_ == "utf-8",
                      "encoding: expected utf-8, latin-1 or utf-16, got ",
                      taper::detail::in_quotes(encoding_));
  take_byte_order_mark();
  append();
}

void TextBuffer::take_byte_order_mark() {
  constexpr struct {
    std::string_view mark;
    const char* name;
    Encoding kind;
  } kMarks[] = {{"\xEF\xBB\xBF", "utf-8", Encoding::kUtf8},
                {"\xFF\xFE", "utf-16", Encoding::kUtf16Little},
                {"\xFE\xFF", "utf-16", Encoding::kUtf16Big}};
  ahead_.resize(4);
  ahead_.resize(source_->read(ahead_.data(), ahead_.size()));
  for (const auto& [mark, name, kind] : kMarks) {
    if (!ahead_.starts_with(mark)) continue;
    encoding_ = name;
    kind_ = kind;
    ahead_.erase(0, mark.size());
    return;
  }
  // If the high byte is first, UTF-16 text in ASCII characters begins with a zero byte.
  const bool is_big = encoding_ == "utf-16" && ahead_.size() > 1 && ahead_[0] == 0;
  if (is_big) kind_ = Encoding::kUtf16Big;
}

size_t TextBuffer::read_bytes(char* out, size_t most) {
  const size_t before = std::min(most, ahead_.size());
  std::copy_n(ahead_.data(), before, out);
  ahead_.erase(0, before);
  return before + source_->read(out + before, most - before);
}

TextBuffer::More TextBuffer::more(const char*& from, int64_t line) {
  check_stop();
  const auto offset = size_t(from - begin());
  size_ -= offset;
  checked_ -= offset;
  std::memmove(text_.data(), from, size_);
  from = begin();
  line_ = line;
  if (is_at_end_) return More::kAtEnd;
  const size_t room = text_.size() - kPadding;
  if (size_ > room / 2) {
    if (room >= kMostText) return More::kFull;
    text_.resize(2 * room + kPadding);
    from = begin();
  }
  append();
  return More::kRead;
}

void TextBuffer::append() {
  // One byte is reserved for a last line end.
  const size_t room = text_.size() - kPadding - size_ - 1;
  if (kind_ == Encoding::kUtf8) {
    const size_t n = read_bytes(text_.data() + size_, room);
    size_ += n;
    is_at_end_ = n < room;
  } else if (kind_ == Encoding::kLatin1) {
    undecoded_.resize(room / 3);
    append_latin1();
  } else {
    undecoded_.resize(room / 3 * 2);
    append_utf16();
  }
  std::fill_n(text_.data() + size_, kPadding, '\0');
  check();
  const bool lacks_end =
      is_at_end_ && size_ > 0 && text_[size_ - 1] != '\n' && text_[size_ - 1] != '\r';
  if (lacks_end) text_[size_++] = '\n';
}

void TextBuffer::append_latin1() {
  const size_t n = read_bytes(undecoded_.data(), undecoded_.size());
  is_at_end_ = n < undecoded_.size();
  for (size_t i = 0; i < n; ++i) {
    const auto byte = static_cast<unsigned char>(undecoded_[i]);
    const uint32_t special = byte >= 0x80 && byte < 0xA0 ? kWindows1252[byte - 0x80] : 0;
    put(special != 0 ? special : byte);
  }
}

void TextBuffer::append_utf16() {
  const size_t n = read_bytes(undecoded_.data(), undecoded_.size());
  is_at_end_ = n < undecoded_.size();
  const auto unit = [&](size_t at) {
    const auto first = static_cast<unsigned char>(undecoded_[at]);
    const auto second = static_cast<unsigned char>(undecoded_[at + 1]);
    return kind_ == Encoding::kUtf16Big ? uint32_t(first << 8 | second)
                                        : uint32_t(second << 8 | first);
  };
  const auto is_high = [](uint32_t c) { return c >= 0xD800 && c < 0xDC00; };
  const auto is_low = [](uint32_t c) { return c >= 0xDC00 && c < 0xE000; };
  size_t at = 0;
  for (; at + 2 <= n; at += 2) {
    const uint32_t c = unit(at);
    if (is_high(c) && at + 4 > n && !is_at_end_) break;
    const bool is_pair = is_high(c) && at + 4 <= n && is_low(unit(at + 2));
    if (is_low(c) || (is_high(c) && !is_pair)) fail_at(size_, "half of a surrogate pair");
    put(is_pair ? 0x10000 + ((c - 0xD800) << 10) + (unit(at + 2) - 0xDC00) : c);
    if (is_pair) at += 2;
  }
  if (at < n && is_at_end_) fail_at(size_, "an odd number of bytes");
  ahead_.insert(0, undecoded_.data() + at, n - at);
}

void TextBuffer::put(uint32_t c) {
  const int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr uint32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
  text_[size_++] = char(kLead[more] | c >> (6 * more));
  for (int i = more - 1; i >= 0; --i) text_[size_++] = char(0x80 | ((c >> (6 * i)) & 0x3F));
}

void TextBuffer::check() {
  const std::string_view text(text_.data(), size_);
  if (const void* zero = std::memchr(text_.data() + checked_, 0, size_ - checked_)) {
    fail_at(
        size_t(static_cast<const char*>(zero) - text_.data()),
        concat_to_string("a zero byte", kind_ == Encoding::kUtf8
                                            ? "; if it is UTF-16, say `read: {encoding: utf-16}`"
                                            : ""));
  }
  while (checked_ < size_) {
    checked_ += first_other(text_.data() + checked_, size_ - checked_);
    if (checked_ == size_) break;
    const auto c = taper::detail::first_code_point(text.substr(checked_));
    const bool may_continue = !is_at_end_ && size_ - checked_ < 4;
    if (c.value == taper::detail::CodePoint::kInvalid && may_continue) break;
    if (c.value == taper::detail::CodePoint::kInvalid) {
      fail_at(checked_, concat_to_string("byte ", int(uint8_t(text_[checked_])),
                                         "; if it is Latin-1 or Windows-1252, say `read: "
                                         "{encoding: latin-1}`"));
    }
    checked_ += c.length;
  }
}

void TextBuffer::fail_at(size_t offset, const std::string& what) const {
  const char* at = text_.data() + offset;
  const int64_t line = line_ + std::count(text_.data(), at, '\n');
  const auto first =
      std::find(std::make_reverse_iterator(at), std::make_reverse_iterator(text_.data()), '\n');
  throw InputError(path_, ":", line, ": not ", encoding_ == "utf-8" ? "UTF-8" : encoding_,
                   " text at byte ", at - first.base() + 1, " of the line: ", what);
}

}  // namespace taper::v0::data::reading
