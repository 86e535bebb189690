#include <algorithm>

#include <zlib.h>

#include "apps/runner/base/files.h"
#include "apps/runner/gate/gate.h"

namespace taper::v0::runner {
namespace {

std::string state_hash(const Module& model) {
  uLong sum = 0;
  for (const NamedTensor& named : model.state_dict()) {
    const Tensor x = named.tensor.cpu().contiguous();
    sum = crc32_z(sum, static_cast<const Bytef*>(x.data_ptr()), x.nbytes());
  }
  return hex_crc32(uint32_t(sum));
}

}  // namespace

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

Golden load_run_golden(const fs::path& file) {
  Golden out = load_golden(file);
  require<InputError>(!is_test_golden(out), file.string(), " is a golden of taper::testing, which ",
                      "belongs to a test program; `taper` has no run to compare with it");
  return out;
}

Recording recording_of(const Golden& golden, const ChosenSection& chosen) {
  const GoldenSection& section = chosen.section;
  Recording out;
  out.steps = golden.steps;
  out.state_every = golden.state_every;
  out.tolerances = section.tolerances;
  out.config = golden.config;
  out.metadata = {chosen.program, section.metadata.data};
  out.rows = section.rows;
  return out;
}

Recording load_recording(const fs::path& file) {
  const Golden golden = load_run_golden(file);
  const GoldenSection& first = golden.sections.front();
  return recording_of(golden, {first, first.metadata.program, 1, true});
}

Verdict compare(const Recording& got, const Recording& golden, const Tolerances& tolerances) {
  return compare_rows(got.rows, golden.rows, golden.steps == 0, tolerances_of(golden, tolerances));
}

bool Recorder::on_step(int64_t step, double loss, double grad_norm) {
  Recording::Row row = {{"step", concat_to_string(step)},
                        {"loss", hex_text(loss)},
                        {"grad_norm", hex_text(grad_norm)}};
  const bool is_last = step == taken.steps;
  if (is_last || step % std::max<int64_t>(1, taken.state_every) == 0)
    row["state"] = state_hash(*model_);
  taken.rows.push_back(std::move(row));
  return !is_last;
}

void Recorder::on_eval(int64_t step, const std::string& split, const Metrics& metrics) {
  Recording::Row row = {{"step", concat_to_string(step)}};
  for (const auto& [name, value] : metrics.values)
    row[concat_to_string(split, ".", name)] = hex_text(value);
  taken.rows.push_back(std::move(row));
}

}  // namespace taper::v0::runner
