#include "apps/runner/many/run_list.h"

#include <algorithm>
#include <cmath>
#include <ranges>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/runner/base/string_utils.h"
#include "apps/runner/base/text_table.h"
#include "apps/runner/components/tables.h"

namespace taper::v0::runner {
namespace {

using Json = nlohmann::ordered_json;
using SystemClock = std::chrono::system_clock;

constexpr size_t kMostName = 200;  // bytes of a name in the table

void find_in(const fs::path& folder, std::vector<RunSummary>& out) {
  if (is_begun_run(folder)) {
    try {
      out.push_back(summarize_run(folder));
    } catch (const InputError& error) {
      out.push_back({.dir = folder, .state = "damaged", .message = error.what()});
    }
    return;
  }
  std::error_code ignored;  // a folder that may not be read has no runs for this user
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.is_directory(ignored) && !entry.is_symlink(ignored)) find_in(entry.path(), out);
  }
}

// Returns "45 s", "12 min", "5 h" or "3 d".
std::string age_text(SystemClock::time_point since) {
  if (since == SystemClock::time_point()) return "";
  const double seconds = std::chrono::duration<double>(SystemClock::now() - since).count();
  if (seconds < 60) return fmt::format("{:.0f} s", std::max(0.0, seconds));
  if (seconds < 3600) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.0f} h", seconds / 3600);
  return fmt::format("{:.0f} d", seconds / 86400);
}

std::string size_text(uintmax_t bytes) {
  const double mib = double(bytes) / (1 << 20);
  if (mib < 1024) return fmt::format("{:.1f} MiB", mib);
  return fmt::format("{:.1f} GiB", mib / 1024);
}

std::string metrics_text(const RunSummary& run) {
  if (!run.message.empty()) return run.message.substr(0, run.message.find('\n'));
  std::string text;
  for (const auto& [name, value] : run.metrics)
    text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", name, value);
  return text.empty() || run.are_of_saved_weights ? text : text + " (last evaluation)";
}

// Returns the sign by which larger metrics come first.
bool is_larger_better(const std::string& metric) {
  const std::string name = metric.substr(metric.rfind('.') + 1);
  return std::ranges::count(goals(), name) > 0 && is_better_when_greater(name);
}

void require_metric(const std::vector<RunSummary>& runs, const std::string& key) {
  if (runs.empty()) return;
  std::vector<std::string> names = {"age", "name", "state", "steps", "size"};
  for (const RunSummary& run : runs) {
    for (const auto& [name, value] : run.metrics) {
      if (std::ranges::count(names, name) == 0) names.push_back(name);
    }
  }
  if (std::ranges::count(names, key) > 0) return;
  throw ConfigError(concat_to_string("--sort ", key, ": no run has that metric",
                                     did_you_mean(nearest(key, names)), "; expected one of ",
                                     joined(names)));
}

}  // namespace

std::vector<RunSummary> find_runs(const fs::path& folder) {
  require<InputError>(fs::is_directory(folder), "there is no folder '", folder.string(), "'");
  std::vector<RunSummary> out;
  find_in(folder, out);
  return out;
}

void sort_runs(std::vector<RunSummary>& runs, const std::string& key) {
  std::ranges::sort(runs, {}, &RunSummary::dir);
  if (key == "name") return;
  if (key == "age") {
    std::ranges::stable_sort(runs, std::greater(), &RunSummary::started);
  } else if (key == "state") {
    std::ranges::stable_sort(runs, {}, &RunSummary::state);
  } else if (key == "steps") {
    std::ranges::stable_sort(runs, std::greater(), &RunSummary::steps);
  } else if (key == "size") {
    std::ranges::stable_sort(runs, std::greater(), &RunSummary::bytes);
  } else {
    require_metric(runs, key);
    const double sign = is_larger_better(key) ? -1 : 1;
    std::ranges::stable_sort(runs, {}, [&](const RunSummary& run) {
      const double* value = run.find(key);
      return value && !std::isnan(*value) ? sign * *value : INFINITY;
    });
  }
}

std::string run_table(const std::vector<RunSummary>& runs, const fs::path& folder) {
  if (runs.empty()) return concat_to_string("there are no runs in '", folder.string(), "'\n");
  std::vector<std::vector<std::string>> rows = {
      {"run", "age", "state", "data", "steps", "size", "metrics of the saved weights"}};
  for (const RunSummary& run : runs) {
    const fs::path name = run.dir.lexically_relative(folder);
    const std::string shown = name == "." || name.empty() ? run.dir.string() : name.string();
    rows.push_back({escaped_for_display(shown, kMostName), age_text(run.started), run.state,
                    run.data, concat_to_string(run.steps), size_text(run.bytes),
                    metrics_text(run)});
  }
  return text_table(rows, 4, 5);
}

std::string run_json(const std::vector<RunSummary>& runs) {
  Json out = Json::array();
  for (const RunSummary& run : runs) {
    Json row = {{"run", run.dir.string()}, {"state", run.state}, {"steps", run.steps},
                {"epoch", run.epoch},      {"data", run.data},   {"bytes", run.bytes}};
    const auto started = SystemClock::to_time_t(run.started);
    if (started != 0) row["started"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(started));
    if (run.code >= 0) row["code"] = run.code;
    if (!run.message.empty()) row["message"] = run.message;
    if (!run.metrics.empty())
      row["metrics_of"] = run.are_of_saved_weights ? "saved weights" : "last evaluation";
    row["metrics"] = Json::object();
    for (const auto& [name, value] : run.metrics) row["metrics"][name] = value;
    out.push_back(std::move(row));
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace taper::v0::runner
