// The directory of a run: who writes in it, whether a run made it, whether its files are whole, and
// under which configs its steps ran.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/config/config.h"

namespace taper::runner {

// Held by the process that writes in a run's directory; ends with the scope or the process. The
// file DIR/run.lock stays.
class RunLock {
 public:
  // InputError: another process has it, with its id, host and start.
  explicit RunLock(const std::filesystem::path& dir);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int file_ = -1;
};

// Whether a run can be made there: nothing is there, an empty directory, or that of an earlier run,
// which is then locked. InputError: anything else.
std::optional<RunLock> lock_earlier_run(const std::filesystem::path& dir);
// Makes the directory, locked and else empty. An earlier run is kept: renamed to DIR.1, DIR.2, ...
// first. Throws DiskError when it cannot be made.
void make_run_directory(const std::filesystem::path& dir, std::optional<RunLock>& lock);

// --- checksums ---

// Lists the run's files in DIR/CRC32; those that grow or come at its end when it is finished.
void write_run_checksums(const std::filesystem::path& dir, bool is_finished);
// Every verb that reads a run calls this first. InputError: it is none, or a file is not as the run
// wrote it. Of one without a list (of an older version) it says so and goes on.
void verify_run(const std::filesystem::path& dir);
// `taper verify`: text for stdout on a run and all its checkpoints, or on one checkpoint;
// InputError that names all that is damaged.
std::string verify(const std::filesystem::path& path);

// --- configs ---

// The config in a run's directory, or in a YAML file (which may be a run's), with overrides. Paths
// of data are looked for in the folder where the run was started, unless an override sets data.
RunConfig load_run_config(const std::filesystem::path& run,
                          const std::vector<std::string>& overrides = {});
// That folder as env.json has it, seen from the run's directory, so that both may move together.
std::string folder_of_data(const std::filesystem::path& dir, const RunConfig& config);

// A part of a run: its config, and the step before which another one took over; 0: none did.
struct Phase {
  RunConfig config;
  int64_t until = 0;
};
// All parts, the last of which has the config of config.yaml.
std::vector<Phase> phases_of_run(const std::filesystem::path& run);
// A run whose steps so far had the YAML `before` goes on after `step` with `after`: both are kept
// in DIR/history.json.
void note_phase(const std::filesystem::path& dir, int64_t step, const std::string& before,
                const std::string& after);

}  // namespace taper::runner
