#include "apps/runner/report/result_warnings.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>

#include <nlohmann/json.hpp>

#include "apps/runner/base/string_utils.h"
#include "apps/runner/run/run_metadata.h"

namespace taper::v0::runner {
namespace {

// The final loss is the mean of the last kLastSteps logged steps. A final loss of more than kWorse
// times the first one counts as diverged.
constexpr size_t kLastSteps = 10;
constexpr double kWorse = 3;

// Returns the loss of a "train" line of metrics.jsonl, NaN if it was not finite; nullopt for other
// lines.
std::optional<double> training_loss(const std::string& line) {
  const nlohmann::json row = nlohmann::json::parse(line, nullptr, false);
  if (!row.is_object() || row.value("kind", "") != "train" || !row.contains("loss")) return {};
  return row["loss"].is_number() ? row["loss"].get<double>() : NAN;
}

// Returns the losses of the first or the last lines. The file may have millions of lines.
std::vector<double> losses_near(const fs::path& metrics, bool at_end) {
  constexpr std::streamoff kBytes = 1 << 16;
  std::ifstream in(metrics, std::ios::binary);
  in.seekg(0, std::ios::end);
  const std::streamoff size = in.tellg(),
                       begin = at_end ? std::max<std::streamoff>(0, size - kBytes) : 0;
  in.seekg(begin);
  std::string text(size_t(std::min(kBytes, size - begin)), '\0');
  in.read(text.data(), std::streamsize(text.size()));
  std::vector<double> out;
  for (const std::string& line : lines_of(text)) {
    if (const auto loss = training_loss(line)) out.push_back(*loss);
  }
  return out;
}

std::string divergence(const fs::path& metrics) {
  const std::vector<double> begin = losses_near(metrics, false);
  std::vector<double> end = losses_near(metrics, true);
  if (begin.empty() || end.empty()) return "";
  if (end.size() > kLastSteps) end.erase(end.begin(), end.end() - std::ptrdiff_t(kLastSteps));
  double last = 0;
  for (const double loss : end) last += loss / double(end.size());
  constexpr const char* kAdvice = "; lower optimizer.lr or set train.clip_norm";
  if (!std::isfinite(last))
    return concat_to_string("the training loss was not finite at the end", kAdvice);
  if (!(begin[0] > 0 && last > kWorse * begin[0])) return "";
  return concat_to_string("the training loss is ", float(last), " at the end and was ",
                          float(begin[0]), " in the first step: the run has diverged", kAdvice);
}

// Returns the paths that a config names, by field.
std::map<std::string, std::string> paths_of(const DataConfig& config) {
  std::map<std::string, std::string> out;
  Component chosen = config;
  for (const Schema schema = chosen.schema(); const Field& field : schema.fields) {
    const auto* value = std::get_if<Value>(&field.target);
    if (!value || field.form != kPathWords || (value->is_given && !value->is_given())) continue;
    for (const Scalar& path : value->scalars({})) {
      out[field.name] = *std::get<std::string*>(path);
    }
  }
  return out;
}

// Adds a warning for each file "test_NAME" of the data with the same bytes as "train_NAME" or
// "NAME".
void add_equal_files(const fs::path& dir, const RunConfig& config, std::vector<std::string>& out) {
  constexpr std::string_view kTest = "test_";
  const std::map<std::string, std::string> files = metadata_of_run(dir).data;
  const std::map<std::string, std::string> paths = paths_of(config.data);
  for (const auto& [field, path] : paths) {
    if (!field.starts_with(kTest)) continue;
    const std::string name = field.substr(kTest.size());
    auto training = paths.find("train_" + name);
    if (training == paths.end()) training = paths.find(name);
    if (training == paths.end()) continue;
    const auto a = files.find(training->second), b = files.find(path);
    if (a == files.end() || b == files.end() || a->second != b->second) continue;
    out.push_back(concat_to_string("data.", field, " ('", path, "') has the same content as data.",
                                   training->first, " ('", training->second,
                                   "'): the run was tested on what it learned from"));
  }
}

}  // namespace

std::vector<std::string> warnings_about(const Metrics& metrics, const DataInfo& info) {
  std::vector<std::string> out;
  double accuracy = 0;
  for (const auto& [name, value] : metrics.values) {
    if (name == "accuracy") accuracy = value;
    if (name != "r2" || !(value < 0)) continue;
    out.push_back(
        concat_to_string("test r2 is ", float(value),
                         ", below 0: the mean of the targets would predict better than the model"));
  }
  const auto is_predicted = [](int64_t n) { return n > 0; };
  const auto first = std::ranges::find_if(metrics.predicted, is_predicted);
  if (std::ranges::count_if(metrics.predicted, is_predicted) != 1 || accuracy == 1) return out;
  const size_t i = size_t(first - metrics.predicted.begin());
  const std::string name = i < info.class_names.size() ? info.class_names[i] : concat_to_string(i);
  out.push_back(concat_to_string("the model predicts the class '", name, "' for all ", *first,
                                 " test samples: it has learned nothing about the others"));
  return out;
}

std::vector<std::string> warnings_about_run(const fs::path& dir, const RunConfig& config) {
  std::vector<std::string> out;
  if (std::string text = divergence(dir / "metrics.jsonl"); !text.empty()) {
    out.push_back(std::move(text));
  }
  add_equal_files(dir, config, out);
  return out;
}

}  // namespace taper::v0::runner
