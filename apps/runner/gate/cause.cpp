#include "apps/runner/gate/cause.h"

#include <algorithm>
#include <set>

namespace taper::v0::runner {
namespace {

// The keys and sections on which numbers do not depend.
const std::set<std::string> kIrrelevant = {"name",
                                           "device",
                                           "model.placement",
                                           "visible_devices",
                                           "threads",
                                           "data.workers",
                                           "data.on_device",
                                           "train.graph",
                                           "train.log_every",
                                           "train.recompute",
                                           "train.tensorboard",
                                           "train.profile",
                                           "checkpoint.every",
                                           "checkpoint.keep",
                                           "checkpoint.interval"};

std::string titled(const char* head, const std::string& lines) {
  return lines.empty() ? "" : concat_to_string(head, "\n", lines);
}

}  // namespace

std::string relevant_differences(const std::string& a, const std::string& b) {
  std::string out;
  for (const std::string& line : lines_of(config_differences(with_defaults(a), with_defaults(b)))) {
    const std::string key = line.substr(2, line.find(": ") - 2);
    const auto has_it = [&](const std::string& section) { return is_in_section(key, section); };
    if (std::ranges::none_of(kIrrelevant, has_it)) out += line + "\n";
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
    cause = program_cause(got.metadata.program, want.metadata.program);
  }
  std::string out;
  if (!cause.empty())
    out = concat_to_string("cause: ", cause, movement_text(movement_of(got.rows, want.rows)), "\n");
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
