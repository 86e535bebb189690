// What the gate's commands share: runs made again, and lists of what differs.
#pragma once

#include <filesystem>
#include <string>

#include "apps/runner/config.h"
#include "apps/runner/observer.h"

namespace taper::runner {

// An empty directory that goes with this object.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The config of a run's directory, or of a YAML file.
RunConfig config_of_run(const std::filesystem::path& run);

// Trains into `dir`, quietly.
void run_again(const RunConfig& config, const std::filesystem::path& dir, Observer* observer);

// A line for each value that differs, "  train.epochs: 3 | 5"; nothing where none does.
std::string config_differences(const std::string& a, const std::string& b);
// Of the env.json of two runs, without their command lines.
std::string env_differences(const std::filesystem::path& a, const std::filesystem::path& b);
// The metrics.jsonl of two runs: the first line that differs. A run that ended early differs
// nowhere, but is shorter.
struct MetricsDifference {
  int64_t line = 0;  // from 1; 0: none
  std::string a{}, b{};
  int64_t more = 0;  // bytes for which b goes on behind a that differs nowhere; negative: a does
};
MetricsDifference compare_metrics(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace taper::runner
