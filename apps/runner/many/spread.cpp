#include "apps/runner/many/spread.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/runner/base/files.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/base/text_table.h"
#include "apps/runner/run/run_metadata.h"

namespace taper::v0::runner {
namespace {

using Json = nlohmann::ordered_json;

// A metric of all runs that measured it.
struct Spread {
  std::string metric;
  std::vector<double> values{};

  double mean() const { return std::reduce(values.begin(), values.end()) / double(values.size()); }
  // The standard deviation of a sample; NaN of fewer than two values.
  double deviation() const {
    double sum = 0;
    for (const double value : values) sum += (value - mean()) * (value - mean());
    return std::sqrt(sum / double(values.size() - 1));
  }
};

// Returns the metrics in the order of the first run that has them.
std::vector<Spread> spreads_of(const std::vector<MemberResult>& results) {
  std::vector<Spread> out;
  for (const MemberResult& result : results) {
    for (const auto& [name, value] : result.run.metrics) {
      if (!result.error.empty()) continue;
      auto known = std::ranges::find(out, name, &Spread::metric);
      if (known == out.end()) known = out.insert(out.end(), {.metric = name});
      known->values.push_back(value);
    }
  }
  return out;
}

std::string shown(double value) { return std::isfinite(value) ? fmt::format("{:.5g}", value) : ""; }

// Returns a table with a row for each run, and rows for the mean and the standard deviation.
std::string table_of(const std::vector<MemberResult>& results, const std::vector<Spread>& spreads) {
  std::vector<std::string> head = {"run", "steps"}, mean = {"mean", ""}, deviation = {"sd", ""};
  for (const Spread& spread : spreads) {
    head.push_back(spread.metric);
    mean.push_back(shown(spread.mean()));
    deviation.push_back(spread.values.size() > 1 ? shown(spread.deviation()) : "");
  }
  std::vector<std::vector<std::string>> rows = {head};
  for (const MemberResult& result : results) {
    rows.push_back({result.name, concat_to_string(result.run.steps)});
    if (!result.error.empty()) continue;
    for (const Spread& spread : spreads) {
      const double* value = result.run.find(spread.metric);
      rows.back().push_back(value ? shown(*value) : "");
    }
  }
  rows.insert(rows.end(), {mean, deviation});
  return text_table(rows, 1, head.size());
}

Json json_of(const std::vector<MemberResult>& results, const std::vector<Spread>& spreads) {
  Json runs = Json::array(), metrics = Json::object();
  for (const MemberResult& result : results) {
    Json run = {{"name", result.name}, {"state", result.run.state}, {"steps", result.run.steps}};
    if (!result.error.empty()) run["error"] = result.error;
    for (const auto& [name, value] : result.run.metrics) run["metrics"][name] = value;
    runs.push_back(std::move(run));
  }
  for (const Spread& spread : spreads) {
    const auto [low, high] = std::ranges::minmax(spread.values);
    metrics[spread.metric] = {{"runs", spread.values.size()},
                              {"mean", spread.mean()},
                              {"sd", spread.deviation()},
                              {"min", low},
                              {"max", high}};
  }
  return {{"runs", runs}, {"metrics", metrics}};
}

void require_folds(RunConfig config) {
  for (const Field& field : config.data.schema().fields) {
    if (field.name == "split") return;
  }
  throw ConfigError(concat_to_string("--folds divides the rows of a table; data of type ",
                                     config.data.type, " have no data.split"));
}

std::vector<Member> members_of(const SpreadOptions& options, uint64_t first_seed) {
  std::vector<Member> out;
  for (int64_t i = 0; i < options.seeds; ++i) {
    const uint64_t seed = first_seed + uint64_t(i);
    out.push_back(
        {.name = concat_to_string("seed-", seed), .overrides = {concat_to_string("seed=", seed)}});
  }
  for (int64_t i = 0; i < options.folds; ++i) {
    out.push_back({.name = concat_to_string("fold-", i),
                   .overrides = {concat_to_string("data.split.folds=", options.folds),
                                 concat_to_string("data.split.fold=", i)}});
  }
  return out;
}

}  // namespace

SpreadResult train_spread(const std::string& file, const std::vector<std::string>& overrides,
                          const fs::path& dir, const SpreadOptions& options) {
  require<ConfigError>((options.seeds > 0) != (options.folds > 0),
                       "give either --seeds or --folds, not both");
  require<ConfigError>(options.folds != 1, "--folds needs at least two folds");
  const bool has_folds = options.folds > 0;
  RunSetConfig config{file, overrides, has_folds ? "folds" : "seeds"};
  if (has_folds) {
    config.plan = concat_to_string(options.folds, " folds");
    require_folds(load_run_config(file, overrides));
  }
  const RunSet set(std::move(config), dir, options.resumes, options.jobs);
  const std::vector<MemberResult> results = set.train(members_of(options, set.config().seed));
  const std::vector<Spread> spreads = spreads_of(results);
  write_file(dir / "summary.json",
             json_of(results, spreads).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  SpreadResult out{.text = table_of(results, spreads)};
  for (const MemberResult& result : results) {
    if (result.error.empty()) continue;
    out.text += concat_to_string(result.name, " failed: ", result.error, "\n");
    if (out.code == 0) out.code = result.code;
  }
  out.text += concat_to_string("runs: ", dir.string(), "\n");
  return out;
}

}  // namespace taper::v0::runner
