// Images that a run did not train on: to predict, or to evaluate if they have labels.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/images/image_source.h"

namespace taper::v0::data {

struct FurtherImages {
  std::vector<std::filesystem::path> files{};
  std::vector<std::string> names{};  // as predictions show them
  Tensor targets{};
  std::string note{};
};

// Finds the images in a file, a folder, or a table like that of the labels. Throws the errors of
// Images::more().
FurtherImages further_images(const DataInfo& info, const std::filesystem::path& file,
                             const Images& options);

// Returns how the images of the run become samples. Throws InputError, with `file`, if the data of
// the run were no images.
const ImageEncoding& image_encoding_of(const DataInfo& info, const std::filesystem::path& file);

}  // namespace taper::v0::data
