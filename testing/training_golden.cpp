#include "testing/training_golden.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "framework/gate/comparison.h"
#include "framework/gate/curves.h"
#include "framework/io/text_utils.h"
#include "testing/golden_update.h"

namespace taper::v0::test {
namespace {

using golden::Better;
using golden::Row;
using Rows = std::vector<Row>;

// The names of metrics whose direction is known. A name may follow a part and a dot, as in
// "test.accuracy". The tests compare the lists with the metrics of the program.
constexpr const char* kLargerIsBetter[] = {"accuracy",  "balanced_accuracy",
                                           "top3",      "top5",
                                           "precision", "precision_weighted",
                                           "recall",    "recall_weighted",
                                           "f1",        "f1_weighted",
                                           "auc",       "pr_auc",
                                           "r2",        "bleu",
                                           "iou",       "psnr",
                                           "ssim",      "reward"};
constexpr const char* kSmallerIsBetter[] = {
    "loss",  "error", "nll",      "perplexity",       "bpc", "mae", "mse", "rmse", "mape",
    "smape", "mase",  "log_loss", "calibration_error"};

bool has(const auto& names, const std::string& name) {
  return std::ranges::any_of(names, [&](const auto& each) { return name == each; });
}

bool ends_like(const std::string& name, const char* end) {
  return name.ends_with(end) || name.ends_with(concat_to_string("_", end));
}

Better direction_of(const std::string& metric, const GoldenOptions& options) {
  const std::string name = metric.substr(metric.rfind('.') + 1);
  if (has(options.larger_is_better, metric) || has(options.larger_is_better, name))
    return Better::kLarger;
  if (has(options.smaller_is_better, metric) || has(options.smaller_is_better, name))
    return Better::kSmaller;
  if (has(kLargerIsBetter, name)) return Better::kLarger;
  if (has(kSmallerIsBetter, name) || ends_like(name, "loss") || ends_like(name, "error"))
    return Better::kSmaller;
  throw ValueError("the metric ", detail::in_quotes(metric), " has no known direction: name it in ",
                   "GoldenOptions.larger_is_better or smaller_is_better");
}

void check_options(const GoldenOptions& options, bool needs_seeds) {
  const bool has_none = options.seeds == 0 && !needs_seeds;
  require<ValueError>(has_none || options.seeds >= golden::kFewestSeeds, "GoldenOptions.seeds is ",
                      options.seeds, "; statistics need at least ", golden::kFewestSeeds, " seeds",
                      needs_seeds ? "" : " (0 records only the bits of the first one)");
  require<ValueError>(options.alpha > 0 && options.alpha <= 0.5, "GoldenOptions.alpha is ",
                      options.alpha, "; expected a probability in (0, 0.5]");
  require<ValueError>(options.detect > 0, "GoldenOptions.detect is ", options.detect,
                      "; expected a positive number of standard deviations");
  for (const auto& [metric, rtol] : options.rtol) {
    require<ValueError>(rtol >= 0, "GoldenOptions.rtol of ", detail::in_quotes(metric), " is ",
                        rtol, "; expected a number that is not negative");
  }
}

Rows train_seed(const TrainingFunction& train, uint64_t seed) {
  Metrics metrics;
  try {
    metrics = train(seed);
  } catch (Error& error) {
    error.add_prefix(concat_to_string("seed ", seed, ": "));
    throw;
  }
  require<DataError>(!metrics.rows().empty(), "seed ", seed, ": the training reports no metric");
  // Also refuses numbers that are not finite.
  (void)golden::combine_curves({int64_t(seed)}, {metrics.rows()});
  return metrics.rows();
}

golden::Curves train_curves(const TrainingFunction& train, const Rows& first,
                            const GoldenOptions& options) {
  std::vector<int64_t> seeds = {int64_t(options.seed)};
  std::vector<Rows> rows = {first};
  for (int64_t i = 1; i < options.seeds; ++i) {
    seeds.push_back(int64_t(options.seed) + i);
    rows.push_back(train_seed(train, uint64_t(seeds.back())));
  }
  return golden::combine_curves(seeds, rows);
}

// Returns what the first seed gives, and how to record all seeds.
Observed observe_training(const TrainingFunction& train, const GoldenOptions& options) {
  Observed out;
  out.config = concat_to_string("first seed: ", options.seed, "\n", options.config);
  out.seeds = options.seeds;
  out.section.metadata = test_metadata(options.device, options.compiler);
  out.section.rows = train_seed(train, options.seed);
  for (const Row& row : out.section.rows) {
    for (const auto& [metric, value] : row) {
      if (options.seeds > 0 && metric != "step" && metric != "grad_norm")
        (void)direction_of(metric, options);
    }
  }
  out.section.tolerances = options.rtol;
  out.record = [&train, &options, section = out.section] {
    golden::GoldenSection all = section;
    if (options.seeds > 0) all.curves = train_curves(train, section.rows, options);
    return all;
  };
  return out;
}

golden::Verdict compare_statistics(const TrainingFunction& train, const Rows& first,
                                   const golden::Curves& want, const GoldenOptions& options) {
  const golden::Significance significance{options.alpha, options.detect, "GoldenOptions.detect"};
  const auto better_of = [&](const std::string& metric) { return direction_of(metric, options); };
  // Checked before the seeds are trained.
  require<ValueError>(std::ssize(want.seeds) >= golden::kFewestSeeds, "the golden has curves of ",
                      want.seeds.size(), " seeds; statistics need at least ", golden::kFewestSeeds);
  const golden::Curves got = train_curves(train, first, options);
  return verdict_of(compare_curves(got, want, significance, better_of), significance);
}

// Returns why two trainings with the same seed differ; empty if they do not.
std::string randomness(const TrainingFunction& train, const Rows& first,
                       const GoldenOptions& options) {
  const golden::Movement between = golden::movement_of(train_seed(train, options.seed), first);
  if (between.step.empty()) return "";
  return concat_to_string("cause: the training is not deterministic: two runs with seed ",
                          options.seed, " differ first in step ", between.step,
                          "; call manual_seed(seed) first\n");
}

golden::Verdict compare_with(const TestGolden& file, const TrainingFunction& train,
                             const Rows& first, const GoldenOptions& options, bool by_statistics) {
  const golden::ChosenSection chosen = file.chosen();
  const golden::GoldenSection& section = chosen.section;
  golden::Verdict bits = golden::compare_rows(first, section.rows, true, options.rtol);
  if (bits.passed && !by_statistics) return bits;
  const bool falls_back = !chosen.matches && !section.curves.seeds.empty() && options.seeds > 0;
  if (by_statistics || falls_back) {
    golden::Verdict out = compare_statistics(train, first, section.curves, options);
    const char* why = by_statistics ? ""
                                    : "the numbers differ from it, so the curves of several seeds "
                                      "are compared instead\n";
    out.text = concat_to_string(file.head(), why, out.text, out.passed ? "" : file.cause());
    return out;
  }
  const std::string random =
      file.config_differences().empty() ? randomness(train, first, options) : "";
  bits.text = concat_to_string(file.head(), bits.text, random.empty() ? file.cause() : random);
  return bits;
}

golden::Verdict check_training(const TrainingFunction& train, const std::filesystem::path& golden,
                               const GoldenOptions& options, bool by_statistics) try {
  check_options(options, by_statistics);
  TestGolden file(golden, "training");
  const Observed observed = observe_training(train, options);
  if (const auto written = file.updated(observed)) return *written;
  return compare_with(file, train, observed.section.rows, options, by_statistics);
} catch (const InputError& error) {
  return {false, concat_to_string(error.what(), "\n")};
} catch (const Error& error) {
  return {false, concat_to_string(golden.string(), ": ", error.what(), "\n")};
}

Verdict as_assertion(const golden::Verdict& verdict) {
  return verdict.passed ? Verdict{} : Verdict{verdict.text};
}

}  // namespace

void Metrics::add(int64_t step, const std::map<std::string, double>& values) {
  const int64_t last = rows_.empty() ? 1 : std::stoll(rows_.back().at("step"));
  require<ValueError>(step >= last, "Metrics::add: step ", step, " after step ", last,
                      "; steps are counted from 1 and must not decrease");
  if (rows_.empty() || step != last) rows_.push_back({{"step", concat_to_string(step)}});
  for (const auto& [metric, value] : values) {
    require<ValueError>(!metric.empty() && metric != "step" && metric != "state",
                        "Metrics::add: ", detail::in_quotes(metric), " is not a name of a metric");
    const bool is_new = rows_.back().emplace(metric, detail::hex_text(value)).second;
    require<ValueError>(is_new, "Metrics::add: step ", step, " already has ",
                        detail::in_quotes(metric));
  }
}

golden::Verdict check_bits(const TrainingFunction& train, const std::filesystem::path& golden,
                           const GoldenOptions& options) {
  return check_training(train, golden, options, false);
}

golden::Verdict check_statistics(const TrainingFunction& train, const std::filesystem::path& golden,
                                 const GoldenOptions& options) {
  return check_training(train, golden, options, true);
}

Verdict matches_golden(const TrainingFunction& train, const std::filesystem::path& golden,
                       const GoldenOptions& options) {
  return as_assertion(check_bits(train, golden, options));
}

Verdict trains_as_well(const TrainingFunction& train, const std::filesystem::path& golden,
                       const GoldenOptions& options) {
  return as_assertion(check_statistics(train, golden, options));
}

}  // namespace taper::v0::test
