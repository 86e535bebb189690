// What is done with a run once it is trained; its directory is all that is needed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/runner/config/config.h"
#include "apps/runner/data/data_info.h"
#include "modules/module.h"

namespace taper::runner {

struct SavedRun {
  std::filesystem::path dir;
  RunConfig config;
  DataInfo info;
  Device device;
  std::unique_ptr<Module> model;  // in evaluation mode
  int64_t step = -1;              // whose weights it has; -1: not known
};
// Reads config.yaml (with overrides as device=cpu), data.json and model.safetensors, or the newest
// checkpoint of a run that did not end. Throws InputError for what is missing or damaged
// (verify_run).
SavedRun load_run(const std::filesystem::path& dir, const std::vector<std::string>& overrides);

// Each of these gives text for stdout.

// The metrics on the run's test data or, where it is given, on a file of the same kind.
std::string evaluate_run(const SavedRun& run, const std::filesystem::path& data = {});

// CSV: for each row or image its prediction, and the probability of each class ("p_NAME"). Values
// are in the unit of the training file.
std::string predict(const SavedRun& run, const std::filesystem::path& file);

struct GenerateOptions {
  std::string prompt;
  int64_t tokens = 200;
  double temperature = 1;  // 0: always the likeliest token
  int64_t top_k = 0;       // 0: all
  uint64_t seed = 0;
};
// The prompt and what the model writes after it. Throws ConfigError for a model of anything but
// text, and for a prompt that its vocabulary cannot spell.
std::string generate(const SavedRun& run, const GenerateOptions& options);

}  // namespace taper::runner
