// A training run: data, model, optimizer and loop as one config says.
#pragma once

#include <filesystem>

#include "apps/runner/config.h"

namespace taper::runner {

struct TrainResult {
  int64_t steps = 0;
  double test_loss = 0;
  double test_accuracy = -1;  // -1 for regression
};

// Trains and writes DIR/config.yaml, metrics.jsonl, timing.jsonl and model.safetensors. The same
// config on the same device gives the same bytes of metrics.jsonl. Throws ConfigError, InputError,
// DeviceUnavailable, or Diverged.
TrainResult train(const RunConfig& config, const std::filesystem::path& dir);

}  // namespace taper::runner
