#include "apps/runner/train.h"

#include <cstdlib>
#include <optional>
#include <sstream>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "apps/runner/dataset.h"
#include "apps/runner/device.h"
#include "apps/runner/env.h"
#include "apps/runner/errors.h"
#include "apps/runner/rerun.h"
#include "apps/runner/signals.h"
#include "apps/runner/text.h"
#include "apps/runner/trainer.h"
#include "framework/precision.h"
#include "framework/profiler.h"
#include "framework/threads.h"

namespace taper::runner {
namespace {

namespace fs = std::filesystem;

// What changes how long, where or how watched a run is, but no number that it has given.
constexpr const char* kMayDiffer[] = {"train.epochs",     "train.steps",
                                      "train.time_limit", "train.tensorboard",
                                      "train.graph",      "train.profile.steps",
                                      "checkpoint.every", "checkpoint.keep",
                                      "device",           "visible_devices",
                                      "threads",          "data.workers",
                                      "data.on_device",   "name"};

// Threads and precision of the process, and the device.
Device set_up(const RunConfig& config) {
  set_float32_matmul_precision(config.train.precision == Precision::kTf32 ? "high" : "highest");
  if (config.threads > 0) set_num_threads(int(config.threads));
  return choose_device(config.device, config.visible_devices);
}

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

void check_same_config(const Checkpoint& saved, const RunConfig& config, const fs::path& from) {
  const auto text = saved.texts.find("config.yaml");
  if (text == saved.texts.end()) throw InputError(cat("'", from.string(), "' has no config.yaml"));
  std::istringstream lines(config_differences(text->second, to_yaml(config)));
  std::string found, allowed;
  for (const char* key : kMayDiffer) allowed += cat(allowed.empty() ? "" : ", ", key);
  for (std::string line; std::getline(lines, line);) {
    const std::string key = line.substr(2, line.find(':') - 2);
    const auto is_key = [&](const char* k) { return key == k; };
    if (std::ranges::none_of(kMayDiffer, is_key)) found += "\n" + line;
  }
  if (found.empty()) return;
  throw ConfigError(cat("'", from.string(), "' was saved with another config (saved | now):", found,
                        "\nTake the saved values, or --resume no for a new run; only ", allowed,
                        " may differ"));
}

// The directory of a run that goes on from a checkpoint; that may be of another run, whose metrics
// then come along.
void prepare_to_resume(const fs::path& dir, const fs::path& checkpoint) {
  const fs::path source = fs::canonical(checkpoint).parent_path().parent_path();
  std::error_code none;
  if (!fs::equivalent(source, dir, none)) {
    make_run_directory(dir);
    fs::copy_file(source / "metrics.jsonl", dir / "metrics.jsonl");
  }
  drop_checkpoints_after(dir, step_of(checkpoint));
  fs::remove(dir / "exit.json");
}

void write_exit(const fs::path& dir, int code, const std::string& reason, int64_t step) {
  using Json = nlohmann::ordered_json;
  const Json json = {{"code", code}, {"reason", reason}, {"step", step}};
  write_file(dir / "exit.json", json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

TrainResult train(const RunConfig& config, const fs::path& dir, const TrainOptions& options) {
  const SignalScope signals;
  // Nsight Systems and its like say so to the programs that they start.
  if (std::getenv("NVTX_INJECTION64_PATH") != nullptr) emit_nvtx();
  const Device device = set_up(config);
  const std::optional<fs::path> from = checkpoint_for(options.resume, dir);
  std::optional<Checkpoint> saved;
  if (from) {
    saved = load_checkpoint(*from);
    check_same_config(*saved, config, *from);
  }
  const Dataset data = load_dataset(config.data, config.seed);
  Trainer trainer(config, data, device, dir, options.observer);
  if (saved) trainer.load(*saved);
  saved.reset();
  // Only now: a run that cannot start leaves the directory of an earlier one alone.
  if (from) prepare_to_resume(dir, *from);
  if (!from) make_run_directory(dir);
  const LogFile log(dir);
  if (from) spdlog::info("resumed from {}", from->string());
  try {
    write_file(dir / "config.yaml", to_yaml(config) + "\n");
    write_file(dir / "data.json", to_json(data));
    write_env(dir, config, device);
    const TrainResult result = trainer.run();
    write_exit(dir, kExitOk, result.reason.empty() ? "finished" : result.reason, result.steps);
    return result;
  } catch (const std::exception& error) {
    try {
      write_exit(dir, exit_code_of(error), error.what(), trainer.step());
    } catch (const DiskError&) {
      std::error_code ignored;  // the first error says more
      fs::remove(dir / "exit.json", ignored);
    }
    throw;
  }
}

std::string dry_run(const RunConfig& config) {
  const Device device = set_up(config);
  const Dataset data = load_dataset(config.data, config.seed);
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
