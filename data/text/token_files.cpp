#include "data/text/token_files.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include <sys/mman.h>

#include "data/folders.h"
#include "data/tables/reading/byte_source.h"
#include "data/tokenizers/bpe.h"
#include "framework/base/cancel.h"
#include "framework/factory/factories.h"
#include "framework/io/input_file.h"
#include "framework/io/json_scanner.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;
using namespace detail;
using reading::ByteSource;
using reading::open_decompressed;

constexpr size_t kPart = 1 << 20;         // bytes that are read at a time
constexpr size_t kLongestWord = 4 << 20;  // a longer word is encoded in parts
constexpr size_t kLongestLine = 16 << 20;

using PartFunction = std::function<void(std::string_view part, bool ends)>;

// Reads the bytes of a span in parts.
class SpanReader {
 public:
  explicit SpanReader(const TextSpan& span)
      : name_(name_of(span.file)), source_(open_decompressed(span.file, "text")) {
    skip(span.begin);
    left_ = span.end - span.begin;
  }

  // Appends about a MiB to the text. Returns false at the end of the span. Bytes after the span can
  // be read with `goes_on`.
  bool read_more(std::string& text, bool goes_on = false) {
    check_stop();
    const size_t wanted = goes_on ? kPart : size_t(std::min<uint64_t>(kPart, left_));
    if (wanted == 0) return false;
    const size_t before = text.size();
    text.resize(before + wanted);
    const size_t got = source_->read(text.data() + before, wanted);
    text.resize(before + got);
    left_ -= std::min<uint64_t>(got, left_);
    require<InputError>(text.find('\0', before) == std::string::npos, name_,
                        ": expected text, got a file with a zero byte");
    return got > 0;
  }

  // Notes that a part of the text is done, for the lines in messages.
  void count_lines(std::string_view part) { line_ += std::ranges::count(part, '\n'); }
  // Throws InputError with the line in which `before` ends.
  [[noreturn]] void fail(std::string_view before, const std::string& what) const {
    throw InputError(name_, ":", line_ + std::ranges::count(before, '\n'), ": ", what);
  }
  uint64_t left() const { return left_; }
  // Returns whether the file ends where the last byte was read. Call it once, after everything was
  // read.
  bool is_at_end() {
    char next;
    return source_->read(&next, 1) == 0;
  }

 private:
  // Moves to a position, and counts the lines before it.
  void skip(uint64_t bytes) {
    std::string skipped(std::min<uint64_t>(bytes, kPart), '\0');
    while (bytes > 0) {
      check_stop();
      const size_t got = source_->read(skipped.data(), std::min<uint64_t>(bytes, kPart));
      if (got == 0) return;
      count_lines(std::string_view(skipped).substr(0, got));
      bytes -= got;
    }
  }

  const std::string name_;
  const std::unique_ptr<ByteSource> source_;
  uint64_t left_ = 0;
  int64_t line_ = 1;
};

// Returns where the text is to be cut: 0 if more of it is needed.
size_t cut_of(std::string_view text, const TextLayout& layout) {
  constexpr size_t kTail = 4096;
  if (layout.keeps_lines && text.size() <= kLongestWord) {
    return text.rfind('\n') + 1;  // npos + 1 is 0
  }
  if (layout.keeps_words && text.size() <= kLongestWord) {
    for (size_t from = text.size() - std::min(text.size(), kTail);;) {
      const size_t cut = safe_cut(text, from);
      if (cut < text.size()) return cut;
      if (from == 0) return 0;
      from -= std::min(from, kPart / 4);
    }
  }
  size_t cut = text.size();
  for (int k = 0; k < 4 && cut > 0 && is_continuation(text[cut - 1]); ++k) --cut;
  return cut > 1 ? cut - 1 : text.size();  // before the last character
}

// Calls f(part, ends), and adds file and line to its errors about the text.
void call(const SpanReader& reader, const PartFunction& f, std::string_view part, bool ends) try {
  f(part, ends);
} catch (const ValueError& error) {
  const size_t bad = first_invalid(part);
  reader.fail(part.substr(0, bad == part.size() ? 0 : bad), error.what());
}

void each_part_of_file(const TextSpan& span, const TextLayout& layout, const PartFunction& f) {
  SpanReader reader(span);
  std::string text;
  while (reader.read_more(text)) {
    if (reader.left() == 0) break;
    const size_t cut = cut_of(text, layout);
    if (cut == 0) continue;
    const std::string_view part = std::string_view(text).substr(0, cut);
    call(reader, f, part, false);
    reader.count_lines(part);
    text.erase(0, cut);
  }
  const bool ends = reader.is_at_end();
  call(reader, f, text, ends);
}

// Returns the text in the key of a line of JSON. Throws InputError.
std::string text_in_line(const SpanReader& reader, std::string_view line,
                         const std::string& field) {
  std::optional<std::string> found;
  std::string key;
  int depth = 0;
  const auto fault = scan_json(line, [&](const JsonEvent& event) {
    using enum JsonEvent::EventKind;
    if (event.kind == kListEnd || event.kind == kMapEnd) --depth;
    if (event.kind == kKey && depth == 1) key = event.text;
    if (event.kind == kString && depth == 1 && key == field) found = event.text;
    if (event.kind == kListStart || event.kind == kMapStart) ++depth;
  });
  if (fault) reader.fail("", concat_to_string("not valid JSON: ", fault->what));
  if (!found) reader.fail("", concat_to_string("no text in the key ", in_quotes(field)));
  return *std::move(found);
}

// Calls f with the text of each line that begins in the span. The last one may end after it.
void each_json_line(const TextSpan& span, const std::string& field, const PartFunction& f) {
  SpanReader reader({span.file, span.begin > 0 ? span.begin - 1 : 0, span.end});
  std::string text;
  size_t begin = 0;                                   // of the line, in `text`
  uint64_t at = span.begin > 0 ? span.begin - 1 : 0;  // of the line, in the file
  bool is_first = span.begin > 0;  // the line before the span, or the newline at its end
  bool has_more = reader.read_more(text);
  while (at < span.end && begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end == text.size() && has_more) {
      if (text.size() - begin > kLongestLine) reader.fail("", "a line of more than 16 MiB");
      text.erase(0, std::exchange(begin, 0));
      has_more = reader.read_more(text, true);
      continue;
    }
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!is_first && !line.empty()) call(reader, f, text_in_line(reader, line, field), true);
    is_first = false;
    const size_t next = std::min(end + 1, text.size());
    reader.count_lines(std::string_view(text).substr(begin, next - begin));
    at += next - begin;
    begin = next;
    if (begin < text.size() || !has_more) continue;
    text.clear();
    begin = 0;
    has_more = reader.read_more(text, true);
  }
}

// Narrow tokens in memory that is reserved for the most that there can be, of which only what is
// written takes memory.
class TokenBuffer {
 public:
  TokenBuffer(DType dtype, uint64_t most) : dtype_(dtype), most_(std::max<uint64_t>(most, 1)) {
    const size_t bytes = size_t(most_) * size_of(dtype);
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw OutOfMemoryError("no address space for ", most_, " tokens");
    data_ = {static_cast<char*>(memory), Unmap{bytes}};
  }

  void append(std::span<const uint32_t> tokens) {
    require(size_ + tokens.size() <= most_, "a text changed while it was read");
    if (dtype_ == kUInt8) write<uint8_t>(tokens);
    if (dtype_ == kInt16) write<uint16_t>(tokens);
    if (dtype_ == kInt32) write<uint32_t>(tokens);
    size_ += tokens.size();
  }
  char* place(uint64_t bytes) { return data_.get() + bytes; }
  void set_size(uint64_t size) { size_ = size; }

  Tensor take() {
    const Shape shape = {int64_t(size_)};
    const Unmap unmap = data_.get_deleter();
    char* const memory = data_.release();
    return from_blob(memory, shape, [unmap](void* data) { unmap(static_cast<char*>(data)); },
                     {.dtype = dtype_});
  }

 private:
  struct Unmap {
    size_t bytes = 0;
    void operator()(char* memory) const { ::munmap(memory, bytes); }
  };
  template <class T> void write(std::span<const uint32_t> tokens) {
    T* to = reinterpret_cast<T*>(data_.get()) + size_;
    for (const uint32_t token : tokens) *to++ = T(token);
  }

  DType dtype_;
  uint64_t most_, size_ = 0;
  std::unique_ptr<char, Unmap> data_{nullptr, Unmap{}};
};

// Throws InputError for a token of the file that is not below `vocabulary`. The first token of the
// file is number `first` of the tensor.
template <class T>
void require_tokens(const fs::path& file, std::span<const T> tokens, int64_t vocabulary) {
  constexpr size_t kAtOnce = 1 << 20;
  for (size_t at = 0; at < tokens.size(); at += kAtOnce) {
    check_stop();
    const auto part = tokens.subspan(at, std::min(kAtOnce, tokens.size() - at));
    T most = 0;
    for (const T token : part) most = std::max(most, token);
    if (int64_t(most) < vocabulary) continue;
    const auto bad = std::ranges::find(part, most) - part.begin();
    throw InputError(name_of(file), ": token ", int64_t(at) + bad, " (counted from 0) has the id ",
                     most, ", but the vocabulary has ", vocabulary, " tokens");
  }
}

void require_tokens(const fs::path& file, const void* data, uint64_t count, int64_t width,
                    int64_t vocabulary) {
  if (width == 2) {
    return require_tokens<uint16_t>(file, {static_cast<const uint16_t*>(data), count}, vocabulary);
  }
  require_tokens<uint32_t>(file, {static_cast<const uint32_t*>(data), count}, vocabulary);
}

// Returns the number of tokens in the file.
uint64_t count_tokens(const InputFile& opened, const fs::path& file, int64_t width) {
  const auto bytes = opened.size();
  require<InputError>(bytes > 0 && bytes % uint64_t(width) == 0, name_of(file), ": ", bytes,
                      " bytes, not a multiple of the ", width,
                      " bytes of a token: the file is truncated, or has another width");
  return bytes / uint64_t(width);
}

Tensor map_tokens(const fs::path& file, int64_t width, int64_t vocabulary) {
  const InputFile opened(file, "file of tokens");
  const uint64_t count = count_tokens(opened, file, width);
  const size_t bytes = opened.size();
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                      opened.descriptor(), 0);
  require<InputError>(data != MAP_FAILED, name_of(file), ": cannot map: ", std::strerror(errno));
  Tensor out = from_blob(data, {int64_t(count)}, [bytes](void* memory) { ::munmap(memory, bytes); },
                         {.dtype = width == 2 ? kInt16 : kInt32});
  require_tokens(file, data, count, width, vocabulary);
  return out;
}

}  // namespace

DType token_dtype(int64_t vocabulary) {
  return vocabulary <= 1 << 8 ? kUInt8 : vocabulary <= 1 << 16 ? kInt16 : kInt32;
}

bool is_compressed_text(const fs::path& file) {
  const std::string end = lower_case(file.extension().string());
  return end == ".gz" || end == ".zst";
}

std::string text_extension(const fs::path& file) {
  const fs::path plain = is_compressed_text(file) ? file.stem() : file;
  return lower_case(plain.extension().string());
}

bool is_json_lines(const fs::path& file) {
  const std::string end = text_extension(file);
  return end == ".jsonl" || end == ".ndjson";
}

uint64_t text_size(const fs::path& file) {
  const std::unique_ptr<ByteSource> source = open_decompressed(file, "text");
  if (source->compression.empty()) return source->size;
  std::string part(kPart, '\0');
  uint64_t size = 0;
  for (size_t got = part.size(); got == part.size(); size += got) {
    check_stop();
    got = source->read(part.data(), part.size());
  }
  return size;
}

std::string read_text_file(const fs::path& file, size_t most) {
  const std::unique_ptr<ByteSource> source = open_decompressed(file, "text");
  std::string text;
  for (size_t got = kPart; got > 0 && text.size() <= most;) {
    check_stop();
    const size_t before = text.size();
    text.resize(before + kPart);
    got = source->read(text.data() + before, kPart);
    text.resize(before + got);
  }
  return text;
}

void each_text_part(const TextSpan& span, const TextLayout& layout, const PartFunction& f) {
  if (is_json_lines(span.file)) return each_json_line(span, layout.field, f);
  each_part_of_file(span, layout, f);
}

Tensor encode_spans(const std::vector<TextSpan>& spans, const TextLayout& layout,
                    const Tokenizer& tokenizer, bool separated) {
  uint64_t most = 0;  // a token has at least a byte, and so has the end of a document
  for (const TextSpan& span : spans) most += span.end - span.begin + kLongestLine + 1;
  // The normalization of sentencepiece makes at most 18 characters out of one of 3 bytes, and each
  // of these is at most 3 tokens of a byte.
  constexpr uint64_t kMostOfOneByte = 18;
  if (tokenizer.parts().kind == Tokenizer::TokenKind::kSentencepiece) most *= kMostOfOneByte;
  TokenBuffer buffer(token_dtype(tokenizer.size()), most);
  TokenEncoder encoder(tokenizer);
  std::vector<uint32_t> ids;
  for (const TextSpan& span : spans) {
    each_text_part(span, layout, [&](std::string_view part, bool ends) {
      ids.clear();
      encoder.append(part, ids);
      if (ends && separated) ids.push_back(uint32_t(*tokenizer.special_id(Tokenizer::kEnd)));
      buffer.append(ids);
    });
  }
  return buffer.take();
}

Tensor read_token_files(const std::vector<fs::path>& files, int64_t width, int64_t vocabulary) {
  if (files.size() == 1) return map_tokens(files[0], width, vocabulary);
  uint64_t all = 0;
  for (const fs::path& file : files) {
    all += count_tokens(InputFile(file, "file of tokens"), file, width);
  }
  TokenBuffer buffer(width == 2 ? kInt16 : kInt32, all);
  uint64_t done = 0;
  for (const fs::path& file : files) {
    InputFile opened(file, "file of tokens");
    const uint64_t count = count_tokens(opened, file, width);
    require<InputError>(done + count <= all, name_of(file), ": changed while it was read");
    char* const place = buffer.place(done * uint64_t(width));
    for (uint64_t at = 0; at < opened.size();) {
      check_stop();
      const size_t got = opened.read(place + at, std::min<uint64_t>(64 << 20, opened.size() - at));
      require<InputError>(got > 0, name_of(file), ": changed while it was read");
      at += got;
    }
    require_tokens(file, place, count, width, vocabulary);
    done += count;
  }
  buffer.set_size(done);
  return buffer.take();
}

}  // namespace taper::v0::data
