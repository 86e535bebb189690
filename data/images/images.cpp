#include "data/images/images.h"

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <span>
#include <string_view>

#include <unistd.h>
#include <zlib.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/base/cancel.h"
#include "framework/factory/factories.h"
#include "framework/io/input_file.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kChunkBytes = size_t{1} << 20, kCountedBytes = kChunkBytes;
constexpr size_t kShownBytes = 28;  // number of bytes of a foreign file that a message shows, after
                                    // its first four

template <class... Args> [[noreturn]] void fail(const fs::path& file, const Args&... args) {
  throw InputError(file.string(), ": ", args...);
}
template <class... Args> void expect(bool holds, const fs::path& file, const Args&... args) {
  if (!holds) fail(file, args...);
}

std::string hex(std::span<const uint8_t> bytes) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (const uint8_t byte : bytes) {
    out += concat_to_string(out.empty() ? "" : " ", kHex[byte >> 4], kHex[byte & 15]);
  }
  return out;
}

// Returns what the first bytes of a foreign file look like, as the end of a sentence; empty if
// unknown.
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

std::string shape_text(std::span<const int64_t> shape) {
  std::string out;
  for (const int64_t size : shape) out += concat_to_string(out.empty() ? "(" : ", ", size);
  return out + ')';
}

// Reads an IDX file, which may be gzip-compressed (also as several streams in a row, whose
// checksums zlib verifies). Reads no more bytes than requested, however large the decompressed data
// would be.
class IdxFile {
 public:
  // Reads the header alone.
  explicit IdxFile(const fs::path& path)
      : path_(path), file_(path_, "IDX file"), gz_(nullptr, gzclose) {
    const int own = ::dup(file_.descriptor());
    gz_.reset(own < 0 ? nullptr : gzdopen(own, "rb"));
    if (!gz_) fail(path_, "zlib cannot open it");
    is_packed_ = gzdirect(gz_.get()) == 0;
    read_header();
  }

  const std::vector<int64_t>& shape() const { return shape_; }

  Tensor elements() {
    const auto expected = static_cast<size_t>(count_elements());
    // If the header claims more data than the file can hold, no memory is allocated for that, and
    // the bytes that are present are counted for the message. Deflate expands a byte to at most
    // 1032 bytes.
    const bool is_claimed = expected > file_.size() * (is_packed_ ? 1032 : 1);
    fill(header_ + (is_claimed ? 0 : expected) + kCountedBytes);
    const size_t got = bytes_.size() - header_;
    if (got == expected) return tensor_of(bytes_.data() + header_, Shape(shape_));
    if (got < expected) {
      fail(path_, "the data is cut off: shape ", shape_text(shape_), " needs ", expected,
           " bytes, got ", got, got == kCountedBytes ? " or more" : "");
    }
    const size_t over = got - expected;
    const char* more = over == kCountedBytes ? " or more" : "";
    fail(path_, "shape ", shape_text(shape_), " needs ", expected, " bytes of data, got ", got,
         more, " (", over, more, " left over)");
  }

 private:
  // Reads until there are `most` bytes, or until the end of the file.
  void fill(size_t most) {
    while (bytes_.size() < most) {
      check_stop();
      const size_t done = bytes_.size(), part = std::min(most - done, kChunkBytes);
      bytes_.resize(done + part);
      const int got = gzread(gz_.get(), &bytes_[done], unsigned(part));
      bytes_.resize(done + size_t(std::max(got, 0)));
      if (got < int(part)) check();
      if (got <= 0) return;
    }
  }

  void check() {
    int status = Z_OK;
    const std::string why = gzerror(gz_.get(), &status);
    if (status == Z_ERRNO) fail(path_, "cannot read the IDX file: ", why);
    if (status == Z_OK || status == Z_STREAM_END) return;
    fail(path_, "the gzip stream is ", status == Z_BUF_ERROR ? "cut off" : "damaged",
         "; fetch the file again");
  }

  void read_header() {
    fill(4);
    const size_t got = bytes_.size();
    expect(got != 0, path_, "expected an IDX file, got ",
           is_packed_ ? "empty gzip" : "an empty file");
    const bool has_zeros = bytes_[0] == 0 && (got == 1 || bytes_[1] == 0);
    const bool has_type = got < 4 || (bytes_[2] >= 0x08 && bytes_[2] <= 0x0e && bytes_[3] > 0);
    if (!has_zeros || !has_type) {
      fill(4 + kShownBytes);
      const std::string_view guess =
          guess_format({reinterpret_cast<const char*>(bytes_.data()), bytes_.size()});
      fail(path_, "not an IDX file: expected 00 00 08 and the number of dimensions, got ",
           hex(std::span(bytes_).first(std::min(bytes_.size(), size_t{8}))),
           guess.empty() ? "" : "; it looks like ", guess);
    }
    expect(got >= 4, path_, "the IDX header is cut off: expected at least 4 bytes, got ", got);
    expect(bytes_[2] == 0x08, path_, "expected elements of type unsigned byte (0x08), got type 0x",
           hex({&bytes_[2], 1}));
    const size_t rank = bytes_[3];
    header_ = 4 + 4 * rank;
    fill(header_);
    expect(bytes_.size() >= header_, path_, "the IDX header is cut off: ", rank,
           " dimensions need ", header_, " bytes, got ", bytes_.size());
    shape_.resize(rank);
    for (size_t i = 4; i < header_; ++i) shape_[i / 4 - 1] = shape_[i / 4 - 1] << 8 | bytes_[i];
  }

  int64_t count_elements() const {
    expect(shape_.size() <= kMaxDims, path_, "more than ", kMaxDims,
           " dimensions: ", shape_.size());
    int64_t product = 1;
    for (const int64_t size : shape_) {
      if (!__builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product)) continue;
      fail(path_, "the header claims an impossible shape ", shape_text(shape_),
           ": its number of elements overflows 64 bits");
    }
    return std::ranges::count(shape_, 0) > 0 ? 0 : product;
  }

  const fs::path path_;
  InputFile file_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> gz_;
  bool is_packed_ = false;
  std::vector<uint8_t> bytes_;  // what was read: the header, the elements
  size_t header_ = 0;           // its bytes
  std::vector<int64_t> shape_;
};

constexpr const char* kImages = "images of 3 dimensions (count, height, width)";

void require_rank(const fs::path& file, std::span<const int64_t> shape, size_t rank,
                  std::string_view what) {
  expect(shape.size() == rank, file, "expected ", what, ", got the shape ", shape_text(shape));
}

fs::path find_mnist_file(const fs::path& root, std::string_view stem, std::string_view idx) {
  const std::array<std::string, 4> names{
      concat_to_string(stem, '-', idx), concat_to_string(stem, '.', idx),
      concat_to_string(stem, '-', idx, ".gz"), concat_to_string(stem, '.', idx, ".gz")};
  std::error_code ignored;
  for (const std::string& name : names) {
    if (fs::exists(root / name, ignored)) return root / name;
  }
  throw InputError("MNIST's ", stem, " are not in '", root.string(), "'",
                   fs::is_directory(root, ignored) ? "" : " (no such directory)", ": looked for ",
                   names[0], ", ", names[1], ", ", names[2], " and ", names[3],
                   "; download the four files of MNIST, e.g. from "
                   "https://ossci-datasets.s3.amazonaws.com/mnist/, and set data.root=DIR");
}

constexpr double kWhite = 255;

DataInfo info_of(const Shape& size, int64_t classes) {
  return {.input_shape = size, .outputs = classes, .class_names = numbers_below(classes)};
}

void require_size(const DataInfo& info, const Batch& images, const char* what) {
  const Shape ours = info.input_shape, theirs = sample_shape(images.inputs);
  require<InputError>(ours == theirs, "training images are ", ours[1], "x", ours[2], ", ", what,
                      " images are ", theirs[1], "x", theirs[2],
                      ours[0] == theirs[0] ? "" : " of other channels");
}

}  // namespace

Tensor read_idx(const fs::path& file) try {
  return IdxFile(file).elements();
} catch (const std::bad_alloc&) {
  throw OutOfMemoryError(file.string(), ": no memory for the data");
}

Batch read_idx_images(const fs::path& images_file, const fs::path& labels_file,
                      IntArg num_classes) {
  const Tensor images = read_idx(images_file);
  require_rank(images_file, images.shape(), 3, kImages);
  expect(images.numel() > 0, images_file, "no images: the shape is ", shape_text(images.shape()));
  Batch out{images.unsqueeze(1), {}};
  if (labels_file.empty()) return out;
  const Tensor labels = read_idx(labels_file);
  require_rank(labels_file, labels.shape(), 1, "labels of 1 dimension (count)");
  const int64_t count = images.size(0);
  expect(labels.size(0) == count, labels_file, "expected ", count,
         " labels, one for each image in ", images_file.string(), ", got ", labels.size(0));
  out.targets = labels.to(kInt64);
  require_classes(out.targets.span<int64_t>(), num_classes, labels_file);
  return out;
}

Batch load_mnist(const fs::path& root, BoolArg train, IntArg num_classes) {
  const std::string half = train ? "train" : "t10k";
  const fs::path images = find_mnist_file(root, half + "-images", "idx3-ubyte");
  const fs::path labels = find_mnist_file(root, half + "-labels", "idx1-ubyte");
  return read_idx_images(images, labels, num_classes);
}

std::vector<int64_t> mnist_shape(const fs::path& root, BoolArg train) {
  const fs::path file = find_mnist_file(root, train ? "train-images" : "t10k-images", "idx3-ubyte");
  std::vector<int64_t> shape = IdxFile(file).shape();
  require_rank(file, shape, 3, kImages);
  return shape;
}

Tensor pixels_of(const Tensor& bytes) { return bytes.to(kFloat32, {.copy = true}).div_(kWhite); }

DatasetPtr dataset_of(const Batch& images) {
  return std::make_shared<TensorDataset>(Batch{pixels_of(images.inputs), images.targets});
}

Splits splits_of_images(const Batch& train, const Batch& test, int64_t classes) {
  const DataInfo info = info_of(sample_shape(train.inputs), classes);
  require_size(info, test, "test");
  return {info, dataset_of(train), dataset_of(test)};
}

Outline outline_of(int64_t train, int64_t test, int64_t height, int64_t width) {
  const auto zeros_of = [&](int64_t count) {
    return std::make_shared<TensorDataset>(
        Batch{zeros({1, 1, 1, 1}).expand({count, 1, height, width}),
              zeros({1}, {.dtype = kInt64}).expand({count})});
  };
  return {{info_of({1, height, width}, 10), zeros_of(train), zeros_of(test)}};
}

DatasetPtr more_images(const DataInfo& info, const fs::path& file) {
  const Batch images = read_idx_images(file, {}, info.outputs);
  require_size(info, images, file.c_str());
  return dataset_of(images);
}

Tensor scaled_pixels(const Tensor& raw) { return raw.to(kFloat32) / kWhite; }

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

}  // namespace taper::v0::data
