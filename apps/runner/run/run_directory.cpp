#include "apps/runner/run/run_directory.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/runner/base/process.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/config/json_reader.h"
#include "apps/runner/run/checkpoint.h"
#include "framework/base/cancel.h"
#include "framework/base/log.h"

namespace taper::v0::runner {
namespace {

constexpr const char* kLock = "run.lock";
// The checksum list always has the first three files, and the others once the run is finished.
constexpr const char* kAlways[] = {"config.yaml", "data.json", "env.json"};
constexpr const char* kAtTheEnd[] = {"evaluation.json", "exit.json", "metrics.jsonl",
                                     "model.safetensors"};

bool is_empty_but_for_lock(const fs::path& dir) {
  return std::ranges::all_of(fs::directory_iterator(dir),
                             [](const auto& entry) { return entry.path().filename() == kLock; });
}

std::string this_process() {
  char host[256] = "";
  (void)::gethostname(host, sizeof host - 1);
  return fmt::format("process {} on {} since {:%Y-%m-%d %H:%M:%S} UTC", ::getpid(), host,
                     fmt::gmtime(std::time(nullptr)));
}

// Does not use /proc, which may not be mounted.
bool is_same_file(int file, const fs::path& path) {
  struct stat a, b;
  return ::fstat(file, &a) == 0 && ::stat(path.c_str(), &b) == 0 && a.st_ino == b.st_ino &&
         a.st_dev == b.st_dev;
}

}  // namespace

bool is_run(const fs::path& dir) {
  if (fs::exists(dir / kLock)) return true;
  if (!fs::exists(dir / "env.json")) return false;
  const Document env = parse_json(read_file(dir / "env.json", "metadata of the run"), {});
  return env.root && env.root->find("taper");
}

// --- the lock ---

// Tries to lock the file for some time: a process that was killed keeps its lock until the system
// has freed its memory, which may take seconds. Returns false, with errno set, if the file cannot
// be locked.
static bool lock_within(int file, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kPause(20);
  for (;; patience -= kPause) {
    if (::flock(file, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK || patience <= kPause) return false;
    check_stop();
    std::this_thread::sleep_for(kPause);
  }
}

std::optional<RunLock> RunLock::of(const fs::path& dir) {
  const fs::path path = dir / kLock;
  Descriptor file;
  do {  // repeats if the directory was renamed meanwhile
    file = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (file < 0 && errno == ENOENT) return std::nullopt;
    if (file < 0) cannot_write(path);
    const bool is_locked = lock_within(file, std::chrono::seconds(5));
    if (!is_locked && errno == EWOULDBLOCK) {
      throw InputError(concat_to_string(
          "'", dir.string(), "' is in use by ", read_file(path, "lock"),
          "; wait until it ends, or choose another directory", for_caller(" with --out", "")));
    }
    if (!is_locked)
      warn(concat_to_string("cannot lock '", path.string(), "': ", std::strerror(errno)));
  } while (!is_same_file(file, path));
  const std::string who = this_process();
  const bool is_written =
      ::ftruncate(file, 0) == 0 && ::pwrite(file, who.data(), who.size(), 0) == ssize_t(who.size());
  if (!is_written) cannot_write(path);
  return RunLock(std::move(file));
}

RunLock::~RunLock() {
  if (file_ >= 0) (void)!::ftruncate(file_, 0);
}

bool is_locked(const fs::path& dir) {
  const Descriptor file(::open((dir / kLock).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  return file >= 0 && ::flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// --- the directory ---

std::optional<RunLock> lock_earlier_run(const fs::path& dir) {
  // Another run may rename the directory at any moment before it is locked.
  const fs::file_status status = fs::status(dir);
  if (!fs::exists(status)) return std::nullopt;
  const std::string head = concat_to_string("cannot write the run to '", dir.string(), "': it ");
  require<InputError>(fs::is_directory(status), head, "is a file");
  std::error_code error;
  if (fs::is_empty(dir, error) || error == std::errc::no_such_file_or_directory) {
    return std::nullopt;
  }
  require<InputError>(is_run(dir) || !fs::exists(dir), head,
                      "has files that are not from a run; choose a new or empty directory",
                      for_caller(" with --out", ""));
  return RunLock::of(dir);
}

void make_run_directory(const fs::path& dir, std::optional<RunLock>& lock) {
  std::error_code error;
  const auto check = [&](const char* what) {
    if (error)
      throw DiskError(
          concat_to_string("cannot ", what, " '", dir.string(), "': ", error.message()));
  };
  for (;; lock.reset()) {
    fs::create_directories(dir, error);
    check("create the run's directory");
    if (!lock) lock = RunLock::of(dir);
    if (!lock) continue;  // another run renamed the directory after it was created here
    if (is_empty_but_for_lock(dir)) break;
    // for a path such as "runs/m/"
    const fs::path name = dir.filename().empty() ? dir.parent_path() : dir;
    int i = 1;
    while (fs::exists(fs::symlink_status(concat_to_string(name.string(), ".", i)))) ++i;
    fs::rename(name, concat_to_string(name.string(), ".", i), error);
    check("rename the earlier run");
  }
  sync(fs::canonical(dir).parent_path());
}

// --- checksums ---

void write_run_checksums(const fs::path& dir, bool is_finished) {
  std::vector<std::string> names = {kHistory};
  if (is_finished) names.insert(names.end(), std::begin(kAtTheEnd), std::end(kAtTheEnd));
  std::erase_if(names, [&](const std::string& name) { return !fs::exists(dir / name); });
  names.insert(names.end(), std::begin(kAlways), std::end(kAlways));
  write_file(dir / kChecksums, sums_of(dir, names));
}

// Returns what is damaged among the listed files. Returns "" if nothing is, or if there is no list.
static std::string damage_of_run(const fs::path& dir) try {
  const fs::path list = dir / kChecksums;
  if (!fs::exists(list)) return "";
  const std::string listed = read_file(list, "list of checksums");
  const std::vector<std::string> names = names_in(listed);
  for (const char* name : kAlways) {
    if (std::ranges::count(names, name) != 1) {
      return concat_to_string(kChecksums, " is damaged: it does not list ", name);
    }
  }
  return sums_difference(listed, sums_of(dir, names));
} catch (const std::exception& error) {
  if (is_any<OutOfMemoryError, std::bad_alloc>(error)) throw;  // says nothing about the files
  return concat_to_string(kChecksums, " lists a file that cannot be read: ", error.what());
}

// Returns RUN of RUN/checkpoints/NAME.
static fs::path run_of_checkpoint(const fs::path& checkpoint) {
  const fs::path whole = checkpoint.filename().empty() ? checkpoint.parent_path() : checkpoint;
  const fs::path run = whole.parent_path().parent_path();
  return run.empty() ? fs::weakly_canonical(fs::absolute(whole) / "../..") : run;
}

void verify_run(const fs::path& dir) {
  if (is_checkpoint(dir)) {
    throw InputError(concat_to_string("'", dir.string(),
                                      "' is a checkpoint, not a run's directory; give the run, '",
                                      run_of_checkpoint(dir).string(), "'"));
  }
  require<InputError>(fs::exists(dir / "config.yaml"), "'", dir.string(),
                      "' is not a run's directory: it has no config.yaml");
  if (!fs::exists(dir / kChecksums)) {
    warn(concat_to_string(
        "'", dir.string(),
        "' has no checksums, as in runs of older versions: its files are not verified"));
  }
  const std::string damage = damage_of_run(dir);
  require<InputError>(damage.empty(), "the run in '", dir.string(),
                      "' is damaged, or was changed by hand: ", damage, "; ", resume_auto(),
                      " writes its files again from a checkpoint");
}

std::string verify(const fs::path& path) {
  std::string out, found;
  const auto note = [&](const std::string& what, const std::string& damage) {
    if (damage.empty()) out += concat_to_string("OK  ", what, "\n");
    if (!damage.empty()) found += concat_to_string("\n  ", what, ": ", damage);
  };
  if (is_checkpoint(path)) {
    note(path.string(), damage_of(path));
  } else {
    if (!fs::exists(path / "config.yaml")) verify_run(path);  // throws, with the reason
    if (fs::exists(path / kChecksums)) {
      const std::string listed = read_file(path / kChecksums, "list of checksums");
      note(joined(names_in(listed)), damage_of_run(path));
    } else {
      out = "no checksums for the run's own files, as in runs of older versions\n";
    }
    for (const fs::path& checkpoint : list_checkpoints(path)) {
      note(concat_to_string("checkpoints/", checkpoint.filename().string()), damage_of(checkpoint));
    }
  }
  require<InputError>(found.empty(), "'", path.string(), "' is damaged:", found);
  return out;
}

}  // namespace taper::v0::runner
