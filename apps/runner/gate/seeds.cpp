#include "apps/runner/gate/seeds.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/runner/base/child_process.h"
#include "apps/runner/base/files.h"
#include "apps/runner/base/process.h"
#include "apps/runner/many/visible_gpus.h"
#include "apps/runner/run/log_sink.h"
#include "apps/runner/run/signals.h"
#include "framework/base/cancel.h"
#include "framework/base/log.h"
#include "framework/cuda/cuda.h"
#include "framework/gate/curves.h"
#include "framework/host/thread_pool.h"
#include "framework/memory/cuda_memory.h"

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
  ::setpgid(0, 0);                     // Ctrl-C reaches the parent process only, which ends it
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

// Returns the config for a process of its own, which sees one GPU.
RunConfig config_for_process(const Repetition& repetition, int threads) {
  RunConfig config = repetition.phases.at(0).config;
  config.threads = threads;
  config.visible_devices.reset();
  if (config.device.starts_with("cuda:")) config.device = "cuda";
  return config;
}

// Replaces the child process by `program`, which records the repetition on one of the GPUs.
[[noreturn]] void become_recorder(const Repetition& repetition, const RecordOptions& options,
                                  const Jobs& jobs, size_t gpu, const fs::path& dir) {
  std::vector<std::string> words = {jobs.program,
                                    "record",
                                    (dir / "config.yaml").string(),
                                    "--to",
                                    result_file(dir).string(),
                                    "--seeds",
                                    "0",
                                    "--state-every",
                                    concat_to_string(std::max<int64_t>(1, options.state_every)),
                                    "--log-level",
                                    "error"};
  if (options.steps > 0) {
    words.emplace_back("--steps");
    words.push_back(concat_to_string(options.steps));
  }
  become_program({.words = words,
                  .log = error_file(dir),
                  .directory = repetition.phases.at(0).config.data.base,
                  .environment = {{"CUDA_VISIBLE_DEVICES", jobs.gpus.at(gpu)}}});
}

// Returns the message of a child process that has failed.
std::string message_in(const fs::path& dir, int code) {
  if (!fs::exists(error_file(dir)))
    return concat_to_string("the process ended with exit code ", code);
  std::string text = read_file(error_file(dir), "error of the repetition");
  constexpr std::string_view kPrefix = "taper: ";  // of a recorder's message
  if (text.starts_with(kPrefix)) text.erase(0, kPrefix.size());
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// Returns the rows of a child process that has ended, or throws its error.
Rows result_of(const Repetition& repetition, int status, const fs::path& dir) {
  if (WIFSIGNALED(status)) {
    fail_as(repetition, kExitInterrupted,
            concat_to_string("the process was ended by signal ", WTERMSIG(status)));
  }
  if (const int code = WEXITSTATUS(status); code != kExitOk) {
    fail_as(repetition, code, message_in(dir, code));
  }
  return load_recording(result_file(dir)).rows;
}

// The child processes of one call of train_all(). The destructor ends those that still run.
class Children {
 public:
  Children(const std::vector<Repetition>& repetitions, const RecordOptions& options,
           const Jobs& jobs)
      : repetitions_(repetitions),
        options_(options),
        jobs_(jobs),
        threads_(std::max(1, int(get_num_threads() / jobs.count))),
        rows_(repetitions.size()),
        used_(jobs.gpus.size()) {}
  ~Children() {
    for (const auto& [pid, child] : running_) ::kill(pid, SIGKILL);
    for (const auto& [pid, child] : running_) ::waitpid(pid, nullptr, 0);
  }
  Children& operator=(Children&&) = delete;  // neither copied nor moved

  void start(size_t index) {
    const fs::path dir = dir_of(index);
    fs::create_directories(dir);
    const size_t gpu = size_t(std::ranges::min_element(used_) - used_.begin());
    if (!used_.empty()) {
      write_file(dir / "config.yaml", to_yaml(config_for_process(repetitions_[index], threads_)));
      ++used_[gpu];
    }
    const pid_t pid = ::fork();
    if (pid == 0 && !used_.empty()) become_recorder(repetitions_[index], options_, jobs_, gpu, dir);
    if (pid == 0) become_child(repetitions_[index], options_, threads_, dir);
    if (pid < 0) {
      fail_as(repetitions_[index], kExitMemory,
              concat_to_string("cannot start a process: ", std::strerror(errno)));
    }
    running_[pid] = {index, gpu};
  }

  // Waits for a child process to end, and stores its rows.
  void finish_one() {
    for (const auto& [pid, child] : running_) {
      int status = 0;
      const pid_t ended = ::waitpid(pid, &status, WNOHANG);
      if (ended == 0 || (ended < 0 && errno == EINTR)) continue;
      const size_t which = child.index;
      if (!used_.empty()) --used_[child.gpu];
      running_.erase(pid);
      rows_[which] = result_of(repetitions_[which], status, dir_of(which));
      log_info(concat_to_string(repetitions_[which].name, " is done (", ++done_, " of ",
                                repetitions_.size(), ")"));
      return;
    }
    check_stop();
    ::usleep(5'000);
  }

  size_t running() const { return running_.size(); }
  std::vector<Rows> take() { return std::move(rows_); }

 private:
  fs::path dir_of(size_t index) const { return scratch_.path() / concat_to_string(index); }

  struct Child {
    size_t index, gpu;  // of the repetition and in jobs_.gpus
  };

  const std::vector<Repetition>& repetitions_;
  const RecordOptions& options_;
  const Jobs& jobs_;
  const int threads_;
  const TemporaryDirectory scratch_;
  std::map<pid_t, Child> running_;
  std::vector<Rows> rows_;
  std::vector<int> used_;  // the number of child processes on each of jobs_.gpus
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
                            const RecordOptions& options, const Jobs& jobs) {
  const StatusGuard status(concat_to_string("training ", repetitions.size(), " runs"));
  if (jobs.count <= 1) return train_in_turn(repetitions, options);
  const auto signals = owns_process() ? std::make_unique<SignalGuard>() : nullptr;
  SignalGuard::set_plan("ending all runs");
  Children children(repetitions, options, jobs);
  try {
    for (size_t next = 0; next < repetitions.size() || children.running() > 0;) {
      if (next < repetitions.size() && int64_t(children.running()) < jobs.count) {
        children.start(next++);
      } else {
        children.finish_one();
      }
    }
  } catch (const Interrupted&) {
    throw Interrupted(
        "interrupted while runs were repeated, so there is no result; start the command again");
  }
  return children.take();
}

Curves curves_of_seeds(const std::vector<int64_t>& seeds, const std::vector<Rows>& rows) try {
  return combine_curves(seeds, rows);
} catch (const DataError& error) {
  throw Diverged(error.what());
}

Verdict compare_seeds(const Curves& got, const Curves& want, const CheckOptions& options) try {
  const std::vector<std::string> known = goals();
  const auto better_of = [&](const std::string& metric) {
    const size_t dot = metric.find('.');
    const std::string name = dot == std::string::npos ? metric : metric.substr(dot + 1);
    const bool grows = std::ranges::count(known, name) > 0 && is_better_when_greater(name);
    return grows ? Better::kLarger : Better::kSmaller;
  };
  const Significance significance{options.alpha, options.detect};
  return verdict_of(compare_curves(got, want, significance, better_of), significance);
} catch (const ValueError& error) {
  throw ConfigError(error.what());
}

Jobs jobs_for(const RunMetadata& metadata, const std::vector<Phase>& phases, int64_t count) {
  const auto device = metadata.program.find("device");
  const std::string name = device == metadata.program.end() ? "" : device->second;
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) return {};
  if (!phases.at(0).config.model.placement.empty()) return {};  // it needs all of its devices
  if (name == "cpu") return {count > 0 ? count : get_num_threads()};
  if (!name.starts_with("cuda") || phases.size() > 1 || !owns_process()) return {};
  cuda::empty_cache();  // the child processes need the memory that this process has cached
  Jobs jobs{.gpus = visible_gpus(phases[0].config.device), .program = "/proc/self/exe"};
  jobs.count = count > 0 ? count : std::ssize(jobs.gpus);
  return jobs;
}

}  // namespace taper::v0::runner
