// The text of a file that contains a table, as UTF-8, a part at a time. Not a public header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tables/reading/byte_source.h"

namespace taper::v0::data::reading {

// A window of the text that moves forward. The text is valid UTF-8 without zero bytes. It ends with
// a line end, which is added if the file has none there.
class TextBuffer {
 public:
  // The maximum number of bytes in a row. Longer rows are rejected, so that memory is bounded.
  static constexpr size_t kMostText = size_t(16) << 20;
  // The number of zero bytes that follow the text in memory.
  static constexpr size_t kPadding = 64;

  // Reads the first part of the file. `encoding` is "utf-8", "latin-1" or "utf-16". A byte order
  // mark overrides it and is skipped. Throws ValueError for other names.
  TextBuffer(std::unique_ptr<ByteSource> source, std::string path, std::string encoding);

  enum class More { kRead, kAtEnd, kFull };
  // Discards the text before `from`, reads more, and sets `from` to the new address of the same
  // character. `line` is the line of `from`. Throws InputError with that line for bytes that are
  // not text in the encoding. Returns kAtEnd if the file has no more text, and kFull if the text
  // from `from` on already has kMostText bytes.
  More more(const char*& from, int64_t line);

  const char* begin() const { return text_.data(); }
  const char* end() const { return text_.data() + size_; }
  bool is_complete() const { return is_at_end_; }  // whether end() is the file's end
  const ByteSource& source() const { return *source_; }
  const std::string& encoding() const { return encoding_; }

 private:
  enum class Encoding { kUtf8, kLatin1, kUtf16Little, kUtf16Big };

  void take_byte_order_mark();
  void append();
  size_t read_bytes(char* out, size_t most);
  void append_latin1();
  void append_utf16();
  void put(uint32_t code_point);
  // Checks the UTF-8 text after `checked_`.
  void check();
  [[noreturn]] void fail_at(size_t offset, const std::string& what) const;

  std::unique_ptr<ByteSource> source_;
  std::string path_, encoding_;
  Encoding kind_ = Encoding::kUtf8;
  std::vector<char> text_;  // size_ characters and the padding
  size_t size_ = 0;
  size_t checked_ = 0;           // the text before it is valid
  std::string ahead_;            // bytes that were read and not decoded
  std::vector<char> undecoded_;  // scratch memory
  bool is_at_end_ = false;
  int64_t line_ = 1;  // of begin()
};

}  // namespace taper::v0::data::reading
