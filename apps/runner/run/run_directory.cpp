#include "apps/runner/run/run_directory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <spdlog/fmt/chrono.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/runner/gate/replay.h"
#include "apps/runner/run/checkpoint.h"
#include "apps/runner/run/checksums.h"
#include "apps/runner/run/errors.h"
#include "apps/runner/run/text.h"
#include "apps/runner/train/metrics.h"

namespace taper::runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kLock = "run.lock";
constexpr const char* kHistory = "history.json";
// Of every run from its start; and what else is listed where it is there.
constexpr const char* kAlways[] = {"config.yaml", "data.json", "env.json"};
constexpr const char* kAtTheEnd[] = {"exit.json", "metrics.jsonl", "model.safetensors"};

Json read_json(const fs::path& file, const char* what) {
  Json json = Json::parse(read_file(file, what), nullptr, false);
  if (json.is_discarded()) throw InputError(cat(file.string(), ": damaged: it is no JSON"));
  return json;
}

bool is_run(const fs::path& dir) {
  if (fs::exists(dir / kLock)) return true;
  if (!fs::exists(dir / "env.json")) return false;
  const Json env = Json::parse(read_file(dir / "env.json", "facts of the run"), nullptr, false);
  return env.is_object() && env.contains("taper");
}

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

bool is_same_file(int file, const fs::path& path) {
  struct stat a, b;
  return ::fstat(file, &a) == 0 && ::stat(path.c_str(), &b) == 0 && a.st_ino == b.st_ino &&
         a.st_dev == b.st_dev;
}

}  // namespace

// --- the lock ---

RunLock::RunLock(const fs::path& dir) {
  const fs::path path = dir / kLock;
  const auto fail = [&] {
    const std::string reason = std::strerror(errno);
    if (file_ >= 0) ::close(file_);
    throw DiskError(cat("cannot write '", path.string(), "': ", reason));
  };
  do {  // again where the directory was moved aside meanwhile
    if (file_ >= 0) ::close(file_);
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file_ < 0) fail();
    const bool is_locked = ::flock(file_, LOCK_EX | LOCK_NB) == 0;
    if (!is_locked && errno == EWOULDBLOCK) {
      ::close(file_);
      throw InputError(cat("'", dir.string(), "' is in use by ", read_file(path, "lock"),
                           ": wait for its end, or name another directory with --out"));
    }
    if (!is_locked) spdlog::warn("cannot lock '{}': {}", path.string(), std::strerror(errno));
  } while (!is_same_file(file_, path));
  const std::string who = this_process();
  const bool is_written = ::ftruncate(file_, 0) == 0 &&
                          ::pwrite(file_, who.data(), who.size(), 0) == ssize_t(who.size());
  if (!is_written) fail();
}

RunLock::~RunLock() {
  (void)!::ftruncate(file_, 0);
  ::close(file_);
}

// --- the directory ---

std::optional<RunLock> lock_earlier_run(const fs::path& dir) {
  if (!fs::exists(dir)) return std::nullopt;
  if (!fs::is_directory(dir)) {
    throw InputError(cat("cannot write the run to '", dir.string(), "': it is a file"));
  }
  if (fs::is_empty(dir)) return std::nullopt;
  if (is_run(dir)) return std::optional<RunLock>(std::in_place, dir);
  throw InputError(cat("cannot write the run to '", dir.string(),
                       "': it holds files that no run made; name a new or an empty directory with "
                       "--out"));
}

void make_run_directory(const fs::path& dir, std::optional<RunLock>& lock) {
  std::error_code error;
  const auto require = [&](const char* what) {
    if (error) throw DiskError(cat("cannot ", what, " '", dir.string(), "': ", error.message()));
  };
  for (;; lock.reset()) {
    fs::create_directories(dir, error);
    require("make the run's directory");
    if (!lock) lock.emplace(dir);
    if (is_empty_but_for_lock(dir)) break;
    const fs::path name = dir.filename().empty() ? dir.parent_path() : dir;  // of "runs/m/"
    int i = 1;
    while (fs::exists(fs::symlink_status(cat(name.string(), ".", i)))) ++i;
    fs::rename(name, cat(name.string(), ".", i), error);
    require("move aside the earlier run in");
  }
  sync(fs::canonical(dir).parent_path());
}

// --- checksums ---

void write_run_checksums(const fs::path& dir, bool is_finished) {
  std::vector<std::string> names(std::begin(kAlways), std::end(kAlways));
  const auto add = [&](const char* name) {
    if (fs::exists(dir / name)) names.push_back(name);
  };
  add(kHistory);
  for (const char* name : kAtTheEnd) {
    if (is_finished) add(name);
  }
  write_file(dir / kChecksums, sums_of(dir, names));
}

// What is wrong with the files that are listed; nothing where there is no list.
static std::string damage_of_run(const fs::path& dir) try {
  const fs::path list = dir / kChecksums;
  if (!fs::exists(list)) return "";
  const std::string listed = read_file(list, "list of checksums");
  const std::vector<std::string> names = names_in(listed);
  for (const char* name : kAlways) {
    if (std::ranges::count(names, name) != 1) {
      return cat(kChecksums, " is damaged: it does not list ", name);
    }
  }
  return sums_difference(listed, sums_of(dir, names));
} catch (const std::exception& error) {
  return cat(kChecksums, " lists what cannot be read: ", error.what());
}

void verify_run(const fs::path& dir) {
  if (!fs::exists(dir / "config.yaml")) {
    throw InputError(cat("'", dir.string(), "' is no run's directory: it has no config.yaml"));
  }
  if (!fs::exists(dir / kChecksums)) {
    spdlog::warn("'{}' has no checksums, as runs of older versions: it is taken as it is",
                 dir.string());
  }
  const std::string damage = damage_of_run(dir);
  if (damage.empty()) return;
  throw InputError(cat("the run in '", dir.string(), "' is damaged, or was changed by hand: ",
                       damage, "; --resume auto makes its files anew from a checkpoint"));
}

std::string verify(const fs::path& path) {
  std::string out, found;
  const auto note = [&](const std::string& what, const std::string& damage) {
    if (damage.empty()) out += cat("OK  ", what, "\n");
    if (!damage.empty()) found += cat("\n  ", what, ": ", damage);
  };
  if (fs::exists(path / "state.json") || step_of(path) >= 0) {
    note(path.string(), damage_of(path));
  } else {
    if (!fs::exists(path / "config.yaml")) verify_run(path);  // which says so
    if (fs::exists(path / kChecksums)) {
      std::string names;
      for (const std::string& name : names_in(read_file(path / kChecksums, "list of checksums"))) {
        names += cat(names.empty() ? "" : ", ", name);
      }
      note(names, damage_of_run(path));
    } else {
      out = "no checksums of the run's own files, as in runs of older versions\n";
    }
    for (const fs::path& checkpoint : list_checkpoints(path)) {
      note(cat("checkpoints/", checkpoint.filename().string()), damage_of(checkpoint));
    }
  }
  if (found.empty()) return out;
  throw InputError(cat("'", path.string(), "' is damaged:", found));
}

// --- configs ---

RunConfig load_run_config(const fs::path& run, const std::vector<std::string>& overrides) {
  const fs::path file = fs::is_directory(run) ? run / "config.yaml" : run;
  RunConfig config = load_config(file, overrides);
  const fs::path dir = file.parent_path().empty() ? "." : file.parent_path();
  const bool sets_data = std::ranges::any_of(
      overrides, [](const std::string& text) { return text.starts_with("data"); });
  if (sets_data || !is_run(dir) || !fs::exists(dir / "env.json")) return config;
  const Json env = read_json(dir / "env.json", "facts of the run");
  const auto started = env.find("started_in");
  if (started == env.end() || !started->is_string()) return config;
  const fs::path base = (fs::canonical(dir) / started->get<std::string>()).lexically_normal();
  std::error_code none;
  if (fs::is_directory(base, none) && !fs::equivalent(base, ".", none)) config.data.base = base;
  return config;
}

std::string folder_of_data(const fs::path& dir, const RunConfig& config) {
  const fs::path base = config.data.base.empty() ? fs::current_path() : config.data.base;
  return fs::relative(base, fs::canonical(dir));
}

std::vector<Phase> phases_of_run(const fs::path& run) {
  RunConfig last = load_run_config(run);
  std::vector<Phase> out;
  if (fs::is_directory(run) && fs::exists(run / kHistory)) {
    const TemporaryDirectory scratch;
    try {
      const Json history = read_json(run / kHistory, "history of the run");
      for (size_t i = 0; i + 1 < history.size(); ++i) {
        const fs::path file = scratch.path() / "phase.yaml";
        write_file(file, history.at(i).at("config"));
        out.push_back({load_config(file, {}), history.at(i + 1).at("step")});
        out.back().config.data.base = last.data.base;
      }
    } catch (const Json::exception&) {
      throw InputError(cat((run / kHistory).string(), ": damaged"));
    }
  }
  out.push_back({std::move(last)});
  return out;
}

void note_phase(const fs::path& dir, int64_t step, const std::string& before,
                const std::string& after) try {
  const fs::path file = dir / kHistory;
  Json history = Json::array();
  if (fs::exists(file)) history = read_json(file, "history of the run");
  const auto is_later = [&](const Json& phase) { return phase.at("step") >= step; };
  history.erase(std::remove_if(history.begin(), history.end(), is_later), history.end());
  if (history.empty() && step > 0) history.push_back({{"step", 0}, {"config", before}});
  if (before != after && step > 0) history.push_back({{"step", step}, {"config", after}});
  if (history.size() > 1) {
    write_file(file, history.dump(1) + "\n");
  } else {
    fs::remove(file);
  }
} catch (const Json::exception&) {
  throw InputError(cat((dir / kHistory).string(), ": damaged"));
}

}  // namespace taper::runner
