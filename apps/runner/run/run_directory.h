// The directory of a run: who writes in it, whether a run made it, whether its files are whole.
#pragma once

#include <optional>
#include <string>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/files.h"

namespace taper::v0::runner {

// Where its config changed, all of them (run_metadata.h).
inline constexpr const char* kHistory = "history.json";

// Whether a run made what is in the directory.
bool is_run(const fs::path& dir);

// The lock of the process that writes in a run's directory. It is released at the end of the scope
// or of the process; the file DIR/run.lock stays.
class RunLock {
 public:
  // Waits up to five seconds for another process that holds the lock: one that was killed keeps it
  // until the system has torn it down. Throws InputError, with the id, host and start of the
  // holder, if it still has the lock then.
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
