#include "apps/runner/gate/seeds.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/runner/base/files.h"
#include "apps/runner/gate/golden.h"
#include "framework/base/log.h"
#include "framework/host/thread_pool.h"

namespace taper::v0::runner {
namespace {

using Rows = std::vector<Recording::Row>;

// Trains the repetition in `dir` and returns the recorded rows. Logs nothing.
Rows train_one(const Repetition& repetition, const RecordOptions& options, const fs::path& dir) {
  const LogGuard quiet([](LogLevel, const std::string&) { return false; });
  Recorder recorder({options});
  run_again(repetition.phases, dir, &recorder);
  return std::move(recorder.taken.rows);
}

// Throws the type of error that has this exit code.
[[noreturn]] void fail_as(const Repetition& repetition, int code, const std::string& message) {
  const std::string text = concat_to_string(repetition.name, ": ", message);
  if (code == kExitConfig) throw ConfigError(text);
  if (code == kExitData) throw Diverged(text);
  if (code == kExitInput) throw InputError(text);
  if (code == kExitInterrupted) throw Interrupted(text);
  throw RunError(ExitCode(code), text);
}

// The files through which a child process reports its result.
fs::path result_file(const fs::path& dir) { return dir / "result.json"; }
fs::path error_file(const fs::path& dir) { return dir / "error.txt"; }

// The body of a child process. It must not return, because the caller's objects belong to the
// parent process.
[[noreturn]] void become_child(Repetition repetition, const RecordOptions& options, int threads,
                               const fs::path& dir) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it must not outlive the parent process
  int code = kExitOk;
  try {
    for (Phase& phase : repetition.phases) phase.config.threads = threads;
    Recording result;
    result.rows = train_one(repetition, options, dir / "run");
    save_recording(result, result_file(dir));
  } catch (const std::exception& error) {
    code = exit_code_of(error);
    try {
      write_file(error_file(dir), message_of(error));
    } catch (const std::exception&) {
      code = kExitDisk;
    }
  }
  ::_exit(code);
}

// Returns the rows of a child process that has ended, or throws its error.
Rows result_of(const Repetition& repetition, int status, const fs::path& dir) {
  if (WIFSIGNALED(status)) {
    fail_as(repetition, kExitInterrupted,
            concat_to_string("the process was ended by signal ", WTERMSIG(status)));
  }
  if (const int code = WEXITSTATUS(status); code != kExitOk) {
    const bool has_message = fs::exists(error_file(dir));
    fail_as(repetition, code,
            has_message ? read_file(error_file(dir), "error of the repetition")
                        : concat_to_string("the process ended with exit code ", code));
  }
  return load_recording(result_file(dir)).rows;
}

// The child processes of one call of train_all(). The destructor ends those that still run.
class Children {
 public:
  Children(const std::vector<Repetition>& repetitions, const RecordOptions& options, int64_t jobs)
      : repetitions_(repetitions),
        options_(options),
        threads_(std::max(1, int(get_num_threads() / jobs))),
        rows_(repetitions.size()) {}
  ~Children() {
    for (const auto& [pid, index] : running_) ::kill(pid, SIGKILL);
    for (const auto& [pid, index] : running_) ::waitpid(pid, nullptr, 0);
  }
  Children& operator=(Children&&) = delete;  // neither copied nor moved

  void start(size_t index) {
    const fs::path dir = dir_of(index);
    fs::create_directories(dir);
    const pid_t pid = ::fork();
    if (pid == 0) become_child(repetitions_[index], options_, threads_, dir);
    if (pid < 0) {
      fail_as(repetitions_[index], kExitMemory,
              concat_to_string("cannot start a process: ", std::strerror(errno)));
    }
    running_[pid] = index;
  }

  // Waits for a child process to end, and stores its rows.
  void finish_one() {
    for (const auto& [pid, index] : running_) {
      int status = 0;
      const pid_t ended = ::waitpid(pid, &status, WNOHANG);
      if (ended == 0 || (ended < 0 && errno == EINTR)) continue;
      const size_t which = index;
      running_.erase(pid);
      rows_[which] = result_of(repetitions_[which], status, dir_of(which));
      log_info(concat_to_string(repetitions_[which].name, " is done (", ++done_, " of ",
                                repetitions_.size(), ")"));
      return;
    }
    ::usleep(5'000);
  }

  size_t running() const { return running_.size(); }
  std::vector<Rows> take() { return std::move(rows_); }

 private:
  fs::path dir_of(size_t index) const { return scratch_.path() / concat_to_string(index); }

  const std::vector<Repetition>& repetitions_;
  const RecordOptions& options_;
  const int threads_;
  const TemporaryDirectory scratch_;
  std::map<pid_t, size_t> running_;
  std::vector<Rows> rows_;
  int64_t done_ = 0;
};

std::vector<Rows> train_in_turn(const std::vector<Repetition>& repetitions,
                                const RecordOptions& options) {
  std::vector<Rows> out;
  for (const Repetition& repetition : repetitions) {
    const TemporaryDirectory scratch;
    try {
      out.push_back(train_one(repetition, options, scratch.path() / "run"));
    } catch (const Error& error) {
      fail_as(repetition, exit_code_of(error), error.what());
    }
    log_info(concat_to_string(repetition.name, " is done (", out.size(), " of ", repetitions.size(),
                              ")"));
  }
  return out;
}

}  // namespace

std::vector<int64_t> seeds_from(int64_t first, int64_t count) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(first + i);
  return out;
}

Repetition with_seed(std::vector<Phase> phases, int64_t seed) {
  for (Phase& phase : phases) phase.config.seed = uint64_t(seed);
  return {concat_to_string("seed ", seed), std::move(phases)};
}

std::vector<Rows> train_all(const std::vector<Repetition>& repetitions,
                            const RecordOptions& options, int64_t jobs) {
  if (jobs <= 1) return train_in_turn(repetitions, options);
  Children children(repetitions, options, jobs);
  for (size_t next = 0; next < repetitions.size() || children.running() > 0;) {
    if (next < repetitions.size() && int64_t(children.running()) < jobs) {
      children.start(next++);
    } else {
      children.finish_one();
    }
  }
  return children.take();
}

int64_t jobs_for(const RunMetadata& metadata) {
  const auto device = metadata.program.find("device");
  const bool is_cpu = device != metadata.program.end() && device->second == "cpu";
  const bool has_ranks = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  return is_cpu && !has_ranks ? get_num_threads() : 1;
}

}  // namespace taper::v0::runner
