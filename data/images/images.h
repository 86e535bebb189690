// Images with labels, and files of grey ones in IDX, the format of MNIST
// (http://yann.lecun.com/exdb/mnist/): two zero bytes, the element type, the number of dimensions,
// each size as a big-endian uint32, then the elements row by row. Every InputError names the file,
// what was expected and what was seen.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/source.h"
#include "framework/base/describe.h"

namespace taper::v0::data {

// Images are bytes [N, C, H, W], 0 for the background and 255 for full ink, with classes [N]
// (int64) or none. To be learned from, pixels become float32 in [0, 1].

// A copy in [0, 1], of the same shape.
Tensor pixels_of(const Tensor& bytes);
// A set of such copies, with the same targets.
DatasetPtr dataset_of(const Batch& images);

// Classes 0 .. classes - 1. InputError: images of different sizes.
Splits splits_of_images(const Batch& train, const Batch& test, int64_t classes = 10);

// So many images of that size in 10 classes, all of them zeros that take no memory.
Outline outline_of(int64_t train, int64_t test, int64_t height, int64_t width);

// Returns the images of an IDX file, without labels, as further samples of a data set. InputError:
// as read_idx_images; also another shape than the data set's samples have.
DatasetPtr more_images(const DataInfo& info, const std::filesystem::path& file);
// Returns uint8 pixels as float32 in [0, 1].
Tensor scaled_pixels(const Tensor& raw);

// uint8 of the file's shape: reads an IDX file of unsigned bytes (type code 0x08), plain or gzip;
// its first bytes, not its name, say which. Memory grows with the bytes that are there, never with
// what the header claims. InputError: no such file, a directory, empty, another format, another
// element type, cut off, bytes left over, more than eight dimensions, sizes whose product
// overflows, a damaged gzip stream.
Tensor read_idx(const std::filesystem::path& file);

// Reads images of shape (count, height, width) with labels of shape (count), each in
// [0, num_classes); without labels when no file of them is named. InputError: as read_idx; also
// another rank, no images, different counts, or a label out of range.
Batch read_idx_images(const std::filesystem::path& images_file,
                      const std::filesystem::path& labels_file, IntArg num_classes = 10);

// Finds and reads one half of MNIST under `root`: train-images-idx3-ubyte and
// train-labels-idx1-ubyte (t10k-* when not `train`), also as *.idx3-ubyte, plain or .gz.
// InputError: as read_idx_images; also a missing file, with the names looked for and the source.
Batch load_mnist(const std::filesystem::path& root, BoolArg train, IntArg num_classes = 10);
// (count, height, width) of that half's images, of which the header alone is read.
std::vector<int64_t> mnist_shape(const std::filesystem::path& root, BoolArg train);

// Four files as a set of as many classes as the labels of the training count. InputError: as
// read_idx_images; also sizes that differ. DataError: as count_classes.
struct Idx {
  std::string train_images, train_labels, test_images, test_labels;

  template <class V> void describe(V& v) {
    v("train_images", train_images, kPath, "IDX file, plain or .gz").required();
    v("train_labels", train_labels, kPath, "its labels").required();
    v("test_images", test_images, kPath, "the same for the test").required();
    v("test_labels", test_labels, kPath, "its labels").required();
  }

  Splits load(uint64_t seed) const;
  std::vector<DataFile> files() const {
    return files_of({train_images, train_labels, test_images, test_labels});
  }
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const {
    return more_images(info, file);
  }
  static constexpr DType raw_dtype = kUInt8;
  Tensor prepared(const DataInfo&, const Tensor& raw) const { return scaled_pixels(raw); }
};

// As load_mnist reads it.
struct Mnist {
  std::string root;

  template <class V> void describe(V& v) {
    v("root", root, kPath, "directory of the four IDX files").required();
  }

  Splits load(uint64_t seed) const;
  // Reads headers alone.
  Outline outline(uint64_t seed) const;
  std::vector<DataFile> files() const { return files_in(root); }
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const {
    return more_images(info, file);
  }
  static constexpr DType raw_dtype = kUInt8;
  Tensor prepared(const DataInfo&, const Tensor& raw) const { return scaled_pixels(raw); }
};

}  // namespace taper::v0::data
