// `taper sweep`, `taper lr-find` and `taper list`.
#include "apps/runner/commands/commands.h"
#include "apps/runner/commands/default_directory.h"
#include "apps/runner/many/lr_find.h"
#include "apps/runner/many/run_list.h"
#include "apps/runner/many/search_space.h"
#include "apps/runner/many/sweep.h"
#include "apps/runner/run/log_sink.h"
#include "apps/runner/run/run_metadata.h"
#include "apps/runner/settings/data_path.h"

namespace taper::v0::runner {
namespace {

// Returns the name of the runs of a config, or of a file of data.
std::string name_of(const std::string& file, const std::vector<std::string>& overrides) {
  return is_data_path(file, overrides) ? name_of_data(file) : load_run_config(file, overrides).name;
}

struct SweepCommand : SweepOptions {
  std::string file, out, resume = "no";
  std::vector<std::string> words;

  void describe(Schema& v) {
    v("config", file, "YAML file that describes the runs").required();
    v("settings", words,
      "what to search: optimizer.lr=1e-4..1e-2:log (a range), 'model.hidden=64|128' (choices); "
      "other settings, such as train.epochs=3, hold for all trials")
        .required();
    v("--trials", trials, Range{1, 100'000}, "number of trials; default: 20");
    v("--seed", seed, "seed of the drawn settings; default: 0");
    v("--halving", halves,
      "train all trials for a part of the length, the best third for three times as long, and so "
      "on");
    v("--out", out, "directory of the trials; default: runs/NAME/DATE-ID");
    v("--resume", resume, {"no", "auto"}, "auto: continue the trials in --out; default: no");
    v("--jobs", jobs, Range{1, 1024},
      "trials to train at the same time; default: one for each core, or for each GPU");
  }
  int operator()() {
    resumes = resume == "auto";
    require<ConfigError>(!resumes || !out.empty(),
                         "--resume continues the trials in a directory; pass it with --out");
    const std::string dir =
        out.empty() ? default_directory(name_of(file, SearchSpace(words).fixed())) : out;
    return print(sweep(file, words, dir, *this).text);
  }
};

struct LrFindCommand : LrFindOptions {
  std::string file, out;
  std::vector<std::string> overrides;

  void describe(Schema& v) {
    v("config", file, "YAML file that describes the run").required();
    v("overrides", overrides, "settings that replace those of the file");
    v("--low", low, Range{1e-12, 1e6}, "learning rate of the first step; default: 1e-7");
    v("--high", high, Range{1e-12, 1e6}, "learning rate of the last step; default: 10");
    v("--steps", steps, Range{10, 100'000}, "number of steps; default: 100");
    v("--out", out, "directory of the run; default: runs/NAME/DATE-ID");
  }
  int operator()() const {
    const std::string dir = out.empty() ? default_directory(name_of(file, overrides)) : out;
    return print(to_text(find_rate(file, overrides, dir, *this)) + "run: " + dir + "\n");
  }
};

struct ListCommand {
  std::string folder = "runs", sort = "age";
  bool is_json = false;

  void describe(Schema& v) {
    v("folder", folder, "folder whose runs are listed, at any depth; default: runs");
    v("--sort", sort,
      "age (the newest first), name, state, steps, size, or a metric such as test.accuracy (the "
      "best first); default: age");
    v("--json", is_json, "print JSON with all metrics");
  }
  int operator()() const {
    std::vector<RunSummary> runs = with_status(concat_to_string("reading the runs in ", folder),
                                               [&] { return find_runs(folder); });
    sort_runs(runs, sort);
    return print(is_json ? run_json(runs) : run_table(runs, folder));
  }
};

}  // namespace

Command sweep_command() {
  return command_of<SweepCommand>(
      "sweep", "Search for settings by training many runs",
      "taper sweep digits.yaml optimizer.lr=1e-4..1e-2:log 'model.hidden=[64]|[128,64]'\n"
      "taper sweep digits.yaml optimizer.lr=1e-4..1e-2:log --trials 27 --halving --out runs/s\n"
      "taper sweep digits.yaml optimizer.lr=1e-4..1e-2:log --trials 40 --out runs/s --resume auto");
}

Command lr_find_command() {
  return command_of<LrFindCommand>("lr-find", "Propose a learning rate by a short run",
                                   "taper lr-find digits.yaml\n"
                                   "taper lr-find digits.yaml --steps 200 --out runs/rates");
}

Command list_command() {
  return command_of<ListCommand>("list", "List runs with their states and metrics",
                                 "taper list\n"
                                 "taper list runs/digits --sort test.accuracy\n"
                                 "taper list runs --json");
}

}  // namespace taper::v0::runner
