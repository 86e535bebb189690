// What the gate's commands share: runs made again, and lists of what differs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/runner/config/config.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/train/observer.h"

namespace taper::runner {

// An empty directory that goes with this object. Those of processes that were killed go first.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

// Of a run's directory, whose files are verified, or of a YAML file.
std::vector<Phase> phases_to_run_again(const std::filesystem::path& run);

// Trains into `dir`, quietly, as the run did: where it went on with another config, so does this.
// Only one phase's result counts: of the last, or of that which the observer ended.
void run_again(const std::vector<Phase>& phases, const std::filesystem::path& dir,
               Observer* observer);

// A line for each value that differs, "  train.epochs: 3 | 5"; nothing where none does.
std::string config_differences(const std::string& a, const std::string& b);
// Of the env.json of two runs, without their command lines.
std::string env_differences(const std::filesystem::path& a, const std::filesystem::path& b);
// Of the model.safetensors of two runs, in words; nothing where they are the same or one has none.
std::string weights_difference(const std::filesystem::path& a, const std::filesystem::path& b);
// The metrics.jsonl of two runs: the first line that differs. A run that ended early differs
// nowhere, but is shorter.
struct MetricsDifference {
  int64_t line = 0;  // from 1; 0: none
  std::string a{}, b{};
  int64_t more = 0;  // bytes for which b goes on behind a that differs nowhere; negative: a does
};
std::string metrics_of(const std::filesystem::path& run);
MetricsDifference compare_metrics(const std::string& a, const std::string& b);

}  // namespace taper::runner
