// CIFAR-10 and CIFAR-100 in binary form (https://www.cs.toronto.edu/~kriz/cifar.html): records of a
// label, or of a coarse and a fine one, and 3 x 32 x 32 bytes of red, green and blue.
#pragma once

#include "data/images/images.h"
#include "framework/base/text_enum.h"

namespace taper::v0::data {

// CIFAR-10; the 100 fine or 20 coarse classes of CIFAR-100
struct CifarLabelsValues {
  enum class Value : uint8_t { kTen, kFine, kCoarse };
  static constexpr Value kTen = Value::kTen, kFine = Value::kFine, kCoarse = Value::kCoarse;
  static constexpr const char* kOption = "labels";
  static constexpr const char* kWords[] = {"cifar10", "fine", "coarse"};
};
using CifarLabels = TextEnum<CifarLabelsValues>;

constexpr int64_t classes_of(CifarLabels labels) {
  return labels == CifarLabels::kTen ? 10 : labels == CifarLabels::kFine ? 100 : 20;
}

// Reads images [N, 3, 32, 32] (uint8) with classes [N] (int64). Throws InputError if the file is
// missing, is empty, does not consist of whole records, or has a label out of range.
Batch read_cifar(const std::filesystem::path& file, CifarLabels labels = CifarLabels::kTen);

// Reads one part of the set from a directory: data_batch_1.bin to data_batch_5.bin or
// test_batch.bin of CIFAR-10; train.bin or test.bin of CIFAR-100. Throws the errors of
// read_cifar().
Batch load_cifar(const std::filesystem::path& root, BoolArg train,
                 CifarLabels labels = CifarLabels::kTen);

// CIFAR in a directory, as a data source. The class names are read from the list of names, if that
// is in the directory.
struct Cifar {
  std::string root;
  CifarLabels labels = CifarLabels::kTen;

  template <class V> void describe(V& v) {
    v("root", root, kPath, "directory of the .bin files").required();
    v("labels", labels, "CIFAR-10, or CIFAR-100 with fine or coarse labels");
  }

  Splits load(uint64_t seed) const;
  std::vector<DataFile> files() const { return files_in(root); }
  // Reads a further file of records as samples of the same classes.
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const;
  static constexpr DType raw_dtype = kUInt8;
  Tensor prepared(const DataInfo&, const Tensor& raw) const { return scaled_pixels(raw); }
};

}  // namespace taper::v0::data
