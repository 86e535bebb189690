// The directory of a run: its lock, its creation, and the checksums of its files.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/files.h"

namespace taper::v0::runner {

// If the config of a run has changed, this file holds the configs of all its phases
// (run_metadata.h).
inline constexpr const char* kHistory = "history.json";

// Returns whether the files in the directory were written by a run.
bool is_run(const fs::path& dir);

// Locks a run's directory for the process that writes to it. The lock is released at the end of the
// scope or of the process. The file DIR/run.lock remains.
class RunLock {
 public:
  // Locks `dir`. Waits up to five seconds if another process holds the lock, because a process that
  // was killed keeps it until the system has freed its memory. Throws InputError, with the process
  // id, host and start time of the holder, if the lock is still held after that. Returns
  // std::nullopt if there is no such directory (any more: another run may have renamed it).
  static std::optional<RunLock> of(const fs::path& dir);
  RunLock(RunLock&&) noexcept = default;
  RunLock& operator=(RunLock&&) noexcept = default;
  ~RunLock();

 private:
  explicit RunLock(Descriptor file) : file_(std::move(file)) {}

  Descriptor file_;
};

// Returns whether a process holds the lock of a run's directory. Does not change the directory.
bool is_locked(const fs::path& dir);

// Checks that a run can write to `dir`: the path does not exist, or is an empty directory, or is
// the directory of an earlier run, whose lock is then returned. Throws InputError otherwise.
std::optional<RunLock> lock_earlier_run(const fs::path& dir);
// Creates and locks an empty directory. An earlier run is renamed to DIR.1, DIR.2, ... first.
// Throws DiskError if the directory cannot be created.
void make_run_directory(const fs::path& dir, std::optional<RunLock>& lock);

// --- checksums ---

// Writes the checksums of the run's files to DIR/CRC32. is_finished: also lists the files that
// change until the end of the run.
void write_run_checksums(const fs::path& dir, bool is_finished);
// Throws InputError if `dir` is not a run's directory, or if a file differs from its checksum.
// Every command that reads a run calls this first. If there are no checksums, as in runs of older
// versions, logs a warning and returns.
void verify_run(const fs::path& dir);
// Implements `taper verify` for a run and all its checkpoints, or for one checkpoint. Returns text
// for stdout. Throws InputError, with all damaged files, if there are any.
std::string verify(const fs::path& path);

}  // namespace taper::v0::runner
