#include "data/images/images.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <new>
#include <ranges>
#include <span>
#include <string_view>
#include <utility>

#include <unistd.h>
#include <zlib.h>

#include "autograd/ops/binary.h"
#include "framework/factories.h"
#include "framework/host/hooks.h"
#include "framework/io/input_file.h"

namespace taper::inline v0::data {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

constexpr size_t kChunkBytes = size_t{1} << 20, kCountedBytes = kChunkBytes;
constexpr size_t kShownBytes = 28;  // of a foreign file, after its first four
constexpr uint8_t kUnsignedByte = 0x08, kDouble = 0x0e;

template <class... Args> [[noreturn]] void fail(const fs::path& file, const Args&... args) {
  throw InputError(cat(file.string(), ": ", args...));
}

// A file as it is, or what is in a gzip file, which may hold several streams in a row; zlib checks
// their sums. It is read no further than asked for, whatever it would grow to.
class Stream {
 public:
  explicit Stream(const fs::path& path)
      : path_(path), file_(path_, "IDX file"), gz_(nullptr, gzclose) {
    const int own = ::dup(file_.descriptor());
    gz_.reset(own < 0 ? nullptr : gzdopen(own, "rb"));
    if (!gz_) fail(path_, "zlib cannot open it");
    is_packed_ = gzdirect(gz_.get()) == 0;
  }

  bool is_packed() const { return is_packed_; }
  // Adds the next bytes to `out`; fewer at the end.
  void read(Bytes& out, size_t most) {
    for (size_t left = most; left > 0;) {
      check_stop();
      const size_t done = out.size(), part = std::min(left, kChunkBytes);
      out.resize(done + part);
      const int got = gzread(gz_.get(), &out[done], unsigned(part));
      out.resize(done + size_t(std::max(got, 0)));
      if (got < int(part)) check();
      if (got <= 0) return;
      left -= size_t(got);
    }
  }
  // Bytes that follow, as far as they are counted.
  size_t count_rest(size_t most) {
    Bytes rest;
    read(rest, most);
    return rest.size();
  }
  // No fewer than are left: deflate makes no more than 1032 bytes of one.
  uint64_t most_left() const { return file_.size() * (is_packed_ ? 1032 : 1); }

 private:
  void check() {
    int status = Z_OK;
    const std::string why = gzerror(gz_.get(), &status);
    if (status == Z_ERRNO) fail(path_, "cannot read the IDX file: ", why);
    if (status == Z_OK || status == Z_STREAM_END) return;
    fail(path_, "the gzip stream is ", status == Z_BUF_ERROR ? "cut off" : "damaged",
         "; fetch the file again");
  }

  fs::path path_;
  InputFile file_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> gz_;
  bool is_packed_ = false;
};

std::string hex(std::span<const uint8_t> bytes) {
  std::string out;
  for (const uint8_t byte : bytes) {
    char text[8];
    std::snprintf(text, sizeof text, out.empty() ? "%02x" : " %02x", byte);
    out += text;
  }
  return out;
}

// What the first bytes of a foreign file look like, as the end of a sentence; empty if unknown.
std::string_view guess_format(std::string_view text) {
  struct Format {
    std::string_view magic, name;
  };
  static constexpr Format kFormats[] = {
      {"\x89PNG", "a PNG image"},
      {"\xff\xd8\xff", "a JPEG image"},
      {"PK\x03\x04", "a zip archive (or .npz)"},
      {"\x93NUMPY", "a NumPy .npy file"},
      {"\x1f\x8b", "gzip within gzip"},
      {"version https://git-lfs", "a Git LFS pointer; run git lfs pull"},
      {"<", "an HTML or XML page, perhaps a server's error message"},
  };
  for (const Format& format : kFormats) {
    if (text.starts_with(format.magic)) return format.name;
  }
  const auto is_text = [](char c) { return (c >= ' ' && c <= '~') || (c >= '\t' && c <= '\r'); };
  return std::ranges::all_of(text, is_text) ? "a text file" : "";
}

// Leaves the stream at the first element.
std::vector<int64_t> read_shape(const fs::path& file, Stream& in) {
  Bytes content;
  in.read(content, 4);
  if (content.empty()) {
    fail(file, "expected an IDX file, got ", in.is_packed() ? "empty gzip" : "an empty file");
  }
  const auto is_set = [](uint8_t byte) { return byte != 0; };
  if (std::ranges::any_of(content | std::views::take(2), is_set) ||
      (content.size() == 4 &&
       (content[2] < kUnsignedByte || content[2] > kDouble || content[3] == 0))) {
    in.read(content, kShownBytes);
    const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
    const std::string_view guess = guess_format(text);
    fail(file, "not an IDX file: expected 00 00 08 and the number of dimensions, got ",
         hex(std::span(content).first(std::min(content.size(), size_t{8}))),
         guess.empty() ? "" : "; it looks like ", guess);
  }
  if (content.size() < 4) {
    fail(file, "the IDX header is cut off: expected at least 4 bytes, got ", content.size());
  }
  const size_t rank = content[3], header = 4 + 4 * rank;
  if (content[2] != kUnsignedByte) {
    fail(file, "expected elements of type unsigned byte (0x08), got type 0x",
         hex({&content[2], 1}));
  }
  in.read(content, 4 * rank);
  if (content.size() < header) {
    fail(file, "the IDX header is cut off: ", rank, " dimensions need ", header, " bytes, got ",
         content.size());
  }
  std::vector<int64_t> shape(rank);
  for (size_t i = 4; i < header; ++i) shape[i / 4 - 1] = shape[i / 4 - 1] << 8 | content[i];
  return shape;
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string out;
  for (const int64_t size : shape) out += cat(out.empty() ? "(" : ", ", size);
  return out + ')';
}

int64_t count_elements(const fs::path& file, const std::vector<int64_t>& shape) {
  if (shape.size() > kMaxDims) fail(file, "more than ", kMaxDims, " dimensions: ", shape.size());
  int64_t product = 1;
  for (const int64_t size : shape) {
    if (!__builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product)) continue;
    fail(file, "the header claims an impossible shape ", shape_text(shape),
         ": its number of elements overflows 64 bits");
  }
  return std::ranges::count(shape, 0) > 0 ? 0 : product;
}

void require_rank(const fs::path& file, std::span<const int64_t> shape, size_t rank,
                  std::string_view what) {
  if (shape.size() == rank) return;
  fail(file, "expected ", what, ", got the shape ", shape_text(shape));
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

constexpr double kWhite = 255;

DataInfo info_of(const Shape& size, int64_t classes) {
  return {.input_shape = size, .outputs = classes, .class_names = numbers_below(classes)};
}

void require_size(const DataInfo& info, const Batch& images, const char* what) {
  const Shape ours = info.input_shape, theirs = sample_shape(images.inputs);
  if (ours == theirs) return;
  throw InputError(cat("training images are ", ours[1], "x", ours[2], ", ", what, " images are ",
                       theirs[1], "x", theirs[2],
                       ours[0] == theirs[0] ? "" : " of other channels"));
}

}  // namespace

Tensor pixels_of(const Tensor& bytes) { return bytes.to(kFloat32, {.copy = true}).div_(kWhite); }

DatasetPtr dataset_of(const Batch& images) {
  return std::make_shared<TensorDataset>(Batch{pixels_of(images.inputs), images.targets});
}

Tensor read_idx(const fs::path& file) try {
  Stream in(file);
  const std::vector<int64_t> shape = read_shape(file, in);
  const auto expected = static_cast<size_t>(count_elements(file, shape));
  Bytes data;
  // A header that claims more than the file can hold is not believed: what is there is counted.
  const bool is_claimed = expected > in.most_left();
  if (!is_claimed) in.read(data, expected);
  const size_t got = is_claimed ? in.count_rest(kCountedBytes) : data.size();
  if (got < expected) {
    fail(file, "the data is cut off: shape ", shape_text(shape), " needs ", expected,
         " bytes, got ", got, got == kCountedBytes ? " or more" : "");
  }
  const size_t over = in.count_rest(kCountedBytes);
  if (over == 0) return tensor_of(data.data(), Shape(shape));
  const char* more = over == kCountedBytes ? " or more" : "";
  fail(file, "shape ", shape_text(shape), " needs ", expected, " bytes of data, got ",
       expected + over, more, " (", over, more, " left over)");
} catch (const std::bad_alloc&) {
  throw OutOfMemoryError(cat(file.string(), ": no memory for the data"));
}

Batch read_idx_images(const fs::path& images_file, const fs::path& labels_file,
                      int64_t num_classes) {
  const Tensor images = read_idx(images_file);
  require_rank(images_file, images.shape(), 3, "images of 3 dimensions (count, height, width)");
  if (images.numel() == 0)
    fail(images_file, "no images: the shape is ", shape_text(images.shape()));
  Batch out{images.unsqueeze(1), {}};
  if (labels_file.empty()) return out;
  const Tensor labels = read_idx(labels_file);
  require_rank(labels_file, labels.shape(), 1, "labels of 1 dimension (count)");
  const int64_t count = images.size(0);
  if (labels.size(0) != count) {
    fail(labels_file, "expected ", count, " labels, one for each image in ", images_file.string(),
         ", got ", labels.size(0));
  }
  out.targets = labels.to(kInt64);
  require_classes(out.targets.span<int64_t>(), num_classes, labels_file);
  return out;
}

Batch load_mnist(const fs::path& root, bool train, int64_t num_classes) {
  const std::string half = train ? "train" : "t10k";
  const fs::path images = find_mnist_file(root, half + "-images", "idx3-ubyte");
  const fs::path labels = find_mnist_file(root, half + "-labels", "idx1-ubyte");
  return read_idx_images(images, labels, num_classes);
}

std::vector<int64_t> mnist_shape(const fs::path& root, bool train) {
  const fs::path file = find_mnist_file(root, train ? "train-images" : "t10k-images", "idx3-ubyte");
  Stream in(file);
  std::vector<int64_t> shape = read_shape(file, in);
  require_rank(file, shape, 3, "images of 3 dimensions (count, height, width)");
  return shape;
}

Splits splits_of_images(const Batch& train, const Batch& test, int64_t classes) {
  const DataInfo info = info_of(sample_shape(train.inputs), classes);
  require_size(info, test, "test");
  return {info, dataset_of(train), dataset_of(test)};
}

Outline outline_of(int64_t train, int64_t test, int64_t height, int64_t width) {
  const auto zeros_of = [&](int64_t count) {
    const Tensor pixel = zeros({1}), label = zeros({1}, {.dtype = kInt64});
    return std::make_shared<TensorDataset>(
        Batch{view_as(pixel, {count, 1, height, width}, {0, 0, 0, 0}, 0),
              view_as(label, {count}, {0}, 0)});
  };
  return {{info_of({1, height, width}, 10), zeros_of(train), zeros_of(test)}};
}

DatasetPtr ImageSource::more(const DataInfo& info, const std::filesystem::path& file) const {
  const Batch images = read_idx_images(file, {}, info.outputs);
  require_size(info, images, file.c_str());
  return dataset_of(images);
}

Tensor ImageSource::prepared(const DataInfo&, const Tensor& raw) const {
  return raw.to(kFloat32) / kWhite;
}

Splits Idx::load(uint64_t) const {
  const Batch train = read_idx_images(train_images, train_labels, 256);
  const int64_t classes = count_classes(train.targets.span<int64_t>(), train_labels);
  return splits_of_images(train, read_idx_images(test_images, test_labels, classes), classes);
}

Splits Mnist::load(uint64_t) const {
  return splits_of_images(load_mnist(root, true), load_mnist(root, false));
}

Outline Mnist::outline(uint64_t) const {
  const std::vector<int64_t> train = mnist_shape(root, true);
  Outline out = outline_of(train[0], mnist_shape(root, false)[0], train[1], train[2]);
  out.unread = "the pixels and labels of MNIST, of which only headers were read";
  return out;
}

}  // namespace taper::inline v0::data
