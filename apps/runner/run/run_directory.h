// The directory of a run: who writes in it, whether a run made it, whether its files are whole.
#pragma once

#include <optional>
#include <string>

#include "apps/runner/run/errors.h"
#include "apps/runner/run/files.h"

namespace taper::v0::runner {

// Where its config changed, all of them (facts.h).
inline constexpr const char* kHistory = "history.json";

// Whether a run made what is in the directory.
bool is_run(const fs::path& dir);

// Held by the process that writes in a run's directory; ends with the scope or the process. The
// file DIR/run.lock stays.
class RunLock {
 public:
  // InputError: another process has it, with its id, host and start.
  explicit RunLock(const fs::path& dir);
  ~RunLock();

 private:
  Descriptor file_;
};

// Whether a run can be made there: nothing is there, an empty directory, or that of an earlier run,
// which is then locked. InputError: anything else.
void lock_earlier_run(const fs::path& dir, std::optional<RunLock>& lock);
// Makes the directory, locked and else empty. An earlier run is kept: renamed to DIR.1, DIR.2, ...
// first. Throws DiskError when it cannot be made.
void make_run_directory(const fs::path& dir, std::optional<RunLock>& lock);

// --- checksums ---

// Lists the run's files in DIR/CRC32; those that grow or come at its end when it is finished.
void write_run_checksums(const fs::path& dir, bool is_finished);
// Every verb that reads a run calls this first. InputError: it is none, or a file is not as the run
// wrote it. Of one without a list (of an older version) it says so and goes on.
void verify_run(const fs::path& dir);
// `taper verify`: text for stdout on a run and all its checkpoints, or on one checkpoint;
// InputError that names all that is damaged.
std::string verify(const fs::path& path);

}  // namespace taper::v0::runner
