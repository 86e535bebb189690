#include "apps/runner/train/train.h"

#include <cstdlib>
#include <optional>
#include <sstream>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "apps/runner/data/data_info.h"
#include "apps/runner/run/checksums.h"
#include "apps/runner/run/device.h"
#include "apps/runner/run/errors.h"
#include "apps/runner/run/facts.h"
#include "apps/runner/run/files.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/run/signals.h"
#include "apps/runner/run/text.h"
#include "apps/runner/train/trainer.h"
#include "framework/hooks.h"
#include "framework/precision.h"
#include "framework/profiler.h"
#include "framework/threads.h"

namespace taper::runner {
namespace {

namespace fs = std::filesystem;

// What a run that goes on may have otherwise: how long, where or how watched it is. `counts`: it
// may change the numbers after that step, so that the run keeps both.
struct MayDiffer {
  const char* key;
  bool counts = false;
};
constexpr MayDiffer kMayDiffer[] = {
    {"train.epochs", true},     {"train.steps", true},   {"train.time_limit"},
    {"train.tensorboard"},      {"train.graph"},         {"train.profile.steps"},
    {"checkpoint.every", true}, {"checkpoint.interval"}, {"checkpoint.keep"},
    {"device", true},           {"visible_devices"},     {"threads"},
    {"data.workers"},           {"data.on_device"},      {"name"}};

std::optional<fs::path> checkpoint_for(const std::string& resume, const fs::path& dir) {
  if (resume == "no") return std::nullopt;
  if (resume == "auto") return newest_checkpoint(dir);
  if (resume == "last") {
    if (const auto newest = newest_checkpoint(dir)) return newest;
    throw InputError(cat("--resume last: there is no whole checkpoint in '", dir.string(), "'"));
  }
  const fs::path path = resume == "best" ? best_checkpoint(dir) : fs::path(resume);
  if (!fs::is_directory(path)) {
    throw InputError(cat("--resume ", resume, ": there is no checkpoint '", path.string(), "'"));
  }
  return fs::canonical(path);
}

// Throws ConfigError for a config that the run cannot go on with. Returns a line for each
// difference that counts.
std::string check_same_config(const Checkpoint& saved, const RunConfig& config) {
  const auto text = saved.texts.find("config.yaml");
  if (text == saved.texts.end()) {
    throw InputError(cat("'", saved.path.string(), "' has no config.yaml"));
  }
  std::istringstream lines(config_differences(text->second, to_yaml(config)));
  std::string found, allowed, counts;
  for (const MayDiffer& m : kMayDiffer) allowed += cat(allowed.empty() ? "" : ", ", m.key);
  for (std::string line; std::getline(lines, line);) {
    const std::string key = line.substr(2, line.find(':') - 2);
    const auto known = std::ranges::find_if(kMayDiffer, [&](auto& m) { return key == m.key; });
    if (known == std::end(kMayDiffer)) found += "\n" + line;
    if (known != std::end(kMayDiffer) && known->counts) counts += "\n" + line;
  }
  if (found.empty()) return counts;
  throw ConfigError(
      cat("'", saved.path.string(), "' was saved with another config (saved | now):", found,
          "\nTake the saved values, or --resume no for a new run; only ", allowed, " may differ"));
}

void check_same_data(const fs::path& run, const RunConfig& config, bool is_allowed) {
  const std::string changed = changed_data(run, config);
  if (changed.empty()) return;
  const std::string what = cat("the data have changed since the run in '", run.string(),
                               "' began (then | now):\n", changed);
  if (!is_allowed) {
    throw InputError(cat(what, "Bring them back, or go on with others: --allow-changed-data"));
  }
  spdlog::warn("{}the run goes on with them; `reproduce` cannot give its numbers again", what);
}

// Says from where a run goes on, and what is otherwise from there on.
void say_resumed(const Checkpoint& saved, const std::string& changes, int64_t step, double lr) {
  spdlog::info("resumed from {}", saved.path.string());
  if (changes.empty()) return;
  spdlog::warn("from step {} on with another config (before | now):{}", step, changes);
  const auto& rest = saved.tensors.at("optimizer.safetensors");
  const auto last = std::ranges::find(rest, "schedule._last_lr", &NamedTensor::name);
  if (last == rest.end() || last->tensor.numel() == 0) return;
  const double before = last->tensor.to(kFloat64).data<double>()[0];
  if (before == lr) return;
  spdlog::warn(
      "the schedule depends on it: step {} had the learning rate {:.4g} and would have {:.4g} now, "
      "from where it goes on; a run that is planned so from its start has other numbers",
      step, before, lr);
}

// The directory of a run that goes on from a checkpoint; that may be of another run, whose metrics
// then come along.
void prepare_to_resume(const fs::path& dir, const fs::path& source, int64_t step,
                       std::optional<RunLock>& lock) {
  std::error_code none;
  if (!fs::equivalent(source, dir, none)) {
    make_run_directory(dir, lock);
    for (const char* name : {"metrics.jsonl", "history.json"}) {
      if (fs::exists(source / name)) fs::copy_file(source / name, dir / name);
    }
  }
  drop_checkpoints_after(dir, step);
  // What is made anew; until then the checkpoint is what can be used.
  for (const char* name : {kChecksums, "exit.json", "model.safetensors"}) fs::remove(dir / name);
}

using Json = nlohmann::ordered_json;

void write_exit(const fs::path& dir, const Json& json) {
  write_file(dir / "exit.json", json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

TrainResult train(const RunConfig& config, const fs::path& dir, const TrainOptions& options) {
  const SignalScope signals;
  // Nsight Systems and its like say so to the programs that they start.
  if (std::getenv("NVTX_INJECTION64_PATH") != nullptr) emit_nvtx();
  std::optional<RunLock> lock = lock_earlier_run(dir);
  const Device device = set_up(config);
  const std::optional<fs::path> from = checkpoint_for(options.resume, dir);
  std::optional<Checkpoint> saved;
  fs::path source;
  std::string changes;
  if (from) {
    saved = load_checkpoint(*from);
    source = fs::canonical(*from).parent_path().parent_path();
    changes = check_same_config(*saved, config);
  }
  if (saved) check_same_data(source, config, options.allow_changed_data);
  const data::Splits data = source_of(config.data)->load(config.seed);
  check_stop();
  Trainer trainer(config, data, device, dir, options.observer);
  if (saved) trainer.load(*saved);
  // Only now: a run that cannot start leaves the directory of an earlier one alone.
  if (from) prepare_to_resume(dir, source, trainer.step(), lock);
  if (!from) make_run_directory(dir, lock);
  const LogFile log(dir);
  if (saved) say_resumed(*saved, changes, trainer.step(), trainer.lr());
  const std::string yaml = to_yaml(config) + "\n";
  const std::string before = saved && !changes.empty() ? saved->texts.at("config.yaml") : yaml;
  saved.reset();
  trainer.stop_at(options.stop_at);
  try {
    note_phase(dir, trainer.step(), before, yaml);
    write_file(dir / "config.yaml", yaml);
    write_file(dir / "data.json", to_json(data));
    write_env(dir, config, device);
    write_run_checksums(dir, false);
    const TrainResult result = trainer.run();
    write_exit(dir, {{"code", kExitOk},
                     {"reason", result.reason.empty() ? "finished" : result.reason},
                     {"step", result.steps},
                     {"model_step", result.saved_step},
                     {"best_step", result.best_step}});
    write_run_checksums(dir, true);
    return result;
  } catch (const std::exception& error) {
    try {
      write_exit(
          dir, {{"code", exit_code_of(error)}, {"reason", error.what()}, {"step", trainer.step()}});
    } catch (const DiskError&) {
      std::error_code ignored;  // the first error says more
      fs::remove(dir / "exit.json", ignored);
    }
    throw;
  }
}

std::string dry_run(const RunConfig& config) {
  const Device device = set_up(config);
  const data::Splits data = source_of(config.data)->load(config.seed);
  const TemporaryDirectory dir;
  Trainer trainer(config, data, device, dir.path());
  trainer.open_files();
  trainer.train_step();
  trainer.train_step();
  trainer.flush();
  std::string out = cat("OK  two steps on ", device, "\n");
  const Metrics metrics = trainer.evaluate();
  out += "OK  evaluation:";
  for (const auto& [name, x] : metrics.values) out += cat(" ", name, "=", float(x));
  const fs::path saved = save_checkpoint(dir.path() / "a", trainer.step(), trainer.checkpoint(), 1);
  out += "\nOK  checkpoint saved\n";
  Trainer again(config, data, device, dir.path());
  again.load(load_checkpoint(saved));
  again.open_files();
  const fs::path other = save_checkpoint(dir.path() / "b", again.step(), again.checkpoint(), 1);
  const auto sums = [](const fs::path& at) { return read_file(at / kChecksums, "checksums"); };
  if (sums(saved) != sums(other)) {
    throw Error(cat("reloaded with other bits:\n", sums(saved), "became\n", sums(other)));
  }
  return out + "OK  reloaded with the same bits\n";
}

}  // namespace taper::runner
