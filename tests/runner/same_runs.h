// Compares the bytes of two runs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/runner/run/checkpoint.h"
#include "tests/runner/run_process.h"

namespace taper::v0::runner {

// Expects that the runs in both directories have the same metrics, weights, optimizer state and, if
// the data have classes or values, details of the evaluation.
inline void expect_same_runs(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::vector<std::filesystem::path> files{"metrics.jsonl", "model.safetensors"};
  if (std::filesystem::exists(a / "evaluation.json")) files.emplace_back("evaluation.json");
  for (const char* name : {"model.safetensors", "optimizer.safetensors"})
    files.push_back(std::filesystem::path("checkpoints") / newest_checkpoint(a)->filename() / name);
  for (const std::filesystem::path& file : files) {
    const std::string bytes = read_bytes(a / file);
    EXPECT_NE(bytes, "") << a / file;
    EXPECT_TRUE(bytes == read_bytes(b / file)) << a << " and " << b << " differ in " << file;
  }
}

}  // namespace taper::v0::runner
