#include "apps/runner/data/idx.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <zlib.h>

#include "apps/runner/errors.h"

namespace taper::runner {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

constexpr size_t kBufferBytes = size_t{1} << 16;
constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr uint8_t kUnsignedByte = 0x08;

template <class... Args> [[noreturn]] void fail(const fs::path& file, const Args&... args) {
  throw InputError(cat(file.string(), ": ", args...));
}

// The bytes of a file in order, unpacked on the way when the file starts with gzip's magic.
class ByteSource {
 public:
  explicit ByteSource(fs::path file);
  ~ByteSource() { inflateEnd(&zlib_); }
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  const fs::path& file() const { return file_; }
  bool gzip() const { return gzip_; }

  // The next `most` (at least 1) bytes; fewer only at the end. A gzip stream's checksum is
  // verified by the call that reaches its end.
  Bytes next(size_t most) { return gzip_ ? next_inflated(most) : next_plain(most); }

 private:
  void refill();
  Bytes next_plain(size_t most);
  Bytes next_inflated(size_t most);
  void inflate_some();

  fs::path file_;
  std::ifstream in_;
  Bytes buffer_ = Bytes(kBufferBytes);
  std::span<uint8_t> input_;  // what is left of buffer_
  bool gzip_ = false;
  bool member_ended_ = false;  // a gzip file may hold several streams in a row
  z_stream zlib_{};
};

ByteSource::ByteSource(fs::path file) : file_(std::move(file)) {
  std::error_code ignored;
  if (fs::is_directory(file_, ignored)) fail(file_, "expected an IDX file, got a directory");
  errno = 0;
  in_.open(file_, std::ios::binary);
  if (!in_) fail(file_, "cannot open the IDX file: ", std::generic_category().message(errno));
  refill();
  gzip_ = input_.size() >= 2 && input_[0] == 0x1f && input_[1] == 0x8b;
  // 16 + 15: a gzip wrapper around the largest window.
  if (gzip_ && inflateInit2(&zlib_, 16 + 15) != Z_OK) fail(file_, "zlib cannot be started");
}

void ByteSource::refill() {
  in_.read(reinterpret_cast<char*>(buffer_.data()), static_cast<std::streamsize>(buffer_.size()));
  if (in_.bad()) fail(file_, "reading failed: ", std::generic_category().message(errno));
  input_ = std::span(buffer_).first(static_cast<size_t>(in_.gcount()));
}

Bytes ByteSource::next_plain(size_t most) {
  Bytes out;
  while (out.size() < most) {
    if (input_.empty()) refill();
    if (input_.empty()) break;
    const auto part = input_.first(std::min(input_.size(), most - out.size()));
    out.insert(out.end(), part.begin(), part.end());
    input_ = input_.subspan(part.size());
  }
  return out;
}

Bytes ByteSource::next_inflated(size_t most) {
  Bytes out(most);
  zlib_.next_out = out.data();
  zlib_.avail_out = static_cast<uInt>(most);
  while (zlib_.avail_out > 0) {
    if (input_.empty()) refill();
    if (member_ended_ && input_.empty()) break;
    if (member_ended_ && input_[0] != 0x1f) fail(file_, "bytes follow the end of the gzip stream");
    if (member_ended_) inflateReset(&zlib_);
    inflate_some();
  }
  out.resize(most - zlib_.avail_out);
  return out;
}

void ByteSource::inflate_some() {
  if (input_.empty()) {
    fail(file_, "the gzip stream is cut off after ", zlib_.total_out,
         " bytes of content; fetch the file again");
  }
  zlib_.next_in = input_.data();
  zlib_.avail_in = static_cast<uInt>(input_.size());
  const int status = inflate(&zlib_, Z_NO_FLUSH);
  input_ = input_.last(zlib_.avail_in);
  member_ended_ = status == Z_STREAM_END;
  if (status == Z_OK || status == Z_STREAM_END) return;
  fail(file_, "the gzip stream is damaged (", zlib_.msg ? zlib_.msg : "zlib gives no reason",
       ") after ", zlib_.total_out, " bytes of content; fetch the file again");
}

std::string hex(std::span<const uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const uint8_t byte : bytes) {
    if (!out.empty()) out += ' ';
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

// What the first bytes of a foreign file look like, as the end of a sentence; empty if unknown.
std::string_view guess_format(const Bytes& bytes) {
  struct Format {
    std::string_view magic, name;
  };
  static constexpr std::array<Format, 7> kFormats{{
      {"\x89PNG", "a PNG image"},
      {"\xff\xd8\xff", "a JPEG image"},
      {"PK\x03\x04", "a zip archive (or .npz)"},
      {"\x93NUMPY", "a NumPy .npy file"},
      {"\x1f\x8b", "gzip within gzip"},
      {"version https://git-lfs", "a Git LFS pointer; run git lfs pull"},
      {"<", "an HTML or XML page, perhaps a server's error message"},
  }};
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const Format& format : kFormats) {
    if (text.starts_with(format.magic)) return format.name;
  }
  const auto is_text = [](char c) { return (c >= ' ' && c <= '~') || (c >= '\t' && c <= '\r'); };
  return std::all_of(text.begin(), text.end(), is_text) ? "a text file" : "";
}

[[noreturn]] void fail_foreign(ByteSource& source, Bytes start) {
  const Bytes more = source.next(28);
  start.insert(start.end(), more.begin(), more.end());
  const std::string_view guess = guess_format(start);
  fail(source.file(), "not an IDX file: expected 00 00 08 and the number of dimensions, got ",
       hex(std::span(start).first(std::min<size_t>(start.size(), 8))),
       guess.empty() ? "" : "; it looks like ", guess);
}

// Empty for a code that IDX does not know.
std::string_view element_type_name(uint8_t code) {
  static constexpr std::array<std::string_view, 7> kNames{
      "unsigned byte", "signed byte", "", "16-bit integer", "32-bit integer",
      "32-bit float",  "64-bit float"};
  return code >= kUnsignedByte && code < kUnsignedByte + kNames.size()
             ? kNames[code - kUnsignedByte]
             : "";
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out = "(";
  for (const int64_t size : shape) out += cat(out.size() > 1 ? ", " : "", size);
  return out + ")";
}

std::vector<int64_t> read_shape(ByteSource& source) {
  Bytes magic = source.next(4);
  if (magic.empty()) {
    fail(source.file(), "expected an IDX file, got ",
         source.gzip() ? "empty gzip" : "an empty file");
  }
  if (magic[0] != 0 || (magic.size() > 1 && magic[1] != 0)) fail_foreign(source, std::move(magic));
  if (magic.size() < 4) {
    fail(source.file(), "the IDX header is cut off: expected at least 4 bytes, got ", magic.size());
  }
  const std::string_view type = element_type_name(magic[2]);
  const size_t rank = magic[3];
  if (type.empty() || rank == 0) fail_foreign(source, std::move(magic));
  if (magic[2] != kUnsignedByte) {
    fail(source.file(), "expected elements of type unsigned byte (0x08), got ", type, " (0x",
         hex(std::span(magic).subspan(2, 1)), ")");
  }
  const Bytes sizes = source.next(4 * rank);
  if (sizes.size() < 4 * rank) {
    fail(source.file(), "the IDX header is cut off: ", rank, " dimensions need ", 4 + 4 * rank,
         " bytes, got ", 4 + sizes.size());
  }
  std::vector<int64_t> shape;
  for (size_t i = 0; i < sizes.size(); i += 4) {
    shape.push_back(int64_t{sizes[i]} << 24 | int64_t{sizes[i + 1]} << 16 |
                    int64_t{sizes[i + 2]} << 8 | int64_t{sizes[i + 3]});
  }
  return shape;
}

int64_t count_elements(const fs::path& file, const std::vector<int64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t product = 1;
  for (const int64_t size : shape) {
    if (size > std::numeric_limits<int64_t>::max() / product) {
      fail(file, "the header claims an impossible shape ", shape_text(shape),
           ": its number of elements overflows 64 bits");
    }
    product *= size;
  }
  return product;
}

void require_rank(const fs::path& file, const IdxArray& array, size_t rank, std::string_view what) {
  if (array.shape.size() == rank) return;
  fail(file, "expected ", what, ", got the shape ", shape_text(array.shape));
}

fs::path find_mnist_file(const fs::path& root, std::string_view stem, std::string_view idx) {
  const std::array<std::string, 4> names{cat(stem, '-', idx), cat(stem, '.', idx),
                                         cat(stem, '-', idx, ".gz"), cat(stem, '.', idx, ".gz")};
  std::error_code ignored;
  for (const std::string& name : names) {
    if (fs::exists(root / name, ignored)) return root / name;
  }
  throw InputError(cat("MNIST's ", stem, " are not in '", root.string(), "'",
                       fs::is_directory(root, ignored) ? "" : " (no such directory)",
                       ": looked for ", names[0], ", ", names[1], ", ", names[2], " and ", names[3],
                       "; download the four files of MNIST, e.g. from "
                       "https://ossci-datasets.s3.amazonaws.com/mnist/, and set data.root=DIR"));
}

}  // namespace

IdxArray read_idx(const fs::path& file) {
  ByteSource source(file);
  IdxArray array{.shape = read_shape(source), .data = {}};
  const auto expected = static_cast<size_t>(count_elements(file, array.shape));
  while (array.data.size() < expected) {
    const Bytes part = source.next(std::min(kChunkBytes, expected - array.data.size()));
    if (part.empty()) {
      fail(file, "the data is cut off: shape ", shape_text(array.shape), " needs ", expected,
           " bytes, got ", array.data.size());
    }
    array.data.insert(array.data.end(), part.begin(), part.end());
  }
  size_t extra = 0;
  for (Bytes part = source.next(kChunkBytes); !part.empty(); part = source.next(kChunkBytes)) {
    extra += part.size();
  }
  if (extra > 0) {
    fail(file, "shape ", shape_text(array.shape), " needs ", expected, " bytes of data, got ",
         expected + extra, " (", extra, " left over)");
  }
  return array;
}

Images read_idx_images(const fs::path& images_file, const fs::path& labels_file,
                       int64_t num_classes) {
  IdxArray pixels = read_idx(images_file);
  require_rank(images_file, pixels, 3, "images of 3 dimensions (count, height, width)");
  if (pixels.data.empty()) fail(images_file, "no images: the shape is ", shape_text(pixels.shape));
  const IdxArray labels = read_idx(labels_file);
  require_rank(labels_file, labels, 1, "labels of 1 dimension (count)");
  if (labels.shape[0] != pixels.shape[0]) {
    fail(labels_file, "expected ", pixels.shape[0], " labels, one for each image in ",
         images_file.string(), ", got ", labels.shape[0]);
  }
  for (size_t i = 0; i < labels.data.size(); ++i) {
    if (labels.data[i] < num_classes) continue;
    fail(labels_file, "record ", i, " (counted from 0): expected a label in 0 .. ", num_classes - 1,
         ", got ", int{labels.data[i]});
  }
  return {.count = pixels.shape[0],
          .height = pixels.shape[1],
          .width = pixels.shape[2],
          .pixels = std::move(pixels.data),
          .labels = {labels.data.begin(), labels.data.end()}};
}

Images load_mnist(const fs::path& root, bool train, int64_t num_classes) {
  const std::string half = train ? "train" : "t10k";
  const fs::path images = find_mnist_file(root, half + "-images", "idx3-ubyte");
  const fs::path labels = find_mnist_file(root, half + "-labels", "idx1-ubyte");
  return read_idx_images(images, labels, num_classes);
}

}  // namespace taper::runner
