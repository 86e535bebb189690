#include "apps/runner/train/resume.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "apps/runner/base/files.h"
#include "apps/runner/base/process.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/evaluation/evaluation_file.h"
#include "apps/runner/run/run_metadata.h"
#include "apps/runner/train/state.h"
#include "framework/base/log.h"

namespace taper::v0::runner {
namespace {

// A key or section of the config that may differ in a resumed run, such as the length of the run,
// its device, or a setting of its logs.
struct MayDiffer {
  std::string_view key;
  bool changes_numbers = false;  // of later steps, so history.json records both configs
};
constexpr MayDiffer kMayDiffer[] = {{"train.epochs", true},
                                    {"train.steps", true},
                                    {"train.time_limit"},
                                    {"train.tensorboard"},
                                    {"train.graph"},
                                    {"train.recompute"},
                                    {"train.profile.steps"},
                                    {"train.eval_batch_size", true},
                                    {"checkpoint.every", true},
                                    {"checkpoint.interval"},
                                    {"checkpoint.keep"},
                                    {"checkpoint.background"},
                                    {"device", true},
                                    {"model.placement"},
                                    {"visible_devices"},
                                    {"threads"},
                                    {"data.workers"},
                                    {"data.on_device"},
                                    {"name"},
                                    {"distributed.timeout"},
                                    {"distributed.bucket_mb"},
                                    {"distributed.reduce", true},
                                    {"distributed.shard_optimizer"},
                                    {"distributed.sync_batch_norm", true},
                                    {"log"}};

std::optional<fs::path> checkpoint_for(const std::string& resume, const fs::path& dir) {
  if (resume == "no") return std::nullopt;
  if (resume == "auto") return newest_checkpoint(dir);
  if (resume == "last") {
    if (const auto newest = newest_checkpoint(dir)) return newest;
    throw InputError(concat_to_string(for_caller("--resume", "TrainOptions.resume:"),
                                      " last: there is no undamaged checkpoint in '", dir.string(),
                                      "'"));
  }
  const fs::path path = resume == "best" ? best_checkpoint(dir) : fs::path(resume);
  require<InputError>(fs::is_directory(path), for_caller("--resume", "TrainOptions.resume:"), " ",
                      resume, ": there is no checkpoint '", path.string(), "'");
  return fs::canonical(path);
}

// Throws ConfigError if a key differs that may not. Returns a line for each difference that may
// change the numbers.
std::string check_same_config(const Checkpoint& saved, const RunConfig& config) {
  const auto text = saved.texts.find("config.yaml");
  require<InputError>(text != saved.texts.end(), "'", saved.path.string(), "' has no config.yaml");
  std::string found, changes;
  const std::string differences = config_differences(with_defaults(text->second), to_yaml(config));
  for (const std::string& line : lines_of(differences)) {
    const std::string key = line.substr(2, line.find(": ") - 2);
    const auto known = std::ranges::find_if(
        kMayDiffer, [&](const MayDiffer& m) { return is_in_section(key, m.key); });
    if (known == std::end(kMayDiffer)) found += "\n" + line;
    if (known != std::end(kMayDiffer) && known->changes_numbers) changes += "\n" + line;
  }
  if (found.empty()) return changes;
  throw ConfigError(concat_to_string(
      "'", saved.path.string(), "' was saved with another config (saved | now):", found,
      "\nUse the saved values, or ", for_caller("--resume no", "TrainOptions.resume = \"no\""),
      " for a new run; only ", joined(kMayDiffer | std::views::transform(&MayDiffer::key)),
      " may differ"));
}

void check_same_data(const fs::path& run, const RunConfig& config, bool is_allowed) {
  const std::string changed = changed_data(run, config, false);
  if (changed.empty()) return;
  const std::string what = concat_to_string("the data have changed since the run in '",
                                            run.string(), "' began (then | now):\n", changed);
  require<InputError>(is_allowed, what, "Restore the files, or accept the change with ",
                      for_caller("--allow-changed-data", "TrainOptions.allow_changed_data = true"));
  warn(
      concat_to_string(what, "the run continues with them; `reproduce` cannot repeat its numbers"));
}

}  // namespace

std::optional<Resumed> find_resumed(const RunConfig& config, const fs::path& dir,
                                    const TrainOptions& options) {
  const std::optional<fs::path> path = checkpoint_for(options.resume, dir);
  if (!path) return std::nullopt;
  Resumed from{load_checkpoint(*path), fs::canonical(*path).parent_path().parent_path()};
  RunConfig completed = config;
  if (from.checkpoint.texts.contains("config.yaml")) {
    from.batch_sizes = recorded_batch_sizes(from.checkpoint.texts.at("config.yaml"));
  }
  if (!config.train.is_batch_size_auto) from.batch_sizes.train.reset();
  if (config.train.eval_batch_size) from.batch_sizes.eval.reset();
  keep_batch_sizes(completed, from.batch_sizes);
  from.changes = check_same_config(from.checkpoint, completed);
  check_same_data(from.run, config, options.allow_changed_data);
  return from;
}

Checkpoint target_of_rollback(const fs::path& run) {
  std::optional<Checkpoint> target;
  for (const fs::path& path : list_checkpoints(run)) {
    if (!damage_of(path).empty()) continue;
    Checkpoint found = load_checkpoint(path);
    const bool is_extra = state_from_json(found.texts[kState], INT64_MAX).is_extra;
    if (!target || !is_extra) target = std::move(found);
    if (!is_extra) break;
  }
  if (target) return *target;
  throw InputError(
      concat_to_string("'", run.string(), "' has no undamaged checkpoint to roll back to"));
}

void report_resumed(const Resumed& from, int64_t step, double lr) {
  log_info(concat_to_string("resumed from ", from.checkpoint.path.string()));
  if (from.changes.empty()) return;
  warn(concat_to_string("the config changes after step ", step, " (before | now):", from.changes));
  const auto& rest = from.checkpoint.tensors.at("optimizer.safetensors");
  const auto last = std::ranges::find(rest, "schedule._last_lr", &NamedTensor::name);
  if (last == rest.end() || last->tensor.numel() == 0) return;
  const double before = last->tensor.to(kFloat64).data<double>()[0];
  if (before == lr) return;
  warn(
      fmt::format("the schedule depends on this change: at step {} the learning rate was {:.4g}, "
                  "and the run continues with {:.4g}; a run with the new config from its start "
                  "gives other numbers",
                  step, before, lr));
}

// Copies the other run's best checkpoint up to that step, because it may remain the best one.
static void copy_best(const fs::path& run, const fs::path& dir, int64_t step) {
  const int64_t best = step_of(best_checkpoint(run));
  if (best < 0 || best > step || !damage_of(best_checkpoint(run)).empty()) return;
  const fs::path to = checkpoint_of_step(dir, best);
  fs::create_directories(to.parent_path());
  fs::copy(fs::canonical(best_checkpoint(run)), to);
  mark_best(dir, best);
}

void prepare_to_resume(const fs::path& dir, const Resumed& from, int64_t step,
                       std::optional<RunLock>& lock) {
  std::error_code none;
  if (!fs::equivalent(from.run, dir, none)) {
    make_run_directory(dir, lock);
    for (const char* name : {"metrics.jsonl", kHistory}) {
      if (fs::exists(from.run / name)) fs::copy_file(from.run / name, dir / name);
    }
    copy_best(from.run, dir, step);
  }
  drop_checkpoints_after(dir, step);
  // These files are written again at the end of the run. Until then only checkpoints can be used.
  for (const char* name : {kChecksums, "exit.json", kEvaluationFile, "model.safetensors"}) {
    fs::remove(dir / name);
  }
}

}  // namespace taper::v0::runner
