#include "apps/runner/many/sweep.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/runner/base/files.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/base/text_table.h"
#include "apps/runner/config/json_reader.h"
#include "apps/runner/many/search_space.h"
#include "framework/base/log.h"
#include "framework/io/shell_word.h"

namespace taper::v0::runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kFactor = 3;       // of successive halving
constexpr size_t kShownTrials = 20;  // rows of the printed table

// A round of a sweep: the number of trials that are trained, and for how long. length: in epochs or
// steps, as the config gives it; 0: to the end.
struct Round {
  int64_t trials, length;
};

// Returns one round or, for successive halving, several: with 9 trials of 90 epochs they are
// {9, 10}, {3, 30} and {1, 0}.
std::vector<Round> rounds_of(int64_t trials, int64_t length, bool halves) {
  std::vector<Round> out = {{trials, 0}};
  if (!halves) return out;
  for (int64_t part = length; trials >= kFactor && part >= kFactor; trials /= kFactor) {
    part = (part + kFactor - 1) / kFactor;
    out.insert(out.begin(), {0, part});
  }
  for (size_t i = 0; i < out.size(); ++i)
    out[i].trials = i == 0 ? out.back().trials : out[i - 1].trials / kFactor;
  return out;
}

bool has_value(const Trial& trial) { return !trial.values.empty() && trial.values.back(); }

class Sweep {
 public:
  Sweep(const RunSet& set, std::vector<Trial> trials)
      : set_(set), result_{.trials = std::move(trials)}, goal_(best_goal(set.config().train)) {
    read_earlier();
  }

  SweepResult run(bool halves) {
    const TrainConfig& train = set_.config().train;
    const int64_t length = train.epochs ? *train.epochs : *train.steps;
    const std::vector<Round> rounds = rounds_of(std::ssize(result_.trials), length, halves);
    for (size_t i = 0; i < rounds.size(); ++i) {
      if (rounds.size() > 1) {
        log_info(concat_to_string("round ", i + 1, " of ", rounds.size(), ": ", rounds[i].trials,
                                  " trials, ", rounds[i].length > 0 ? rounds[i].length : length,
                                  train.epochs ? " epochs" : " steps"));
      }
      train_first(size_t(rounds[i].trials), i, rounds[i].length);
      sort();
      write_json();
    }
    check();
    return std::move(result_);
  }

 private:
  fs::path file() const { return set_.dir() / "sweep.json"; }
  void read_earlier();
  void train_first(size_t count, size_t round, int64_t length);
  void note(Trial& trial, size_t round, const MemberResult& result);
  // Sorts trials of later rounds before the others, and those of one round by value.
  void sort();
  void write_json() const;
  void check() const;

  const RunSet& set_;
  SweepResult result_;
  const GoalConfig goal_;
};

// Reads the values of the rounds that an earlier call has finished. Trials that went further have
// other values by now.
void Sweep::read_earlier() try {
  if (!fs::exists(file())) return;
  const Json before = read_json_file<Json>(file(), "results of the sweep");
  result_.metric = before.value("metric", "");
  for (const Json& row : before.value("trials", Json::array())) {
    const auto known = std::ranges::find(result_.trials, row.value("name", ""), &Trial::name);
    if (known == result_.trials.end() || row.value("settings", Json()) != Json(known->settings))
      continue;
    known->steps = row.value("steps", int64_t(0));
    known->error = row.value("error", "");
    known->code = row.value("code", 0);
    for (const Json& value : row.value("values", Json::array())) {
      known->values.push_back(value.is_number() ? std::optional(value.get<double>())
                                                : std::nullopt);
    }
  }
} catch (const Json::exception&) {
  throw InputError(concat_to_string(file().string(),
                                    ": is damaged: a value has another type; remove the file, and ",
                                    "the results are read from the trials"));
}

void Sweep::train_first(size_t count, size_t round, int64_t length) {
  const std::span<Trial> trials = std::span(result_.trials).first(count);
  const bool is_done = std::ranges::all_of(
      trials, [&](const Trial& trial) { return trial.values.size() > round + (length == 0); });
  if (is_done) return;
  const bool by_epochs = set_.config().train.epochs.has_value();
  std::vector<Member> members;
  for (const Trial& trial : trials) {
    members.push_back({.name = trial.name,
                       .overrides = trial.settings,
                       .stop_after_steps = by_epochs ? 0 : length,
                       .stop_after_epochs = by_epochs ? length : 0});
  }
  const std::vector<MemberResult> results = set_.train(members);
  for (size_t i = 0; i < count; ++i) note(trials[i], round, results[i]);
}

void Sweep::note(Trial& trial, size_t round, const MemberResult& result) {
  std::string& metric = result_.metric;
  trial.steps = result.run.steps;
  trial.error = result.error;
  trial.code = result.code;
  trial.values.resize(round);
  trial.values.emplace_back();
  if (!result.error.empty()) return;
  if (metric.empty()) metric = concat_to_string(result.run.evaluated_on(), ".", goal_.metric);
  const double* value = result.run.find(metric);
  if (value != nullptr && std::isfinite(*value)) trial.values.back() = *value;
}

void Sweep::sort() {
  const double sign = goal_.is_max() ? -1 : 1;
  std::ranges::stable_sort(result_.trials, {}, [&](const Trial& trial) {
    return std::tuple(!has_value(trial), -std::ssize(trial.values),
                      has_value(trial) ? sign * *trial.values.back() : 0);
  });
}

void Sweep::write_json() const {
  Json trials = Json::array();
  for (const Trial& trial : result_.trials) {
    Json row = {{"name", trial.name}, {"settings", trial.settings}, {"steps", trial.steps}};
    for (const std::optional<double>& value : trial.values)
      row["values"].push_back(value ? Json(*value) : Json());
    if (!trial.error.empty()) {
      row["error"] = trial.error;
      row["code"] = trial.code;
    }
    trials.push_back(std::move(row));
  }
  const Json json = {{"metric", result_.metric}, {"trials", trials}};
  write_file(file(), json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void Sweep::check() const {
  const Trial& best = result_.trials.front();
  if (!has_value(best)) {
    throw RunError(ExitCode(best.code == 0 ? kExitData : best.code),
                   concat_to_string("all trials failed; ", best.name, ": ", best.error));
  }
  if (result_.metric.starts_with("validation.")) return;
  warn(concat_to_string("the data have no validation part, so trials were compared by ",
                        result_.metric,
                        "; the value of the best trial is better than new data will give"));
}

// Returns a table with a column for each setting.
std::string table_of(const SweepResult& result) {
  std::vector<std::vector<std::string>> rows = {{"trial", "steps", result.metric}};
  for (const std::string& setting : result.trials[0].settings)
    rows[0].push_back(setting.substr(0, setting.find('=')));
  for (const Trial& trial : result.trials) {
    if (rows.size() > kShownTrials) break;
    rows.push_back({trial.name, concat_to_string(trial.steps),
                    has_value(trial) ? fmt::format("{:.5g}", *trial.values.back()) : "failed"});
    for (const std::string& setting : trial.settings)
      rows.back().push_back(setting.substr(setting.find('=') + 1));
  }
  return text_table(rows, 1, 2);
}

std::string text_of(const SweepResult& result, const std::string& file,
                    const std::vector<std::string>& fixed, const fs::path& dir) {
  const Trial& best = result.trials.front();
  std::string text = table_of(result);
  if (result.trials.size() > kShownTrials)
    text += concat_to_string("... ", result.trials.size() - kShownTrials, " more in sweep.json\n");
  text += fmt::format("best: {} with {} {:.5g}\n  taper train {}", (dir / best.name).string(),
                      result.metric, *best.values.back(), detail::shell_word(file));
  for (const auto* words : {&fixed, &best.settings}) {
    for (const std::string& word : *words) text += " " + detail::shell_word(word);
  }
  return text + "\n";
}

}  // namespace

SweepResult sweep(const std::string& file, const std::vector<std::string>& words,
                  const fs::path& dir, const SweepOptions& options) {
  const SearchSpace space(words);
  const RunSet set({.file = file,
                    .overrides = space.fixed(),
                    .kind = "sweep",
                    .plan = concat_to_string(space.text(), " with seed ", options.seed)},
                   dir, options.resumes, options.jobs);
  std::vector<Trial> trials;
  for (const auto& settings : space.draw(options.trials, options.seed))
    trials.push_back({.name = fmt::format("trial-{:03}", trials.size()), .settings = settings});
  if (std::ssize(trials) < options.trials)
    log_info(concat_to_string(trials.size(), trials.size() == 1 ? " trial is" : " trials are",
                              " all that the ranges and choices have"));
  SweepResult result = Sweep(set, std::move(trials)).run(options.halves);
  result.text = text_of(result, file, space.fixed(), dir);
  return result;
}

}  // namespace taper::v0::runner
