// What a run stood on: env.json.
#pragma once

#include <filesystem>
#include <string>

#include "apps/runner/config/config.h"
#include "framework/device.h"

namespace taper::runner {

// Writes DIR/env.json: versions (Taper, its commit, compiler, oneDNN, CUDA, cuDNN, driver), CPU,
// threads, device, the data files with their sizes and CRC-32, seed, where it was started, and
// command line. Nothing of its own names the machine or its user.
void write_env(const std::filesystem::path& dir, const RunConfig& config, Device device);

// A line for each data file that is no longer what DIR/env.json says: "  FILE: then | now"; nothing
// where all are, or where it says nothing.
std::string changed_data(const std::filesystem::path& dir, const RunConfig& config);

}  // namespace taper::runner
