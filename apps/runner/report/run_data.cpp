#include "apps/runner/report/run_data.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/runner/base/files.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/components/tables.h"
#include "apps/runner/config/json_reader.h"
#include "apps/runner/evaluation/class_details.h"
#include "apps/runner/evaluation/evaluation_file.h"
#include "apps/runner/report/curves.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/run/run_metadata.h"

namespace taper::v0::runner {
namespace {

using Json = nlohmann::ordered_json;

// Longer texts are cut, so that one run cannot make the page slow.
constexpr size_t kMaxText = 20'000;

// Returns whether the row has the keys and types that the report requires.
bool is_sound(const Json& row) {
  const auto is = [&](const char* key, bool (Json::*has_kind)() const noexcept) {
    return !row.contains(key) || (row[key].*has_kind)();
  };
  const auto are_counts = [](const Json& list) {
    return list.is_array() && std::ranges::all_of(list, &Json::is_number_integer);
  };
  return row.is_object() && row.contains("step") && is("step", &Json::is_number) &&
         is("kind", &Json::is_string) && is("split", &Json::is_string) &&
         is("seconds", &Json::is_number) && is("peak_bytes", &Json::is_number) &&
         is("samples_per_second", &Json::is_number) && is("confusion", &Json::is_array) &&
         (!row.contains("confusion") || std::ranges::all_of(row["confusion"], are_counts));
}

// Returns the lines of a JSONL file. Ignores a last line without a line break, which is still being
// written.
std::vector<Json> read_lines(const fs::path& file) {
  std::vector<Json> out;
  const std::string text = read_file(file, "numbers of the run");
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string_view line = std::string_view(text).substr(at, end - at);
    out.push_back(json_value<Json>(line, file.string(), std::ssize(out) + 1));
    if (is_sound(out.back())) continue;
    throw InputError(concat_to_string(file.string(), ":", out.size(),
                                      ": the line is damaged: ", escaped_for_display(line, 80)));
  }
  return out;
}

std::string read_text(const fs::path& file) {
  return fs::exists(file) ? read_file(file, "text of the run") : "";
}

std::string cut(const std::string& text) {
  return text.size() > kMaxText ? text.substr(0, kMaxText) + "\n..." : text;
}

Json read_metadata(const fs::path& file) {
  return fs::exists(file) ? read_json_file<Json>(file, "metadata of the run") : Json::object();
}

// --- curves ---

// Returns whether the values of a key become a curve. From timing.jsonl only rates do, because
// other times of runs cannot be compared. Memory is one number for the whole run.
bool is_shown(const Json& row, const std::string& key) {
  if (!row[key].is_number() || key == "step" || key == "epoch") return false;
  const std::string kind = row.value("kind", "");
  return kind != "memory" && (kind != "epoch" || key.ends_with("_per_second"));
}

struct Points {
  std::string key, split;
  std::vector<double> x{}, y{};
};

Points& points_of(std::vector<Points>& all, const std::string& key, const std::string& split) {
  const auto found =
      std::ranges::find_if(all, [&](const Points& p) { return p.key == key && p.split == split; });
  return found == all.end() ? all.emplace_back(Points{key, split}) : *found;
}

void add_rows(const std::vector<Json>& rows, std::vector<Points>& out) {
  for (const Json& row : rows) {
    const std::string split = row.value("split", "");
    for (const auto& [key, value] : row.items()) {
      if (!is_shown(row, key)) continue;
      Points& points = points_of(out, key, split);
      points.x.push_back(row["step"].get<double>());
      points.y.push_back(value.get<double>());
    }
  }
}

Json curve_json(const Points& points, size_t most) {
  const Curve curve = reduced_curve(points.x, points.y, most);
  Json out = {{"key", points.key}, {"split", points.split}, {"x", curve.x}, {"y", curve.mean}};
  if (!curve.low.empty()) out["low"] = curve.low;
  if (!curve.high.empty()) out["high"] = curve.high;
  return out;
}

// Returns the points of `taper lr-find`, or null if the run has none.
Json rates_json(const Json& found) {
  if (!found.contains("points") || !found["points"].is_array()) return nullptr;
  Json out = {{"lr", Json::array()}, {"loss", Json::array()}, {"average", Json::array()}};
  for (const Json& point : found["points"]) {
    for (auto& [key, values] : out.items()) {
      const bool has_value = point.is_object() && point.contains(key) && point[key].is_number();
      values.push_back(has_value ? point[key] : Json());
    }
  }
  return out;
}

// --- results ---

// Adds how the run has ended, or that it goes on.
void add_state(const fs::path& dir, const Json& end, Json& out) {
  const auto text = [](const Json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  const std::string reason = end.contains("reason") ? text(end["reason"]) : "";
  const Json code = end.contains("code") ? end["code"] : Json(kExitOk);
  if (is_locked(dir)) {
    out["state"] = "running";
  } else if (!end.contains("reason")) {
    out["state"] = "unfinished";
  } else if (code == kExitOk) {
    out["state"] = reason;
  } else {
    out["state"] = code == kExitInterrupted ? "interrupted" : "failed";
    out["message"] = cut(reason);
  }
  for (const char* key : {"warnings", "thresholds", "model_step", "best_step"}) {
    if (end.contains(key)) out[key] = end[key];
  }
}

// Adds the time of training, its rate and the memory. A key is missing while nothing is known.
void add_times(const std::vector<Json>& rows, Json& out) {
  double seconds = 0, samples = 0;
  for (const Json& row : rows) {
    seconds += row.value("seconds", 0.0);
    samples += row.value("seconds", 0.0) * row.value("samples_per_second", 0.0);
    if (row.contains("peak_bytes")) out["peak_bytes"] = row["peak_bytes"];
    if (row.contains("ratio")) out["peak_ratio"] = row["ratio"];
  }
  if (seconds <= 0) return;
  out["seconds"] = seconds;
  out["samples_per_second"] = samples / seconds;
}

// Adds the metric by which the run chooses its weights, and for each metric whether larger values
// are better.
void add_goals(const MetadataMap& config, const std::vector<Points>& curves, Json& out) {
  out["goal"] = "loss";
  for (const char* key : {"train.early_stopping.metric", "train.best.metric"}) {
    const auto found = config.find(key);
    if (found != config.end() && found->second != "null") out["goal"] = found->second;
  }
  const std::vector<std::string> known = goals();
  std::vector<std::string> rising;
  for (const Points& curve : curves) {
    const std::string name = curve.key.substr(curve.key.rfind('.') + 1);
    const bool is_rising = std::ranges::count(known, name) > 0 && is_better_when_greater(name);
    if (is_rising && std::ranges::count(rising, curve.key) == 0) rising.push_back(curve.key);
  }
  out["rising"] = rising;
}

// Returns the last confusion matrix that the run has logged, or null.
Json logged_confusion(const std::vector<Json>& metrics) {
  const auto last = std::find_if(metrics.rbegin(), metrics.rend(),
                                 [](const Json& row) { return row.contains("confusion"); });
  if (last == metrics.rend()) return nullptr;
  const auto counts = (*last)["confusion"].get<std::vector<std::vector<int64_t>>>();
  Json out = Json::parse(confusion_json(counts));
  out["split"] = last->value("split", "");
  out["step"] = (*last)["step"];
  return out;
}

void add_classes(const fs::path& dir, const std::vector<Json>& metrics, Json& out) {
  const Json data = read_metadata(dir / "data.json");
  if (data.contains("class_names")) out["class_names"] = data["class_names"];
  out["confusion"] = logged_confusion(metrics);
  const Json evaluation = read_metadata(dir / kEvaluationFile);
  if (!evaluation.empty()) out["evaluation"] = evaluation;
}

}  // namespace

std::string run_data(const fs::path& dir, size_t points) {
  const std::string yaml = read_text(dir / "config.yaml");
  if (!yaml.empty()) verify_run(dir);
  const std::vector<Json> metrics = read_lines(dir / "metrics.jsonl");
  const fs::path timing = dir / "timing.jsonl";
  const std::vector<Json> times = fs::exists(timing) ? read_lines(timing) : std::vector<Json>();
  std::vector<Points> curves;
  add_rows(metrics, curves);
  add_rows(times, curves);
  Json out = {{"name", dir.string()}};
  add_state(dir, read_metadata(dir / "exit.json"), out);
  for (const char* key : {"step", "epoch"}) {
    if (!metrics.empty() && metrics.back().contains(key)) out[key] = metrics.back()[key];
  }
  add_times(times, out);
  const MetadataMap config = flat_config(yaml);
  add_goals(config, curves, out);
  out["curves"] = Json::array();
  for (const Points& curve : curves) out["curves"].push_back(curve_json(curve, points));
  out["rates"] = rates_json(read_metadata(dir / "lr_find.json"));
  add_classes(dir, metrics, out);
  out["settings"] = config;
  out["config"] = cut(yaml);
  out["system"] = read_metadata(dir / "env.json");
  out["samples"] = cut(read_text(dir / "samples.txt"));
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string unreadable_run_data(const fs::path& dir, const std::string& message) {
  const Json out = {{"name", dir.string()},
                    {"state", "unreadable"},
                    {"message", cut(message)},
                    {"curves", Json::array()},
                    {"settings", Json::object()}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace taper::v0::runner
