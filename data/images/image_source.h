// Images as people have them: a folder for each class, folders for the parts, or a table of file
// names and labels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/images/image_encoding.h"
#include "data/source.h"
#include "data/tables/table.h"
#include "framework/base/describe.h"
#include "framework/base/text_enum.h"

namespace taper::v0::data {

// A table with the labels of images.
struct ImageLabels {
  std::string file;
  std::string path{};  // column; empty: the first whose first cell names a file
  std::vector<std::string> target{};
  std::string suffix{};
  Table::Task task = Table::Task::kAuto;

  template <class V> void describe(V& v) {
    v("file", file, kPath, "table with a row for each image").required();
    v("path", path,
      "column of the file names, relative to the folder of images; default: the first column whose "
      "first cell names a file");
    v("target", target, "columns to predict; several are values, or labels of two values each")
        .required();
    v("suffix", suffix, "end of the file names that the column lacks, such as .jpg");
    v("task", task,
      "kind of the target; auto: classes, unless it has numbers other than a few integers");
  }
};

// How images are divided if folders do not say it.
struct ImageSplit {
  struct ByValues {
    enum class Value : uint8_t { kStratify, kRandom };
    static constexpr Value kStratify = Value::kStratify, kRandom = Value::kRandom;
    static constexpr const char* kOption = "by";
    static constexpr const char* kWords[] = {"stratify", "random"};
  };
  using By = TextEnum<ByValues>;

  // Fractions of the images as "0.1", or folders. Not given: 0.1 of more than 200 images, otherwise
  // nothing; and 0.2. Not used for a part that has a folder.
  std::optional<std::string> validation{}, test{};
  By by = By::kStratify;
  uint64_t seed = 0;

  template <class V> void describe(V& v) {
    v("validation", validation,
      "fraction of the images that chooses the weights to save, or a folder; default: the folder "
      "val/, or 0.1 of more than 200 images, otherwise 0")
        .of_form(TableSplit::kPartForm, TableSplit::is_part);
    v("test", test,
      "fraction of the images for the test, or a folder; default: the folder test/, or 0.2")
        .of_form(TableSplit::kPartForm, TableSplit::is_part);
    v("by", by, "stratify: at random, with the same share of every class in each part");
    v("seed", seed, "seed of the random division; independent of the run's seed");
  }
};

// The data type `images`. `path` has a folder of PNG and JPEG files for each class. If it has the
// folders train/ (training/) and one of val/ (valid/, validation/) and test/ (testing/), in upper
// or lower case, these are the parts. If there is no test/, val/ is the test part. With `labels`,
// a table names the files and their labels.
struct Images {
  struct NormalizeValues {
    enum class Value : uint8_t { kAuto, kImagenet, kNone };
    static constexpr Value kAuto = Value::kAuto, kImagenet = Value::kImagenet, kNone = Value::kNone;
    static constexpr const char* kOption = "normalize";
    static constexpr const char* kWords[] = {"auto", "imagenet", "none"};
  };
  using Normalize = TextEnum<NormalizeValues>;

  struct InMemoryValues {
    enum class Value : uint8_t { kAuto, kAlways, kNever };
    static constexpr Value kAuto = Value::kAuto, kAlways = Value::kAlways, kNever = Value::kNever;
    static constexpr const char* kOption = "in_memory";
    static constexpr const char* kWords[] = {"auto", "always", "never"};
  };
  using InMemory = TextEnum<InMemoryValues>;

  std::string path;
  std::optional<ImageLabels> labels{};
  std::string size = "auto";
  std::optional<bool> grey{};
  ImageFit fit = ImageFit::kCrop;
  Normalize normalize = Normalize::kAuto;
  std::string broken = "1%";
  ImageSplit split{};
  InMemory in_memory = InMemory::kAuto;

  template <class V> void describe(V& v) {
    v("path", path, kPath,
      "directory with a folder of PNG and JPEG files for each class, or with such directories "
      "named train/, val/ and test/, or with the files of a table of labels")
        .required();
    v("labels", labels, "table of file names and labels; default: folders are the classes");
    v("size", size,
      "side of the samples, such as 64, or height and width, such as 48x64; auto: the size of the "
      "images if it is the same for all and at most 128x128, otherwise a side of at most 128")
        .of_form("auto, a number from 1 to 16384, or two as 48x64", is_size);
    v("grey", grey, "one channel instead of three; default: if all images are gray");
    v("fit", fit,
      "how an image of another aspect ratio fits: cut to its middle, padded with black, or "
      "distorted");
    v("normalize", normalize,
      "each channel becomes (x - mean) / standard deviation of the training images; imagenet: of "
      "ImageNet, for weights that were trained on it; none: x in [0, 1]");
    v("broken", broken,
      "number of broken or missing images that are left out, such as 3, or a share, such as 1%; "
      "more are an error")
        .of_form("a number of at least 0, or a percentage from 0% to 100%", is_limit);
    v("split", split, "training, validation and test part");
    v("in_memory", in_memory,
      "keep the resized images in memory, instead of decoding them in every epoch; auto: if they "
      "need at most 2 GiB");
  }

  // Returns std::nullopt if a table of labels decides.
  std::optional<Task> learns() const;
  // Decodes every image once, to find broken ones before the training.
  Splits load(uint64_t seed) const;
  // Reads only headers, so that broken images are not found.
  Outline outline(uint64_t seed) const;
  std::vector<DataFile> files() const;
  // Reads a further image, a directory of images (with the labels of its class folders), or a table
  // like that of the labels.
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const;
  // Reads all images without their labels.
  DatasetPtr unlabeled(const DataInfo& info, const std::filesystem::path& file) const;
  // Returns the name of each file, unless it is a single one.
  KeptColumns kept(const DataInfo& info, const std::filesystem::path& file) const;
  static constexpr DType raw_dtype = kUInt8;
  Tensor prepared(const DataInfo& info, const Tensor& raw) const;

  static bool is_size(const std::string& text);
  static bool is_limit(const std::string& text);
};

}  // namespace taper::v0::data
