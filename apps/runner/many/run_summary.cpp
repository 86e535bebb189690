#include "apps/runner/many/run_summary.h"

#include <algorithm>
#include <map>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "apps/runner/base/files.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/config/json_reader.h"
#include "apps/runner/config/yaml.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/train/train.h"

namespace taper::v0::runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kStopped = "stopped";

// The "eval" lines of metrics.jsonl, and the step and the epoch of the last line.
struct Evaluations {
  std::vector<Json> rows{};
  int64_t last_step = 0, last_epoch = 0;
};

// Parses only the lines of evaluations and the last one, because a run may have a million lines.
Evaluations evaluations_of(const fs::path& file) {
  Evaluations out;
  if (!fs::exists(file)) return out;
  const std::string text = read_file(file, "numbers of the run");
  int64_t number = 0;
  std::string_view last;
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    last = std::string_view(text).substr(at, end - at);
    ++number;
    if (last.starts_with(R"({"kind":"eval")"))
      out.rows.push_back(json_value<Json>(last, file.string(), number));
  }
  if (number == 0) return out;
  const Json row = json_value<Json>(last, file.string(), number);
  out.last_step = row.value("step", int64_t(0));
  out.last_epoch = row.value("epoch", int64_t(0));
  return out;
}

void add_metrics(const Json& row, std::vector<std::pair<std::string, double>>& out) {
  const std::string split = row.value("split", "test");
  for (const auto& [key, value] : row.items()) {
    if (!value.is_number() || key == "step" || key == "epoch") continue;
    const std::string name = concat_to_string(split, ".", key);
    const auto known = std::ranges::find(out, name, &std::pair<std::string, double>::first);
    if (known == out.end()) {
      out.emplace_back(name, value.get<double>());
    } else {
      known->second = value.get<double>();  // with the chosen threshold
    }
  }
}

// Sets the metrics after the step whose weights are saved; if there are none, those of the last
// evaluation.
void set_metrics(RunSummary& out, const std::vector<Json>& rows, int64_t saved_step) {
  for (const Json& row : rows) {
    if (row.value("step", int64_t(-1)) == saved_step) add_metrics(row, out.metrics);
  }
  out.are_of_saved_weights = !out.metrics.empty();
  if (out.metrics.empty() && !rows.empty()) add_metrics(rows.back(), out.metrics);
}

std::string text_at(const Node& root, const char* section, const char* key) {
  const Node* in = root.find(section);
  const Node* value = in ? in->find(key) : nullptr;
  if (value == nullptr || value->kind == Node::Kind::kNull) return "";
  if (value->kind == Node::Kind::kScalar) return value->text;
  const size_t files = value->children.size();
  return files == 0 ? "" : concat_to_string(value->children[0].text, files > 1 ? ", ..." : "");
}

// Reads the config without its schema, because the run may be that of an older version.
std::string data_of(const fs::path& file) {
  const Document config = parse_yaml(read_file(file, "config of the run"), {});
  if (!config.root) return "";
  for (const char* key : {"path", "root", "inputs", "train_images", "type"}) {
    if (const std::string text = text_at(*config.root, "data", key); !text.empty()) return text;
  }
  return "";
}

void read_end(const fs::path& file, RunSummary& out) {
  const Json end = read_json_file<Json>(file, "end of the run");
  out.code = end.value("code", -1);
  const std::string reason = end.value("reason", "");
  if (out.code == kExitOk) {
    out.state = reason == kPaused ? kStopped : reason;
  } else {
    out.state = out.code == kExitInterrupted ? "interrupted" : "failed";
    out.message = reason;
  }
}

uintmax_t bytes_in(const fs::path& dir) {
  uintmax_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator i(dir, error), end; i != end; i.increment(error)) {
    if (error) break;  // a file of a running run may disappear
    const uintmax_t size = i->is_regular_file(error) ? i->file_size(error) : 0;
    if (!error) bytes += size;
  }
  return bytes;
}

std::chrono::system_clock::time_point written_at(const fs::path& file) {
  struct stat about {};
  return ::stat(file.c_str(), &about) == 0 ? std::chrono::system_clock::from_time_t(about.st_mtime)
                                           : std::chrono::system_clock::time_point();
}

}  // namespace

bool RunSummary::is_complete() const { return code == kExitOk && !is_paused(); }
bool RunSummary::is_paused() const { return code == kExitOk && state == kStopped; }

const double* RunSummary::find(const std::string& metric) const {
  const auto found = std::ranges::find(metrics, metric, &std::pair<std::string, double>::first);
  return found == metrics.end() ? nullptr : &found->second;
}

std::string RunSummary::evaluated_on() const {
  const bool has_validation = std::ranges::any_of(
      metrics, [](const auto& metric) { return metric.first.starts_with("validation."); });
  return has_validation ? "validation" : "test";
}

bool is_begun_run(const fs::path& dir) {
  return fs::exists(dir / "config.yaml") && fs::exists(dir / "env.json");
}

RunSummary summarize_run(const fs::path& dir) try {
  RunSummary out{.dir = dir, .state = "killed"};
  const Evaluations found = evaluations_of(dir / "metrics.jsonl");
  int64_t saved_step = -1;
  if (fs::exists(dir / "exit.json")) {
    read_end(dir / "exit.json", out);
    saved_step = read_json_file<Json>(dir / "exit.json", "end of the run").value("model_step", -1);
  }
  if (is_locked(dir)) {
    out.state = "running";
    out.code = saved_step = -1;
  }
  out.steps = found.last_step;
  out.epoch = found.last_epoch;
  out.data = data_of(dir / "config.yaml");
  set_metrics(out, found.rows, saved_step);
  out.started = written_at(dir / "env.json");
  out.bytes = bytes_in(dir);
  return out;
} catch (const Json::exception& error) {
  throw InputError(concat_to_string("'", dir.string(), "' has a damaged file: ", error.what()));
}

}  // namespace taper::v0::runner
