#include "apps/runner/programs/bisect_state.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "apps/runner/base/files.h"
#include "apps/runner/config/json_reader.h"

namespace taper::v0::runner {
namespace {

using StateJson = nlohmann::ordered_json;
using TestedRow = std::map<std::string, std::string>;

TestedRow row_of(const TestedCommit& t) {
  return {{"commit", t.commit}, {"verdict", t.verdict}, {"why", t.why},
          {"flaky", t.flaky},   {"step", t.step},       {"run", concat_to_string(t.run)}};
}

TestedCommit commit_in(const TestedRow& row, const std::string& name) {
  const std::vector<std::string> keys = {"commit", "flaky", "run", "step", "verdict", "why"};
  const std::vector<std::string> verdicts = {kIsGood, kIsBad, kIsSkipped};
  std::vector<std::string> found;
  for (const auto& [key, value] : row) found.push_back(key);
  if (found != keys || std::ranges::count(verdicts, row.at("verdict")) == 0)
    throw InputError(concat_to_string(name, ": is damaged: an entry of `tested` is incomplete"));
  return {row.at("commit"), row.at("verdict"), row.at("why"),
          row.at("flaky"),  row.at("step"),    std::atoi(row.at("run").c_str())};
}

// The members of the file, as they are read and written.
struct StateFields {
  int64_t version = 1;
  int64_t has_reference = 0;
  std::vector<TestedRow> tested;
};

Schema state_schema(BisectState& s, StateFields& f) {
  Schema schema;
  schema("bisect", f.version, {1, 1}, "version of the format").required();
  schema("started_in", s.started_in, "folder in which programs train").required();
  schema("good", s.good, "good commit").required();
  schema("bad", s.bad, "bad commit").required();
  schema("program", s.program, "path of the program").required();
  schema.field("build", value_in(s.build), "command that builds").required();
  schema("has_reference", f.has_reference, {0, 1}, "whether the reference is known").required();
  schema("section", s.section, kNonNegative, "section of the recording").required();
  schema("step", s.step, "last step that is compared").required();
  schema.field("tested", value_in(f.tested), "commits that were tested").required();
  return schema;
}

}  // namespace

const TestedCommit* BisectState::find(const std::string& commit) const {
  const auto found = std::ranges::find(tested, commit, &TestedCommit::commit);
  return found == tested.end() ? nullptr : &*found;
}

std::vector<std::string> BisectState::commits(const std::string& verdict) const {
  std::vector<std::string> out;
  for (const TestedCommit& t : tested) {
    if (t.verdict == verdict) out.push_back(t.commit);
  }
  return out;
}

void save_state(const BisectState& s, const fs::path& dir) {
  StateJson tested = StateJson::array();
  for (const TestedCommit& t : s.tested) tested.push_back(row_of(t));
  const StateJson all = {{"bisect", 1},
                         {"started_in", s.started_in},
                         {"good", s.good},
                         {"bad", s.bad},
                         {"program", s.program},
                         {"build", s.build},
                         {"has_reference", s.has_reference ? 1 : 0},
                         {"section", s.section},
                         {"step", s.step},
                         {"tested", tested}};
  write_file(state_file(dir), all.dump(1, ' ', false, StateJson::error_handler_t::replace) + "\n");
}

BisectState load_state(const fs::path& dir) {
  const std::string name = state_file(dir).string();
  if (!fs::exists(state_file(dir))) {
    throw InputError(concat_to_string("'", dir.string(),
                                      "' has no bisection that can be resumed: there is no ",
                                      state_file(dir).filename().string()));
  }
  BisectState out;
  StateFields fields;
  read_json(read_file(name, "state of the bisection", kMaxJsonBytes), name,
            state_schema(out, fields));
  out.has_reference = fields.has_reference == 1;
  for (const TestedRow& row : fields.tested) out.tested.push_back(commit_in(row, name));
  return out;
}

}  // namespace taper::v0::runner
