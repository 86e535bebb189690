#include "apps/runner/gate/cause.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>

namespace taper::v0::runner {
namespace {

// The settings on which numbers do not depend.
const std::set<std::string> kIrrelevant = {"name",
                                           "device",
                                           "visible_devices",
                                           "threads",
                                           "data.workers",
                                           "data.on_device",
                                           "train.graph",
                                           "train.log_every",
                                           "train.tensorboard",
                                           "train.profile",
                                           "checkpoint.every",
                                           "checkpoint.keep",
                                           "checkpoint.interval"};

std::string titled(const char* head, const std::string& lines) {
  return lines.empty() ? "" : concat_to_string(head, "\n", lines);
}

double relative_difference(const std::string& metric, const std::string& a, const std::string& b) {
  const double x = recorded_number(metric, a), y = recorded_number(metric, b);
  if (x == y || (std::isnan(x) && std::isnan(y))) return 0;
  const double out = std::abs(x - y) / std::abs(y);
  return std::isnan(out) ? std::numeric_limits<double>::infinity() : out;
}

bool is_number(const std::string& metric) { return metric != "step" && metric != "state"; }

// Returns the metrics of a row whose values differ.
std::vector<std::string> differing(const Recording::Row& got, const Recording::Row& want) {
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

std::string moved(const Movement& m) {
  if (m.step.empty()) return "";
  if (m.metric.empty()) return concat_to_string(": the weights differ from step ", m.step);
  return fmt::format(": {} moved by up to {:.2g} (relative) from step {}", m.metric, m.largest,
                     m.step);
}

// Returns the cause if config and data are equal.
std::string program_cause(const Recording& got, const Recording& want) {
  const MetadataMap &mine = got.metadata.program, &theirs = want.metadata.program;
  const std::vector<std::string> libraries = changes(
      mine, theirs,
      {"onednn", "cuda", "cublas", "cudnn", "driver", "compiler", "isa", "gpu", "cpu", "device"});
  const std::vector<std::string> code = changes(mine, theirs, {"taper", "commit"});
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

}  // namespace

Movement movement_of(const std::vector<Recording::Row>& got,
                     const std::vector<Recording::Row>& want) {
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

std::string relevant_differences(const std::string& a, const std::string& b) {
  std::string out;
  for (const std::string& line : lines_of(config_differences(with_defaults(a), with_defaults(b)))) {
    if (!kIrrelevant.contains(line.substr(2, line.find(": ") - 2))) out += line + "\n";
  }
  return out;
}

bool has_same_inputs(const Recording& got, const Recording& want) {
  if (!relevant_differences(got.config, want.config).empty()) return false;
  return want.metadata.program.empty() || got.metadata.data == want.metadata.data;
}

std::string same_numbers_cause(const Recording& got, const Recording& want) {
  return titled("the numbers are the same, but the config differs (the run | the recording):",
                config_differences(with_defaults(got.config), with_defaults(want.config)));
}

std::string cause_of(const Recording& got, const Recording& want,
                     const std::vector<Recording::Row>& repeated) {
  const std::string config = relevant_differences(got.config, want.config);
  const bool is_old = got.metadata.program.empty() || want.metadata.program.empty();
  const std::string data = is_old ? "" : differences(got.metadata.data, want.metadata.data);
  const Movement between = movement_of(repeated, got.rows);
  std::string cause;
  if (!config.empty()) {
    cause = "the config differs";
  } else if (!data.empty()) {
    cause = "the data files differ";
  } else if (!between.step.empty()) {
    cause = concat_to_string(
        "the program is not deterministic: two runs of it differ first in step ", between.step);
  } else if (!is_old) {
    cause = program_cause(got, want);
  }
  std::string out;
  if (!cause.empty())
    out = concat_to_string("cause: ", cause, moved(movement_of(got.rows, want.rows)), "\n");
  out += titled("config (the run | the recording):", config);
  if (is_old) return out;
  out += titled("data (the run | the recording):", data);
  const auto versions = lines_of(differences(got.metadata.program, want.metadata.program));
  if (versions.empty()) return out;
  const auto inner = [](const std::string& line) { return line.substr(2); };
  return concat_to_string(out, "program or machine (the run | the recording): ",
                          joined(versions | std::views::transform(inner)), "\n");
}

}  // namespace taper::v0::runner
