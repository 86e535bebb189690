// What a run stood on: env.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "apps/runner/config.h"
#include "framework/device.h"

namespace taper::runner {

// zlib's CRC-32 of a file's bytes; InputError when it cannot be read. "0a1b2c3d".
uint32_t file_crc32(const std::filesystem::path& file);
std::string hex_crc32(uint32_t sum);

// Writes DIR/env.json: versions (Taper, its commit, compiler, oneDNN, CUDA, cuDNN, driver), CPU,
// threads, device, the data files with their sizes and CRC-32, seed and command line. Nothing that
// names the machine or its user.
void write_env(const std::filesystem::path& dir, const RunConfig& config, Device device);

}  // namespace taper::runner
