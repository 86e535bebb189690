#include "apps/runner/data/idx.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <spdlog/fmt/fmt.h>
#include <zlib.h>

#include "apps/runner/errors.h"
#include "apps/runner/text.h"

namespace taper::runner {
namespace {

namespace fs = std::filesystem;

constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr uint8_t kUnsignedByte = 0x08;

template <class... Args> [[noreturn]] void fail(const fs::path& file, const Args&... args) {
  throw InputError(cat(file.string(), ": ", args...));
}

// What is in a gzip file, which may hold several streams in a row. zlib checks their sums.
std::string unpacked(const fs::path& file, std::string_view packed) {
  z_stream zlib{};
  // 16 + 15: a gzip wrapper around the largest window.
  if (inflateInit2(&zlib, 16 + 15) != Z_OK) fail(file, "zlib cannot be started");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&zlib, inflateEnd);
  std::string out;
  for (int status = Z_OK; status != Z_STREAM_END || !packed.empty();) {
    if (status == Z_STREAM_END) {
      if (packed[0] != '\x1f') fail(file, "bytes follow the end of the gzip stream");
      inflateReset(&zlib);
    }
    const auto part = packed.substr(0, kChunkBytes);
    const size_t done = out.size();
    out.resize(done + kChunkBytes);
    zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));  // it only reads
    zlib.avail_in = static_cast<uInt>(part.size());
    zlib.next_out = reinterpret_cast<Bytef*>(&out[done]);
    zlib.avail_out = static_cast<uInt>(kChunkBytes);
    status = inflate(&zlib, Z_NO_FLUSH);
    packed.remove_prefix(part.size() - zlib.avail_in);
    out.resize(out.size() - zlib.avail_out);
    if (status == Z_OK || status == Z_STREAM_END) continue;
    const std::string where = cat(" after ", out.size(), " bytes of content; fetch the file again");
    if (status == Z_BUF_ERROR) fail(file, "the gzip stream is cut off", where);
    fail(file, "the gzip stream is damaged (", zlib.msg ? zlib.msg : "zlib gives no reason", ")",
         where);
  }
  return out;
}

std::string hex(std::string_view bytes) {
  const std::vector<uint8_t> values(bytes.begin(), bytes.end());
  return fmt::format("{:02x}", fmt::join(values, " "));
}

// What the first bytes of a foreign file look like, as the end of a sentence; empty if unknown.
std::string_view guess_format(std::string_view text) {
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
  for (const Format& format : kFormats) {
    if (text.starts_with(format.magic)) return format.name;
  }
  const auto is_text = [](char c) { return (c >= ' ' && c <= '~') || (c >= '\t' && c <= '\r'); };
  return std::ranges::all_of(text, is_text) ? "a text file" : "";
}

[[noreturn]] void fail_foreign(const fs::path& file, std::string_view content) {
  const std::string_view guess = guess_format(content.substr(0, 32));
  fail(file, "not an IDX file: expected 00 00 08 and the number of dimensions, got ",
       hex(content.substr(0, 8)), guess.empty() ? "" : "; it looks like ", guess);
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

std::vector<int64_t> read_shape(const fs::path& file, std::string_view content) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(content[i]); };
  if (content.substr(0, 2).find_first_not_of('\0') != std::string::npos)
    fail_foreign(file, content);
  if (content.size() < 4) {
    fail(file, "the IDX header is cut off: expected at least 4 bytes, got ", content.size());
  }
  const std::string_view type = element_type_name(byte(2));
  const size_t rank = byte(3), header = 4 + 4 * rank;
  if (type.empty() || rank == 0) fail_foreign(file, content);
  if (byte(2) != kUnsignedByte) {
    fail(file, "expected elements of type unsigned byte (0x08), got ", type, " (0x",
         hex(content.substr(2, 1)), ")");
  }
  if (content.size() < header) {
    fail(file, "the IDX header is cut off: ", rank, " dimensions need ", header, " bytes, got ",
         content.size());
  }
  std::vector<int64_t> shape;
  for (size_t i = 4; i < header; i += 4) {
    shape.push_back(int64_t{byte(i)} << 24 | int64_t{byte(i + 1)} << 16 |
                    int64_t{byte(i + 2)} << 8 | int64_t{byte(i + 3)});
  }
  return shape;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

int64_t count_elements(const fs::path& file, const std::vector<int64_t>& shape) {
  if (std::ranges::count(shape, 0) > 0) return 0;
  int64_t product = 1;
  for (const int64_t size : shape) {
    if (!__builtin_mul_overflow(product, size, &product)) continue;
    fail(file, "the header claims an impossible shape ", shape_text(shape),
         ": its number of elements overflows 64 bits");
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
  std::string content = read_file(file, "IDX file");
  const bool is_packed = content.starts_with("\x1f\x8b");
  if (is_packed) content = unpacked(file, content);
  if (content.empty()) {
    fail(file, "expected an IDX file, got ", is_packed ? "empty gzip" : "an empty file");
  }
  std::vector<int64_t> shape = read_shape(file, content);
  const auto expected = static_cast<size_t>(count_elements(file, shape));
  const size_t header = 4 + 4 * shape.size(), got = content.size() - header;
  if (got < expected) {
    fail(file, "the data is cut off: shape ", shape_text(shape), " needs ", expected,
         " bytes, got ", got);
  }
  if (got > expected) {
    fail(file, "shape ", shape_text(shape), " needs ", expected, " bytes of data, got ", got, " (",
         got - expected, " left over)");
  }
  return {.shape = std::move(shape),
          .data = {content.begin() + static_cast<std::ptrdiff_t>(header), content.end()}};
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
