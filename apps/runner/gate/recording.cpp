#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <zlib.h>

#include "apps/runner/base/files.h"
#include "apps/runner/gate/gate.h"
#include "apps/runner/gate/golden.h"

namespace taper::v0::runner {
namespace {

// Formats all bits of the number, like C's %a.
std::string hex(double value) { return fmt::format("{:a}", value); }

double tolerance_of(const Tolerances& tolerances, const std::string& metric) {
  const auto found = tolerances.find(metric), rest = tolerances.find("");
  if (found != tolerances.end()) return found->second;
  return rest == tolerances.end() ? 0 : rest->second;
}

std::string difference(const std::string& metric, const std::string& got, const std::string& want,
                       const Tolerances& tolerances) {
  if (got == want || (metric == "state" && !compares_state(tolerances))) return "";
  if (got.empty()) return concat_to_string("  the run has no ", metric, "\n");
  if (metric == "state")
    return concat_to_string("  weights after the step: ", got, ", recorded ", want, "\n");
  if (metric == "step") return concat_to_string("  step is ", got, ", recorded ", want, "\n");
  const double x = recorded_number(metric, got), y = recorded_number(metric, want),
               off = std::abs(x - y);
  const double rtol = tolerance_of(tolerances, metric);
  if (x == y || off <= rtol * std::abs(y)) return "";
  return concat_to_string("  ", metric, " is ", x, " (", got, "), recorded ", y, " (", want,
                          "): relative difference ", fmt::format("{:.2g}", off / std::abs(y)),
                          ", allowed ", rtol, "\n");
}

std::string state_hash(const Module& model) {
  uLong sum = 0;
  for (const NamedTensor& named : model.state_dict()) {
    const Tensor x = named.tensor.cpu().contiguous();
    sum = crc32_z(sum, static_cast<const Bytef*>(x.data_ptr()), x.nbytes());
  }
  return hex_crc32(uint32_t(sum));
}

}  // namespace

double recorded_number(const std::string& metric, const std::string& given) {
  std::string text = given;
  if (const size_t at = text.find("0x"); at != std::string::npos) text.erase(at, 2);
  double value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value, std::chars_format::hex);
  if (!text.empty() && read.ec == std::errc() && read.ptr == end) return value;
  throw InputError(
      concat_to_string("damaged recording: ", metric, " is '", text, "', expected a hex float"));
}

bool compares_state(const Tolerances& tolerances) {
  if (tolerances.contains("state")) return tolerances.at("state") == 0;
  return std::ranges::all_of(tolerances, [](const auto& t) { return t.second == 0; });
}

Tolerances tolerances_of(const Recording& golden, Tolerances given) {
  if (!given.contains("")) given.insert(golden.tolerances.begin(), golden.tolerances.end());
  return given;
}

Tolerances parse_tolerances(const std::vector<std::string>& words) {
  std::vector<std::string> known = {"loss", "grad_norm", "state"};
  for (const std::string& goal : goals()) {
    known.push_back("test." + goal);
    known.push_back("validation." + goal);
  }
  Tolerances out;
  for (const std::string& word : words) {
    const size_t equals = word.find('='), value = equals == std::string::npos ? 0 : equals + 1;
    const std::string name = word.substr(0, value == 0 ? 0 : equals);
    if (value > 0 && std::ranges::count(known, name) == 0) {
      throw ConfigError(concat_to_string("tolerance ", in_quotes(word), ": there is no metric ",
                                         in_quotes(name), did_you_mean(nearest(name, known)),
                                         "; 1e-5 is for all metrics, loss=1e-5 for ", "one of ",
                                         joined(known)));
    }
    const Field rtol{concat_to_string("tolerance ", in_quotes(word)), value_of(out[name]), "",
                     kNonNegative};
    read_word(rtol, word.substr(value));
  }
  return out;
}

void save_recording(const Recording& recording, const fs::path& file) {
  Golden golden;
  golden.config = recording.config;
  golden.steps = recording.steps;
  golden.state_every = recording.state_every;
  GoldenSection& section = golden.sections.emplace_back();
  section.metadata = recording.metadata;
  section.tolerances = recording.tolerances;
  section.rows = recording.rows;
  save_golden(golden, file);
}

Recording load_recording(const fs::path& file) {
  const Golden golden = load_golden(file);
  return golden.recording(golden.sections.front());
}

Verdict compare(const Recording& got, const Recording& golden, const Tolerances& tolerances) {
  const Tolerances all = tolerances_of(golden, tolerances);
  const auto end_of = [](const Recording& r) {
    return r.rows.empty() ? "the start" : "step " + r.rows.back().at("step");
  };
  for (size_t i = 0; i < std::min(got.rows.size(), golden.rows.size()); ++i) {
    Recording::Row row = got.rows[i];
    const Recording::Row& want = golden.rows[i];
    std::string found;
    for (const auto& [metric, value] : want) found += difference(metric, row[metric], value, all);
    if (found.empty()) continue;
    Verdict out{false, concat_to_string("step ", want.at("step"), ":\n", found)};
    out.step = want.at("step");
    return out;
  }
  if (got.rows.size() < golden.rows.size() ||
      (golden.steps == 0 && got.rows.size() > golden.rows.size())) {
    return {false, concat_to_string("the lengths differ: the run ends after ", end_of(got),
                                    ", the recording after ", end_of(golden), "\n")};
  }
  return {true, concat_to_string("the same as recorded, up to ", end_of(golden), "\n")};
}

bool Recorder::on_step(int64_t step, double loss, double grad_norm) {
  Recording::Row row = {
      {"step", concat_to_string(step)}, {"loss", hex(loss)}, {"grad_norm", hex(grad_norm)}};
  const bool is_last = step == taken.steps;
  if (is_last || step % std::max<int64_t>(1, taken.state_every) == 0)
    row["state"] = state_hash(*model_);
  taken.rows.push_back(std::move(row));
  return !is_last;
}

void Recorder::on_eval(int64_t step, const std::string& split, const Metrics& metrics) {
  Recording::Row row = {{"step", concat_to_string(step)}};
  for (const auto& [name, value] : metrics.values)
    row[concat_to_string(split, ".", name)] = hex(value);
  taken.rows.push_back(std::move(row));
}

}  // namespace taper::v0::runner
