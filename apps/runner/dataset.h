// The data of a run as tensors on the run's device.
#pragma once

#include <string>
#include <vector>

#include "apps/runner/config.h"
#include "framework/tensor.h"

namespace taper::runner {

// One split: inputs [N, ...] float32, scaled as the model wants them; targets [N] int64 classes, or
// float32 values for regression.
struct Split {
  Tensor inputs, targets;
  int64_t size() const { return inputs.size(0); }
};

struct Dataset {
  Split train, test;
  bool regression = false;
  // Number of classes, or 1 for regression.
  int64_t outputs = 0;
  std::vector<std::string> class_names;
  // Sizes of one input, without the batch: [1, 28, 28] for images, [features] for tables.
  Shape input_shape;
};

// Reads or draws what the config names. Throws InputError for data that are missing or damaged.
Dataset load_dataset(const DataConfig& config, Device device, uint64_t seed);

}  // namespace taper::runner
