// Decoding and encoding of PNG and JPEG by libpng and libjpeg, for data/images/image_files.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/images/image_files.h"

namespace taper::v0::data {

// Rows of pixels with interleaved channels.
struct Pixels {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> bytes{};
};

// Decodes an image. `name` is the file's name, for messages. Throws InputError if the file is
// damaged, truncated, or claims an implausible size. A JPEG is decoded at 1 / `denominator` (1, 2,
// 4 or 8) of its height and width, rounded up, which needs only that fraction of the memory, and
// less time.
Pixels decode_png(std::string_view file, ImageMode mode, const std::string& name);
Pixels decode_jpeg(std::string_view file, ImageMode mode, const std::string& name,
                   int denominator = 1);
std::string encode_png(const Pixels& pixels);

}  // namespace taper::v0::data
