#include "framework/gate/curves.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "framework/io/text_utils.h"

namespace taper::v0::golden {
namespace {

using detail::joined;
using detail::lines_of;
using detail::rounded;

// The place of a row: its step, and what was evaluated after it. A row of training comes first.
using RowKey = std::tuple<int64_t, std::string>;

std::string part_of(const std::string& metric) {
  const size_t dot = metric.find('.');
  return dot == std::string::npos ? "" : metric.substr(0, dot);
}

RowKey key_of(const Row& row) {
  std::string part;
  for (const auto& [metric, value] : row) {
    if (metric != "step" && metric != "state") part = part_of(metric);
  }
  return {std::stoll(row.at("step")), part};
}

void check_finite(int64_t seed, const Row& row) {
  for (const auto& [metric, text] : row) {
    if (metric == "step" || metric == "state") continue;
    if (std::isfinite(recorded_number(metric, text))) continue;
    throw DataError("seed ", seed, ": ", metric, " is ", text, " at step ", row.at("step"),
                    "; statistics need finite numbers");
  }
}

// Returns the mean of the curve of each seed by metric. Without "step" and "grad_norm".
std::map<std::string, std::vector<double>> summaries_of(const Curves& curves) {
  struct Sum {
    double sum = 0;
    int64_t count = 0;
  };
  std::map<std::string, std::vector<Sum>> sums;
  for (const Row& row : curves.rows) {
    for (const auto& [metric, text] : row) {
      if (metric == "step" || metric == "grad_norm") continue;
      std::vector<Sum>& of_metric = sums[metric];
      of_metric.resize(curves.seeds.size());
      const std::vector<std::string> words = lines_of(text, ' ');
      for (size_t i = 0; i < std::min(words.size(), of_metric.size()); ++i) {
        if (words[i] == "-") continue;
        of_metric[i].sum += recorded_number(metric, words[i]);
        ++of_metric[i].count;
      }
    }
  }
  std::map<std::string, std::vector<double>> out;
  for (const auto& [metric, of_metric] : sums) {
    for (const Sum& s : of_metric) {
      if (s.count > 0) out[metric].push_back(s.sum / double(s.count));
    }
  }
  return out;
}

std::string last_step(const Curves& curves) {
  return curves.rows.empty() ? "0" : curves.rows.back().at("step");
}

// Returns whether all seeds have all rows. They do not if some of them stopped early.
bool is_complete(const Curves& curves) {
  const auto has_gap = [](const auto& value) {
    const std::vector<std::string> words = lines_of(value.second, ' ');
    return std::ranges::count(words, "-") > 0;
  };
  return std::ranges::none_of(curves.rows,
                              [&](const Row& row) { return std::ranges::any_of(row, has_gap); });
}

void require_seeds(const Curves& curves, const char* whose) {
  require<ValueError>(std::ssize(curves.seeds) >= kFewestSeeds, whose, " has ", curves.seeds.size(),
                      curves.seeds.size() == 1 ? " seed" : " seeds", "; statistics need at least ",
                      kFewestSeeds);
}

// Corrects the p values for their number, and finds what the tests can detect. Holm's procedure
// compares the smallest p value with alpha divided by the number of metrics.
void complete(std::vector<MetricComparison>& metrics, const Significance& significance) {
  std::vector<double> p;
  for (const MetricComparison& m : metrics) p.push_back(m.test.p);
  const std::vector<double> adjusted = holm_adjusted(p);
  const double alpha = significance.alpha / double(std::max<size_t>(1, metrics.size()));
  for (size_t i = 0; i < metrics.size(); ++i) {
    MetricComparison& m = metrics[i];
    const double sd = pooled_sd(m.got, m.want);
    m.adjusted_p = adjusted[i];
    m.detectable = sd == 0 ? 0 : detectable_shift(m.got, m.want, alpha) / sd;
    m.power = test_power(m.got.n, m.want.n, significance.detect, alpha);
  }
}

std::string sample_text(const Sample& s) {
  return concat_to_string(rounded(s.mean, 5), " ± ", rounded(s.sd, 2));
}

std::string line_of(const MetricComparison& m, const Significance& significance) {
  const bool is_worse = m.adjusted_p < significance.alpha;
  return concat_to_string(
      "  ", m.metric, ": ", sample_text(m.got), " over ", m.got.n, " seeds, recorded ",
      sample_text(m.want), " over ", m.want.n, ": ", m.test.shift > 0 ? "worse" : "better", " by ",
      rounded(std::abs(m.test.shift), 3), " (", rounded(std::abs(m.test.effect), 2),
      " SD), p = ", rounded(m.adjusted_p, 2), is_worse ? " (fail)" : "", "; detects ",
      rounded(m.detectable, 3), " SD, power for ", rounded(significance.detect, 3), " SD up to ",
      int64_t(std::lround(100 * m.power)), " %\n");
}

}  // namespace

Curves combine_curves(const std::vector<int64_t>& seeds,
                      const std::vector<std::vector<Row>>& rows) {
  std::map<RowKey, std::map<std::string, std::vector<std::string>>> all;
  for (size_t seed = 0; seed < rows.size(); ++seed) {
    for (const Row& row : rows[seed]) {
      check_finite(seeds[seed], row);
      for (const auto& [metric, text] : row) {
        if (metric == "step" || metric == "state") continue;
        std::vector<std::string>& words = all[key_of(row)][metric];
        words.resize(rows.size(), "-");
        words[seed] = text;
      }
    }
  }
  Curves out{seeds};
  for (const auto& [key, metrics] : all) {
    Row& row = out.rows.emplace_back();
    row["step"] = concat_to_string(std::get<0>(key));
    for (const auto& [metric, words] : metrics) {
      for (const std::string& word : words) {
        std::string& text = row[metric];
        text += (text.empty() ? "" : " ") + word;
      }
    }
  }
  return out;
}

Curves first_seeds(const Curves& curves, int64_t count) {
  if (count >= std::ssize(curves.seeds)) return curves;
  Curves out = curves;
  out.seeds.resize(size_t(count));
  for (Row& row : out.rows) {
    for (auto& [metric, text] : row) {
      if (metric == "step") continue;
      const std::vector<std::string> words = lines_of(text, ' ');
      text.clear();
      for (int64_t i = 0; i < count; ++i) text += (i == 0 ? "" : " ") + words.at(size_t(i));
    }
  }
  return out;
}

CurveComparison compare_curves(const Curves& got, const Curves& want,
                               const Significance& significance,
                               const std::function<Better(const std::string&)>& better_of) {
  require_seeds(want, "the recording");
  require_seeds(got, "the run");
  CurveComparison out;
  const auto mine = summaries_of(got), theirs = summaries_of(want);
  for (const auto& [metric, values] : theirs) {
    const auto found = mine.find(metric);
    if (found == mine.end() || std::ssize(found->second) < kFewestSeeds) {
      out.missing.push_back(metric);
      continue;
    }
    if (std::ssize(values) < kFewestSeeds) continue;
    MetricComparison& m = out.metrics.emplace_back();
    m.metric = metric;
    m.got = sample_of(found->second);
    m.want = sample_of(values);
    m.test = welch_test(m.got, m.want, better_of(metric));
  }
  for (const auto& [metric, values] : mine) {
    if (!theirs.contains(metric)) out.added.push_back(metric);
  }
  if (is_complete(got) && is_complete(want) && last_step(got) != last_step(want)) {
    out.different_steps =
        concat_to_string("the curves end after different steps: the run's after ", last_step(got),
                         ", the recorded ones after ", last_step(want), "\n");
  }
  complete(out.metrics, significance);
  return out;
}

Verdict verdict_of(const CurveComparison& comparison, const Significance& significance) {
  Verdict out;
  double detectable = 0;
  bool fails = !comparison.missing.empty() || !comparison.different_steps.empty();
  std::string lines = comparison.different_steps;
  for (const MetricComparison& m : comparison.metrics) {
    fails = fails || m.adjusted_p < significance.alpha;
    detectable = std::max(detectable, m.detectable);
    lines += line_of(m, significance);
  }
  if (!comparison.missing.empty()) {
    lines += concat_to_string("  the run has no ", joined(comparison.missing),
                              ", which the recording has\n");
  }
  if (!comparison.added.empty()) {
    lines += concat_to_string("  the recording has no ", joined(comparison.added),
                              ", which the run has: not compared; `taper bless` adds them\n");
  }
  out.is_inconclusive = !fails && (comparison.metrics.empty() || detectable > significance.detect);
  out.passed = !fails && !out.is_inconclusive;
  out.metrics = comparison.metrics;
  out.text = concat_to_string(out.name(), ": mean of each curve, worse at p < ",
                              rounded(significance.alpha, 6), " (Welch, Holm over ",
                              comparison.metrics.size(),
                              comparison.metrics.size() == 1 ? " metric)\n" : " metrics)\n", lines);
  if (out.is_inconclusive && !comparison.metrics.empty()) {
    const double alpha = significance.alpha / double(comparison.metrics.size());
    out.text += concat_to_string("the smallest shift that is found, ", rounded(detectable, 3),
                                 " SD, exceeds ", significance.detect_name, " ",
                                 rounded(significance.detect, 3), ": record and check with ",
                                 seeds_needed(significance.detect, alpha),
                                 " seeds each, or give a larger ", significance.detect_name, "\n");
  }
  return out;
}

}  // namespace taper::v0::golden
