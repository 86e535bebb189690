// Images in PNG and JPEG files, and folders of them. Requires libpng and libjpeg, which CMake looks
// for (TAPER_IMAGES); otherwise the functions throw Error.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/folders.h"
#include "framework/base/text_enum.h"

namespace taper::v0::data {

// The channels of the result. kUnchanged keeps those of the file (palettes become colors). The
// other modes give one or three channels without transparency.
struct ImageModeValues {
  enum class Value : uint8_t { kUnchanged, kGray, kRgb };
  static constexpr Value kUnchanged = Value::kUnchanged, kGray = Value::kGray, kRgb = Value::kRgb;
  static constexpr const char* kOption = "mode";
  static constexpr const char* kWords[] = {"unchanged", "gray", "rgb"};
};
using ImageMode = TextEnum<ImageModeValues>;

// Reads uint8 [C, H, W] with 1 (gray), 2 (gray and alpha), 3 (RGB) or 4 (RGBA) channels. 16-bit
// samples are rounded to 8 bits. The first bytes determine the format (torchvision.io.read_image).
// Throws InputError if the file is missing, of another format, damaged or truncated, or if its
// header claims more pixels than the file can hold.
Tensor read_image(const std::filesystem::path& file, ImageMode mode = ImageMode::kUnchanged);

// Returns whether the name ends in .png, .jpg or .jpeg, in upper or lower case.
bool has_image_name(const std::filesystem::path& file);

// Writes uint8 [C, H, W] with 1 to 4 channels from the CPU (torchvision.io.write_png). Throws
// ValueError for any other tensor, and Error if the file cannot be written.
void write_png(const Tensor& image, const std::filesystem::path& file);

// Resizes floating-point images [..., C, H, W] to height x width. A dimension that shrinks is
// averaged over areas. A dimension that grows is interpolated linearly.
Tensor resize(const Tensor& images, int64_t height, int64_t width);

// Options for reading images.
struct ImageFolderOptions {
  ImageMode mode = ImageMode::kRgb;
  // height and width to which all images are resized; std::nullopt: unchanged
  std::optional<int64_t> size{};
};

// A data set of a folder with one subfolder per class, which contains the images of the class.
// Samples are float32 [C, H, W] in [0, 1]. A sample's class is the number of its folder. Folders
// and images are sorted by name (torchvision.datasets.ImageFolder). Links to folders are followed.
// Only .png, .jpg and .jpeg files are samples. Other files and the entries that files_below() skips
// are counted as left out. Images are read when get() requests them.
class ImageFolder : public MapDataset {
 public:
  // Throws InputError if the directory is missing, a class has no images, or there is no class.
  explicit ImageFolder(const std::filesystem::path& root, const ImageFolderOptions& options = {});

  int64_t size() const override { return std::ssize(files_); }
  Batch sample(int64_t i) const override;

  // Returns the names of the class folders in the form of name_of().
  const std::vector<std::string>& classes() const { return classes_; }
  const std::vector<std::filesystem::path>& files() const { return files_; }  // file of each sample
  const Tensor& targets() const { return targets_; }                          // [N] int64
  const SkippedFiles& left_out() const { return left_out_; }

 private:
  ImageFolderOptions options_;
  std::vector<std::string> classes_;
  std::vector<std::filesystem::path> files_;
  Tensor targets_;
  SkippedFiles left_out_;
};

}  // namespace taper::v0::data
