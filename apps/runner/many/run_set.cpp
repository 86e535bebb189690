#include "apps/runner/many/run_set.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>

#include "apps/runner/base/child_process.h"
#include "apps/runner/base/files.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/config/json_reader.h"
#include "apps/runner/many/visible_gpus.h"
#include "apps/runner/memory/batch_size.h"
#include "apps/runner/run/ranks.h"
#include "apps/runner/run/run_metadata.h"
#include "apps/runner/run/signals.h"
#include "framework/base/cancel.h"
#include "framework/base/log.h"
#include "framework/cuda/cuda.h"
#include "framework/host/thread_pool.h"
#include "framework/io/shell_word.h"

namespace taper::v0::runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSetFile = "set.json";
// The key of the number of members that shared a device when the set began. Members that begin
// later choose their batch size by the same number.
constexpr const char* kSharing = "sharing_runs";
constexpr std::chrono::milliseconds kPause{5};

bool uses_gpu(const RunConfig& config) {
  return config.device == "auto" ? cuda::is_available() : config.device.starts_with("cuda");
}

// The text that identifies the config of a set. Settings that do not change the numbers of a run
// may differ when the set is resumed.
std::string yaml_of(RunConfig config) {
  config.threads = 0;
  config.name.clear();
  config.visible_devices.reset();
  config.log = {};
  return to_yaml(config);
}

// Returns whether the run has gone as far as the member asks.
bool is_done(const Member& member, const RunSummary& run) {
  if (run.state == "running" || run.code != kExitOk) return false;
  if (run.is_complete()) return true;
  return (member.stop_after_steps > 0 && run.steps >= member.stop_after_steps) ||
         (member.stop_after_epochs > 0 && run.epoch >= member.stop_after_epochs);
}

// Returns the last lines that the program printed, without its name.
std::string error_in(const ProgramEnd& end) {
  std::string text = end.text;
  while (text.ends_with('\n')) text.pop_back();
  constexpr std::string_view kPrefix = "taper: ";
  if (const size_t at = text.rfind(kPrefix); at != std::string::npos)
    text.erase(0, at + kPrefix.size());
  if (text.empty()) text = concat_to_string("the process ended with exit code ", end.code);
  return text;
}

// Returns the last metric of the part of the data on which evaluations ran, for a line of progress:
// "validation.accuracy 0.93".
std::string progress_text(const RunSummary& run) {
  if (run.metrics.empty()) return "";
  const std::string on = concat_to_string(run.evaluated_on(), ".");
  std::string text;
  for (const auto& [name, value] : run.metrics) {
    if (name.starts_with(on)) text = fmt::format("{} {:.5g}", name, value);
  }
  return text;
}

// Reads the state of the run, if it has begun. If a file of it is damaged, the result is an error.
void read_summary(const fs::path& run, MemberResult& result) try {
  if (is_begun_run(run)) result.run = summarize_run(run);
} catch (const InputError& error) {
  result.error = error.what();
  result.code = kExitInput;
}

// The processes that train members at the same time.
class Processes {
 public:
  Processes(const RunSetConfig& config, const RunConfig& loaded, const fs::path& dir, int64_t jobs,
            const std::vector<Member>& members)
      : config_(config), loaded_(loaded), dir_(dir), members_(members), results_(members.size()) {
    if (uses_gpu(loaded)) {
      gpus_ = loaded.visible_devices ? lines_of(*loaded.visible_devices, ',')
                                     : visible_gpus(loaded.device);
    }
    const int64_t slots = gpus_.empty() ? get_num_threads() : std::ssize(gpus_);
    jobs_ = std::min(jobs > 0 ? jobs : slots, std::ssize(members));
    used_.resize(gpus_.size());
  }

  int64_t jobs() const { return jobs_; }
  // Returns the number of members that share a device at the same time.
  int64_t sharing() const {
    const int64_t devices = std::max<int64_t>(1, std::ssize(gpus_));
    return (jobs_ + devices - 1) / devices;
  }

  // sharing: the number for which `train.batch_size: auto` leaves memory.
  std::vector<MemberResult> run(int64_t sharing) {
    sharing_ = sharing;
    size_t next = 0;
    try {
      while (next < members_.size() || !running_.empty()) {
        check_stop();
        if (next < members_.size() && std::ssize(running_) < jobs_) {
          start(next++);
        } else if (!finish_one()) {
          std::this_thread::sleep_for(kPause);
        }
      }
    } catch (const Interrupted&) {
      stop_all();
      throw Interrupted(concat_to_string("ended by ", SignalGuard::received(), ": ", done_, " of ",
                                         members_.size(),
                                         " runs are complete, the others are saved; continue with "
                                         "--out ",
                                         detail::shell_word(dir_.string()), " --resume auto"));
    }
    return std::move(results_);
  }

 private:
  struct Running {
    size_t member;
    std::optional<size_t> gpu;
    std::unique_ptr<ProgramProcess> process;
  };

  void start(size_t index) {
    const Member& member = members_[index];
    const fs::path run = dir_ / member.name;
    MemberResult before{.name = member.name};
    read_summary(run, before);
    // A damaged run is resumed: that repairs it, or says why it cannot.
    if (before.error.empty() && is_done(member, before.run)) {
      results_[index] = std::move(before);
      ++done_;
      return;
    }
    ProgramCall call{.words = words_of(member), .log = log_of(member.name)};
    call.environment[kSharingRuns] = concat_to_string(sharing_);
    std::optional<size_t> gpu;
    if (!gpus_.empty()) {
      gpu = size_t(std::ranges::min_element(used_) - used_.begin());
      ++used_[*gpu];
      call.environment["CUDA_VISIBLE_DEVICES"] = gpus_[*gpu];
    }
    running_.push_back({index, gpu, std::make_unique<ProgramProcess>(std::move(call))});
  }

  std::vector<std::string> words_of(const Member& member) const {
    std::vector<std::string> words = {"/proc/self/exe", "train", config_.file};
    words.insert(words.end(), config_.overrides.begin(), config_.overrides.end());
    words.insert(words.end(), member.overrides.begin(), member.overrides.end());
    // Processes share the cores. This does not change the numbers of a run.
    if (loaded_.threads == 0)
      words.push_back(
          concat_to_string("threads=", std::max<int64_t>(1, get_num_threads() / jobs_)));
    if (!gpus_.empty()) words.insert(words.end(), {"device=cuda", "visible_devices=null"});
    words.insert(words.end(), {"--out", (dir_ / member.name).string(), "--resume", "auto",
                               "--log-level", "error"});
    const auto add = [&](const char* option, int64_t value) {
      if (value > 0) words.insert(words.end(), {option, concat_to_string(value)});
    };
    add("--stop-after-steps", member.stop_after_steps);
    add("--stop-after-epochs", member.stop_after_epochs);
    return words;
  }

  fs::path log_of(const std::string& name) const { return scratch_.path() / name; }

  // Stores the result of a process that has ended. Returns whether there was one.
  bool finish_one() {
    const auto ended = std::ranges::find_if(
        running_, [](const Running& running) { return running.process->has_ended(); });
    if (ended == running_.end()) return false;
    const ProgramEnd end = ended->process->end();
    if (ended->gpu) --used_[*ended->gpu];
    const Member& member = members_[ended->member];
    MemberResult& result = results_[ended->member];
    running_.erase(ended);
    result = {.name = member.name, .code = end.code};
    read_summary(dir_ / member.name, result);
    ++done_;
    if (end.code != kExitOk) {
      result.error = error_in(end);
      result.code = end.code;
    }
    const bool failed = !result.error.empty();
    const std::string text = failed ? "failed: " + result.error : progress_text(result.run);
    log_message(failed ? LogLevel::kWarning : LogLevel::kInfo,
                fmt::format("{} ({} of {}): {}", member.name, done_, members_.size(), text));
    return true;
  }

  // Lets all processes save their runs and end.
  void stop_all() {
    for (const Running& running : running_) running.process->terminate();
    for (const Running& running : running_) {
      while (!running.process->has_ended()) std::this_thread::sleep_for(kPause);
    }
    running_.clear();
  }

  const RunSetConfig& config_;
  const RunConfig& loaded_;
  const fs::path& dir_;
  const std::vector<Member>& members_;
  const TemporaryDirectory scratch_;
  std::vector<std::string> gpus_;  // values of CUDA_VISIBLE_DEVICES; empty: the CPU
  std::vector<int> used_;          // the number of processes on each of gpus_
  int64_t jobs_ = 1, done_ = 0, sharing_ = 1;
  std::vector<MemberResult> results_;
  std::vector<Running> running_;
};

}  // namespace

RunSet::RunSet(RunSetConfig config, fs::path dir, bool resumes, int64_t jobs)
    : config_(std::move(config)),
      dir_(std::move(dir)),
      loaded_(load_run_config(config_.file, config_.overrides)),
      resumes_(resumes),
      jobs_(jobs) {
  open();
}

void RunSet::open() const {
  if (distributed::Communicator::is_launched()) {
    throw ConfigError(is_later_rank() ? ""  // the first rank reports the error
                                      : concat_to_string(config_.kind,
                                                         ": several runs cannot be "
                                                         "trained by several ranks; start the "
                                                         "program without a launcher"));
  }
  if (!fs::exists(dir_) || (fs::is_directory(dir_) && fs::is_empty(dir_))) return;
  const std::string head = concat_to_string("cannot write the runs to '", dir_.string(), "': it ");
  require<InputError>(fs::is_directory(dir_), head, "is a file");
  require<InputError>(fs::exists(dir_ / kSetFile), head,
                      "has other files; choose a new or empty directory with --out");
  require<InputError>(resumes_, head,
                      "has the runs of an earlier call; continue them with --resume auto, or "
                      "choose another directory with --out");
  check_same();
}

void RunSet::lock() const {
  if (lock_ >= 0) return;
  std::error_code error;
  fs::create_directories(dir_, error);
  if (error) {
    throw DiskError(
        concat_to_string("cannot create the directory '", dir_.string(), "': ", error.message()));
  }
  // The system releases the lock when the process ends, however it ends.
  lock_ = Descriptor(::open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const bool is_taken =
      lock_ >= 0 && ::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  require<InputError>(!is_taken, "another process trains the runs in '", dir_.string(),
                      "'; wait for it, or choose another directory with --out");
  open();  // the directory may have changed since the constructor's call
}

void RunSet::create(int64_t sharing) const {
  const Json json = {{"kind", config_.kind},
                     {"plan", config_.plan},
                     {"config", yaml_of(loaded_)},
                     {kSharing, sharing}};
  write_file(dir_ / kSetFile, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void RunSet::check_same() const {
  const fs::path file = dir_ / kSetFile;
  const Json before = read_json_file<Json>(file, "description of the runs");
  const auto text = [&](const char* key) {
    require<InputError>(before.contains(key) && before[key].is_string(), file.string(),
                        ": expected a text for '", key, "'");
    return before[key].get<std::string>();
  };
  const std::string advice = "; use the same, or choose another directory with --out";
  require<ConfigError>(text("kind") == config_.kind, "the runs in '", dir_.string(), "' are ",
                       text("kind"), ", not ", config_.kind, advice);
  require<ConfigError>(text("plan") == config_.plan, "the runs in '", dir_.string(),
                       "' were made from other settings", advice, " (then | now):\n  ",
                       text("plan"), " | ", config_.plan);
  const std::string changes = config_differences(with_defaults(text("config")), yaml_of(loaded_));
  require<ConfigError>(changes.empty(), "the runs in '", dir_.string(), "' have another config",
                       advice, " (then | now):\n", changes);
}

std::vector<MemberResult> RunSet::train(const std::vector<Member>& members) const {
  for (const Member& member : members) {  // before the first of them is trained
    std::vector<std::string> overrides = config_.overrides;
    overrides.insert(overrides.end(), member.overrides.begin(), member.overrides.end());
    (void)load_run_config(config_.file, overrides);
  }
  lock();
  const SignalGuard signals;
  SignalGuard::set_plan("saving the runs and stopping");
  Processes processes(config_, loaded_, dir_, jobs_, members);
  log_info(concat_to_string("training ", members.size(), members.size() == 1 ? " run" : " runs",
                            " in ", dir_.string(), ", ", processes.jobs(), " at the same time"));
  const fs::path file = dir_ / kSetFile;
  if (!fs::exists(file)) create(processes.sharing());
  const Json set = read_json_file<Json>(file, "description of the runs");
  const auto sharing = set.find(kSharing);
  const bool is_number = sharing != set.end() && sharing->is_number_integer();
  return processes.run(is_number ? sharing->get<int64_t>() : processes.sharing());
}

}  // namespace taper::v0::runner
