#include "framework/gate/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "framework/io/text_utils.h"

namespace taper::v0::golden {
namespace {

using detail::joined;
using detail::rounded;

double tolerance_of(const Tolerances& tolerances, const std::string& metric) {
  const auto found = tolerances.find(metric), rest = tolerances.find("");
  if (found != tolerances.end()) return found->second;
  return rest == tolerances.end() ? 0 : rest->second;
}

std::string difference(const std::string& metric, const std::string& got, const std::string& want,
                       const Tolerances& tolerances, double atol) {
  if (got == want || (metric == "state" && !compares_state(tolerances))) return "";
  if (got.empty()) return concat_to_string("  the run has no ", metric, "\n");
  if (metric == "state")
    return concat_to_string("  weights after the step: ", got, ", recorded ", want, "\n");
  if (metric == "step") return concat_to_string("  step is ", got, ", recorded ", want, "\n");
  const double x = recorded_number(metric, got), y = recorded_number(metric, want),
               off = std::abs(x - y);
  const double rtol = tolerance_of(tolerances, metric);
  if (x == y || off <= atol + rtol * std::abs(y)) return "";
  return concat_to_string("  ", metric, " is ", x, " (", got, "), recorded ", y, " (", want,
                          "): relative difference ", rounded(off / std::abs(y), 2), ", allowed ",
                          rtol, atol > 0 ? concat_to_string(" and ", atol, " absolute") : "", "\n");
}

double relative_difference(const std::string& metric, const std::string& a, const std::string& b) {
  const double x = recorded_number(metric, a), y = recorded_number(metric, b);
  if (x == y || (std::isnan(x) && std::isnan(y))) return 0;
  const double out = std::abs(x - y) / std::abs(y);
  return std::isnan(out) ? std::numeric_limits<double>::infinity() : out;
}

bool is_number(const std::string& metric) { return metric != "step" && metric != "state"; }

// Returns the metrics of a row whose values differ.
std::vector<std::string> differing(const Row& got, const Row& want) {
  std::vector<std::string> out;
  for (const auto& [metric, value] : want) {
    const auto mine = got.find(metric);
    if (mine == got.end() || mine->second != value) out.push_back(metric);
  }
  return out;
}

// Returns the entries of both maps that differ, as "onednn 3.1 -> 3.2". `keys`: the only ones to
// compare.
std::vector<std::string> changes(const MetadataMap& got, const MetadataMap& want,
                                 const std::vector<const char*>& keys) {
  std::vector<std::string> out;
  for (const char* key : keys) {
    const auto mine = got.find(key), theirs = want.find(key);
    if (mine == got.end() || theirs == want.end() || mine->second == theirs->second) continue;
    out.push_back(concat_to_string(key, " ", theirs->second, " -> ", mine->second));
  }
  return out;
}

}  // namespace

bool compares_state(const Tolerances& tolerances) {
  if (tolerances.contains("state")) return tolerances.at("state") == 0;
  return std::ranges::all_of(tolerances, [](const auto& t) { return t.second == 0; });
}

Verdict compare_rows(const std::vector<Row>& got, const std::vector<Row>& want, bool is_whole,
                     const Tolerances& tolerances, double atol) {
  const auto end_of = [](const std::vector<Row>& rows) {
    return rows.empty() ? "the start" : "step " + rows.back().at("step");
  };
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    Row row = got[i];
    const Row& recorded = want[i];
    std::string found;
    for (const auto& [metric, value] : recorded)
      found += difference(metric, row[metric], value, tolerances, atol);
    if (found.empty()) continue;
    for (const auto& [metric, value] : got[i]) {
      if (!recorded.contains(metric) && metric != "state")
        found += concat_to_string("  the recording has no ", metric, ", which the run has\n");
    }
    Verdict out{false, concat_to_string("step ", recorded.at("step"), ":\n", found)};
    out.step = recorded.at("step");
    return out;
  }
  if (got.size() < want.size() || (is_whole && got.size() > want.size())) {
    return {false, concat_to_string("the lengths differ: the run ends after ", end_of(got),
                                    ", the recording after ", end_of(want), "\n")};
  }
  return {true, concat_to_string("the same as recorded, up to ", end_of(want), "\n")};
}

Movement movement_of(const std::vector<Row>& got, const std::vector<Row>& want) {
  Movement out;
  std::set<std::string> metrics;
  const size_t rows = std::min(got.size(), want.size());
  for (size_t i = 0; i < rows; ++i) {
    const std::vector<std::string> found = differing(got[i], want[i]);
    if (!found.empty() && out.step.empty()) out.step = want[i].at("step");
    for (const std::string& metric : found) {
      if (is_number(metric) && got[i].contains(metric)) metrics.insert(metric);
    }
  }
  if (metrics.empty()) return out;
  out.metric = metrics.contains("loss") ? "loss" : *metrics.begin();
  for (size_t i = 0; i < rows; ++i) {
    const auto mine = got[i].find(out.metric), theirs = want[i].find(out.metric);
    if (mine == got[i].end() || theirs == want[i].end()) continue;
    out.largest =
        std::max(out.largest, relative_difference(out.metric, mine->second, theirs->second));
  }
  return out;
}

std::string movement_text(const Movement& m) {
  if (m.step.empty()) return "";
  if (m.metric.empty()) return concat_to_string(": the weights differ from step ", m.step);
  return concat_to_string(": ", m.metric, " moved by up to ", rounded(m.largest, 2),
                          " (relative) from step ", m.step);
}

std::string program_cause(const MetadataMap& got, const MetadataMap& want) {
  const std::vector<std::string> libraries =
      changes(got, want,
              {"onednn", "cuda", "cublas", "cudnn", "nccl", "driver", "compiler", "test compiler",
               "isa", "gpu", "cpu", "device"});
  const std::vector<std::string> code = changes(got, want, {"taper", "commit"});
  if (libraries.empty() && code.empty()) {
    return "config, data files, versions and machine are as recorded: the program's code has "
           "changed";
  }
  if (code.empty()) return concat_to_string("same code, ", joined(libraries));
  if (libraries.empty())
    return concat_to_string("same libraries, different code (", joined(code), ")");
  return concat_to_string("different code (", joined(code), ") and ", joined(libraries),
                          "; run the old code here to see which of them moved the numbers");
}

}  // namespace taper::v0::golden
