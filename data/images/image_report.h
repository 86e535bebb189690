// The report of what was understood of a set of images.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/images/image_listing.h"

namespace taper::v0::data {

// The sizes of the images that were looked at, before they are resized.
struct ImageSizes {
  int64_t least_height = 0, least_width = 0;  // of the smallest image by area
  int64_t most_height = 0, most_width = 0;    // of the largest
};

// What the report describes. A part is a list of indices of `listing.images`.
struct ImageView {
  const Images& options;
  const ImageListing& listing;
  const ImageEncoding& encoding;
  const std::array<std::vector<size_t>, kParts>& parts;
  ImageSizes sizes{};
  std::vector<std::string> broken{};  // why each file that was left out is broken
  double seconds = 0;
  std::string how{};  // "stratified by class, seed 0"
};

// Returns lines such as
//
//   photos: 120 images, 2 classes, 320x240 to 640x480, read in 0.31 s
//     class  training  validation  test
//     cat          42           6    12
//     dog          42           6    12
//   left out: 3 .webp (...), 1 .txt
//   broken: 1 left out: photos/cat/7.jpg: the JPEG image is damaged or cut off: ...
//   samples: 128x128 RGB, cut to the middle, normalized by the training images
//   split: 84 training, 12 validation, 24 test, stratified by class, seed 0
std::string report_of(const ImageView& view);

}  // namespace taper::v0::data
