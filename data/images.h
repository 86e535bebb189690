// Grey images with labels: what every image source (drawn digits, IDX files) hands to training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/source.h"

namespace taper::data {

struct Images {
  int64_t count = 0;
  int64_t height = 0;
  int64_t width = 0;
  std::vector<uint8_t> pixels{};  // (count, height, width) row by row; 0 background, 255 full ink
  std::vector<int64_t> labels{};  // (count); none: not known
};

// Classes 0 .. classes - 1; pixels become [0, 1]. InputError: images of different sizes.
Splits splits_of(const Images& train, const Images& test, int64_t classes = 10);

// So many images of that size, all of them zeros that take no memory.
Outline outline_of(int64_t train, int64_t test, int64_t height, int64_t width);

// Sources whose further samples are IDX files of images.
struct ImageSource {
  DatasetPtr more(const DataInfo& info, const std::filesystem::path& file) const;
};

}  // namespace taper::data
