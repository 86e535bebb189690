// Pictures in PNG and JPEG files, and folders of them. Built with libpng and libjpeg where CMake
// finds them (TAPER_IMAGES); else the functions throw an Error that says so.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/folders.h"
#include "data/images/images.h"

namespace taper::v0::data {

// What is read: what the file has (palettes become colours), or one or three channels, where
// transparency is left out.
enum class ImageMode { kUnchanged, kGray, kRgb };

// uint8 [C, H, W] of 1 (grey), 2 (grey and alpha), 3 (RGB) or 4 (RGBA) channels; 16 bits are
// rounded to 8. The format is told by the first bytes (torchvision.io.read_image). InputError: no
// such file, another format, damaged, cut off, or a header that claims more pixels than such a file
// can hold.
Tensor read_image(const std::filesystem::path& file, ImageMode mode = ImageMode::kUnchanged);

// uint8 [C, H, W] of 1, 2, 3 or 4 channels, on the CPU (torchvision.io.write_png). ValueError:
// another tensor; Error: the file cannot be written.
void write_png(const Tensor& image, const std::filesystem::path& file);

// Images [..., C, H, W] (floating) as height x width: means of areas where that is smaller,
// bilinear where it is larger.
Tensor resize(const Tensor& images, int64_t height, int64_t width);

// How images are read.
struct ImageFolderOptions {
  ImageMode mode = ImageMode::kRgb;
  std::optional<int64_t> size{};  // height and width that all are resized to; none: as they are
};

// A folder for each class, with its images in it or below it: samples of float32 [C, H, W] in
// [0, 1] and the number of the folder, both in the order of their names
// (torchvision.datasets.ImageFolder). Links to folders are followed. Only .png, .jpg and .jpeg
// files are samples. Other files are counted as left out, and so is what files_below() leaves out.
// Images are read when get() asks for them.
class ImageFolder : public MapDataset {
 public:
  // InputError: no such directory, a class without images, or no class.
  explicit ImageFolder(const std::filesystem::path& root, const ImageFolderOptions& options = {});

  int64_t size() const override { return std::ssize(files_); }
  Batch sample(int64_t i) const override;

  // Returns the names of the class folders, as name_of() shows them.
  const std::vector<std::string>& classes() const { return classes_; }
  const std::vector<std::filesystem::path>& files() const { return files_; }  // of each sample
  const Tensor& targets() const { return targets_; }                          // [N] int64
  const LeftOut& left_out() const { return left_out_; }

 private:
  ImageFolderOptions options_;
  std::vector<std::string> classes_;
  std::vector<std::filesystem::path> files_;
  Tensor targets_;
  LeftOut left_out_;
};

// The folder as a type of data: float32 [C, size, size]. Where the root has the folder train/ and
// one of test/, val/, valid/ and validation/, in this order, these are the parts, each with a
// folder for each class. Else the root has the classes, and the test is a share of each class.
// InputError: as ImageFolder; other classes in the test. DataError: one class.
struct Images {
  std::string root;
  std::optional<std::string> test_root{};
  double test_fraction = 0.2;
  int64_t size = 64;
  bool grey = false;

  template <class V> void describe(V& v) {
    v("root", root, kPath,
      "directory with a folder of PNG and JPEG files for each class, or with such directories "
      "train/ and test/ or val/")
        .required();
    v("test_root", test_root, kPath, "directory with the same classes for the test");
    v("test_fraction", test_fraction, kBetweenZeroAndOne,
      "part of each class's images that is kept for the test")
        .idle_when("a test_root is given", [this] { return test_root.has_value(); });
    v("size", size, {1, 1 << 14}, "height and width that images are resized to");
    v("grey", grey, "one channel instead of three");
  }

  Splits load(uint64_t seed) const;
  std::vector<DataFile> files() const;
  // One image, or a directory of them.
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const;
  static constexpr DType raw_dtype = kUInt8;
  Tensor prepared(const DataInfo&, const Tensor& raw) const { return scaled_pixels(raw); }

 private:
  ImageFolderOptions reading() const { return {grey ? ImageMode::kGray : ImageMode::kRgb, size}; }
};

}  // namespace taper::v0::data
