// The header of an image file, which is read without decoding the pixels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "framework/base/namespace.h"

namespace taper::v0::data {

struct ImageHeader {
  int64_t height = 0, width = 0;  // as stored, before the orientation is applied
  bool is_gray = false;           // one channel of gray, with or without transparency
  // EXIF's orientation, 1 to 8 (JEITA CP-3451, tag 0x0112). 1: rows are stored from the top,
  // columns from the left. From 5 on, height and width are exchanged when the image is shown.
  int orientation = 1;
};

// Returns the header of a PNG or JPEG file that begins with these bytes. Returns std::nullopt if it
// is not complete within them, or if they are of another format.
std::optional<ImageHeader> image_header(std::string_view bytes);

// Reads the header of a file. Throws InputError if the file cannot be read, is of another format,
// or has a damaged header.
ImageHeader read_image_header(const std::filesystem::path& file);

// Returns the name of the format of a file that begins with these bytes, such as "WebP"; an empty
// text if it is PNG, JPEG or unknown.
std::string name_of_other_format(std::string_view bytes);

// Returns a command that converts files with this extension (".webp") to PNG; an empty text for an
// extension that is no image format.
std::string conversion_command(const std::string& extension);

// Throws InputError for a file that is neither PNG nor JPEG. `bytes` are its first ones.
[[noreturn]] void refuse_image_format(std::string_view bytes, const std::string& name);

}  // namespace taper::v0::data
