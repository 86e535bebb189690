// `taper train`.
#include <ctime>
#include <random>

#include <fmt/chrono.h>

#include "apps/runner/base/files.h"
#include "apps/runner/commands/commands.h"
#include "apps/runner/commands/default_directory.h"
#include "apps/runner/many/spread.h"
#include "apps/runner/run/host_state.h"
#include "apps/runner/run/log_sink.h"
#include "apps/runner/run/ranks.h"
#include "apps/runner/run/run_metadata.h"
#include "apps/runner/settings/data_path.h"
#include "apps/runner/train/train.h"
#include "apps/runner/train/validate.h"
#include "framework/base/log.h"

namespace taper::v0::runner {
namespace {

// Writes samples.txt for the report: text that the run's language model generates.
void write_samples(const fs::path& dir) try {
  const SavedRun run = open_run(dir);
  apply_settings(run.config);
  write_file(dir / "samples.txt", generate(run, {}));
} catch (const Error& error) {  // the run itself is complete
  warn(concat_to_string("cannot write samples of generated text: ", error.what()));
}

// Returns the summary for stdout. Its metrics are those of the saved weights.
std::string summary(const std::string& dir, const TrainConfig& config, const TrainResult& result) {
  std::string text =
      concat_to_string("run:             ", dir, "\nsteps:           ", result.steps, "\n");
  if (!result.reason.empty()) text += concat_to_string("ended by:        ", result.reason, "\n");
  const bool has_last = result.saved_step == result.steps;
  text += concat_to_string("saved weights:   step ", result.saved_step, " in epoch ",
                           result.saved_epoch, has_last ? ", the last\n" : ", the best\n");
  if (!has_last)
    text += concat_to_string("last weights:    step ", result.steps,
                             "; use them with --weights last\n");
  if (result.may_decide && result.best_step > 0 && result.best_step != result.steps) {
    text += concat_to_string("best:            ", result.evaluated_on, " ",
                             best_goal(config).metric, " ", float(result.best), " at step ",
                             result.best_step, ", in checkpoints/best\n");
  }
  if (!result.decision.empty()) {
    text += concat_to_string("threshold:       ", result.decision, "\n");
  }
  const bool is_measured = !result.saved_metrics.values.empty();
  if (!is_measured) text += "                 not evaluated; results of the last evaluation:\n";
  text += to_text(is_measured ? result.saved_metrics : result.metrics, result.evaluated_on, {});
  text += to_text(result.test_metrics, "test", {});
  for (const std::string& warning : result.warnings) {
    text += concat_to_string("warning:         ", warning, "\n");
  }
  return text;
}

struct Train : TrainOptions {
  std::string file, out;
  std::vector<std::string> overrides;
  int64_t ranks = 0;
  SpreadOptions spread{};
  bool prints_config = false, validates = false, is_dry = false;

  void describe(Schema& v) {
    v("config", file, "YAML file that describes the run").required();
    v("overrides", overrides, "settings that replace those of the file, such as train.epochs=3");
    v("--out", out, "directory of the run; default: runs/NAME/DATE-ID");
    v("--resume", resume,
      "continue the run in --out: auto (if it has a checkpoint), last, best, the path of a "
      "checkpoint, or no (the default)");
    v("--allow-changed-data", allow_changed_data,
      "with --resume: continue although the data files have changed");
    v("--stop-after-epochs", stop_after_epochs, Range{1},
      "evaluate, save and end the run after this many epochs; --resume continues it");
    v("--stop-after-steps", stop_after_steps, Range{1}, "the same after this many steps");
    v("--ranks", ranks, {0, 4096},
      "start this many processes on this host; each computes a part of every batch");
    v("--seeds", spread.seeds, Range{2, 1000},
      "train this many runs, with the config's seed and those after it, in --out/seed-0, ...; "
      "print the mean and the spread of their metrics");
    v("--folds", spread.folds, Range{2, 1000},
      "divide the rows of the table into this many folds, and train a run for each as the test");
    v("--jobs", spread.jobs, Range{1, 1024},
      "with --seeds or --folds: runs to train at the same time; default: one for each core, or for "
      "each GPU");
    v("--print-config", prints_config, "print every setting and its source, and exit");
    v("--validate", validates,
      "print shapes, parameters, memory and steps, and exit; needs no GPU");
    v("--dry-run", is_dry, "test the config: run two steps, evaluate, save, reload and compare");
  }

  // Loads the config on each rank. Only the first rank logs warnings about it.
  RunConfig load() const {
    const LogGuard once([](LogLevel, const std::string&) { return !is_later_rank(); });
    RunConfig config;
    run_on_all_ranks(config.distributed.timeout,
                     [&] { config = load_run_config(file, overrides); });
    return config;
  }

  int train_several(const std::string& dir) const {
    require<ConfigError>(resume == "no" || resume == "auto",
                         "with --seeds or --folds, --resume is no or auto");
    require<ConfigError>(stop_after_steps == 0 && stop_after_epochs == 0 && !allow_changed_data,
                         "--stop-after-steps, --stop-after-epochs and --allow-changed-data do not "
                         "go with --seeds or --folds");
    SpreadOptions options = spread;
    options.resumes = resume == "auto";
    const SpreadResult result = train_spread(file, overrides, dir, options);
    print(result.text);
    return result.code;
  }

  int operator()() const {
    const bool is_alone = prints_config || validates || is_dry;
    if (is_alone && is_later_rank()) return kExitOk;
    const bool is_set = spread.seeds > 0 || spread.folds > 0;
    require<ConfigError>(!is_set || (ranks == 0 && !is_alone),
                         "--seeds and --folds train several runs of one rank each; leave out "
                         "--ranks, --print-config, --validate and --dry-run");
    const RunConfig config = load();
    if (ranks > 0 && !is_alone) launch(ranks);  // after the config was found valid
    if (prints_config) return print(to_yaml_with_origins(config));
    if (validates) {
      return print(with_status("reading the data, without training",
                               [&] { return validate(config, std::max<int64_t>(ranks, 1)); }));
    }
    if (is_dry) {
      return print(with_status("reading the data, for two steps", [&] { return dry_run(config); }));
    }
    require<ConfigError>(
        resume == "no" || !out.empty(),
        "--resume continues the run in a directory; pass the directory with --out");
    const std::string dir = out.empty() ? default_directory(config.name) : out;
    if (is_set) return train_several(dir);
    require<ConfigError>(spread.jobs == 0, "--jobs needs --seeds or --folds");
    const TrainResult result = train(config, dir, *this);
    if (!result.is_first_rank) return kExitOk;
    if (task_of(config.data) == std::optional(Task::kLanguage)) write_samples(dir);
    return print(summary(dir, config.train, result));
  }
};

}  // namespace

std::string default_directory(const std::string& name) {
  return fmt::format("runs/{}/{:%Y%m%d-%H%M%S}-{:04x}", name, fmt::gmtime(std::time(nullptr)),
                     std::random_device()() & 0xffff);
}

Command train_command() {
  return command_of<Train>("train", "Train a model as described in a YAML file",
                           "taper train digits.yaml\n"
                           "taper train digits.yaml train.epochs=3 optimizer.lr=0.05 --out runs/d\n"
                           "taper train digits.yaml --out runs/d --resume auto\n"
                           "taper train digits.yaml --seeds 5\n"
                           "taper train digits.yaml --validate");
}

}  // namespace taper::v0::runner
