// Grey images with labels: what every image source (drawn digits, IDX files) hands to training.
#pragma once

#include <cstdint>
#include <vector>

namespace taper::runner {

struct Images {
  int64_t count = 0;
  int64_t height = 0;
  int64_t width = 0;
  std::vector<uint8_t> pixels{};  // (count, height, width) row by row; 0 background, 255 full ink
  std::vector<int64_t> labels{};  // (count)
};

}  // namespace taper::runner
