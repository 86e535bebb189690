// How image files become samples and labels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/tables/table_encoding.h"
#include "framework/base/text_enum.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::data {

// How an image of another aspect ratio fills the sample. kCrop: its largest centered part of that
// ratio. kPad: all of it, between black stripes. kSquash: all of it, distorted.
struct ImageFitValues {
  enum class Value : uint8_t { kCrop, kPad, kSquash };
  static constexpr Value kCrop = Value::kCrop, kPad = Value::kPad, kSquash = Value::kSquash;
  static constexpr const char* kOption = "fit";
  static constexpr const char* kWords[] = {"crop", "pad", "squash"};
};
using ImageFit = TextEnum<ImageFitValues>;

struct ImageEncoding {
  int64_t channels = 3, height = 0, width = 0;
  ImageFit fit = ImageFit::kCrop;
  // Each channel of a sample is (x - mean) / std, where x is in [0, 1]. Empty: x itself.
  std::vector<double> mean{}, std{};
  // The columns of a table of labels. They are empty if folders are the classes.
  std::string path_column{}, suffix{};
  std::vector<TargetColumn> targets{};

  int64_t pixels() const { return channels * height * width; }
};

// Reads an image as uint8 [C, height, width]. EXIF's orientation is applied. A JPEG is decoded at
// 1/2, 1/4 or 1/8 if that is still at least as large as needed. Dimensions that shrink are averaged
// over areas, those that grow are interpolated linearly. Throws the errors of read_image().
Tensor read_sample_image(const std::filesystem::path& file, const ImageEncoding& encoding);

// Converts uint8 [N, C, H, W] to float32 in [0, 1], and normalizes it by the encoding. On any
// device.
Tensor normalized_pixels(const Tensor& raw, const ImageEncoding& encoding);

}  // namespace taper::v0::data
