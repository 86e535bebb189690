// Images with labels, and gray images in IDX files, the format of MNIST
// (http://yann.lecun.com/exdb/mnist/): two zero bytes, the element type, the number of dimensions,
// each size as a big-endian uint32, then the elements row by row. Every InputError contains the
// file, what was expected and what was found.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/source.h"
#include "framework/base/describe.h"

namespace taper::v0::data {

// Images as bytes [N, C, H, W], 0 for the background and 255 for full ink, with or without classes
// [N] (int64). For training, pixels are converted to float32 in [0, 1].

// Returns a float32 copy in [0, 1] of the same shape.
Tensor pixels_of(const Tensor& bytes);
// Returns a data set of the images converted by pixels_of(), with the same targets.
DatasetPtr dataset_of(const Batch& images);

// Returns train and test sets with the classes 0 to classes - 1. Throws InputError if image sizes
// differ.
Splits splits_of_images(const Batch& train, const Batch& test, int64_t classes = 10);

// Returns the given numbers of images of that size in 10 classes. They are zeros that use no
// memory.
Outline outline_of(int64_t train, int64_t test, int64_t height, int64_t width);

// Reads the images of an IDX file, without labels, as further samples of a data set. Throws the
// errors of read_idx_images(), and InputError if the shape differs from the data set's samples.
DatasetPtr more_images(const DataInfo& info, const std::filesystem::path& file);
// Converts uint8 pixels to float32 in [0, 1].
Tensor scaled_pixels(const Tensor& raw);

// Reads an IDX file of unsigned bytes (type code 0x08) as uint8 of the file's shape. The file may
// be gzip-compressed, which is detected from its first bytes. Memory grows with the bytes that are
// present, not with the size that the header claims. Throws InputError if the file is missing, a
// directory, empty, truncated, or followed by extra bytes. Also throws InputError if it has another
// format or element type, more than eight dimensions, sizes whose product overflows, or a damaged
// gzip stream.
Tensor read_idx(const std::filesystem::path& file);

// Reads images of shape (count, height, width) with labels of shape (count), each in [0,
// num_classes). Without a labels file the batch has no targets. Throws the errors of read_idx(),
// and InputError for another number of dimensions, no images, different counts, or a label out of
// range.
Batch read_idx_images(const std::filesystem::path& images_file,
                      const std::filesystem::path& labels_file, IntArg num_classes = 10);

// Finds and reads one part of MNIST under `root`: train-images-idx3-ubyte and
// train-labels-idx1-ubyte, or t10k-* if not `train`. The names may also be of the form
// *.idx3-ubyte, and the files may have the suffix .gz. Throws the errors of read_idx_images(). For
// a missing file throws InputError with the names that were tried and the source of the data.
Batch load_mnist(const std::filesystem::path& root, BoolArg train, IntArg num_classes = 10);
// Returns (count, height, width) of that part's images. Reads only the header.
std::vector<int64_t> mnist_shape(const std::filesystem::path& root, BoolArg train);

// Four IDX files as a data source. The number of classes follows from the training labels. Throws
// the errors of read_idx_images() and count_classes(), and InputError if image sizes differ.
struct Idx {
  std::string train_images, train_labels, test_images, test_labels;

  template <class V> void describe(V& v) {
    v("train_images", train_images, kPath, "IDX file of the training images, plain or .gz")
        .required();
    v("train_labels", train_labels, kPath, "IDX file of the training labels").required();
    v("test_images", test_images, kPath, "IDX file of the test images").required();
    v("test_labels", test_labels, kPath, "IDX file of the test labels").required();
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

// MNIST as a data source, read by load_mnist().
struct Mnist {
  std::string root;

  template <class V> void describe(V& v) {
    v("root", root, kPath, "directory of the four IDX files").required();
  }

  Splits load(uint64_t seed) const;
  // Reads only the headers of the files.
  Outline outline(uint64_t seed) const;
  std::vector<DataFile> files() const { return files_in(root); }
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const {
    return more_images(info, file);
  }
  static constexpr DType raw_dtype = kUInt8;
  Tensor prepared(const DataInfo&, const Tensor& raw) const { return scaled_pixels(raw); }
};

}  // namespace taper::v0::data
