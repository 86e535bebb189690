// A run's model as its directory has it.
#include <algorithm>

#include "apps/runner/components/components.h"
#include "apps/runner/run/checkpoint.h"
#include "apps/runner/run/facts.h"
#include "apps/runner/run/json.h"
#include "apps/runner/run/process.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/run/text.h"
#include "apps/runner/verbs/verbs.h"
#include "framework/kernels/random/random.h"

namespace taper::v0::runner {
namespace {

fs::path weights_of(const fs::path& dir) {
  if (fs::exists(dir / "model.safetensors")) return dir / "model.safetensors";
  if (const auto newest = newest_checkpoint(dir)) return *newest / "model.safetensors";
  throw InputError(cat("the run in '", dir.string(), "' has saved no weights yet"));
}

// As exit.json says; -1: of an older version.
int64_t step_of_model(const fs::path& dir) {
  const fs::path file = dir / "exit.json";
  if (!fs::exists(file)) return -1;
  const Document end = parse_json(read_file(file, "end of the run", kMaxJsonBytes), {});
  const Node* step = end.root ? end.root->find("model_step") : nullptr;
  return step ? read_scalar<int64_t>(*step).value.value_or(-1) : -1;
}

// Before a model is built for outputs that its weights cannot have: a last layer has a weight for
// each, and what is small enough may be built to be refused by name.
void require_room_for(const DataInfo& info, const std::vector<NamedTensor>& state,
                      const fs::path& data) {
  constexpr int64_t kSmall = 1 << 16;
  int64_t weights = 0;
  for (const NamedTensor& t : state) weights += t.tensor.numel();
  require<InputError>(info.outputs <= std::max(weights, kSmall), data.string(),
                      ": outputs: ", info.outputs, " are more than the ", weights,
                      " weights of the model");
}

// What overrides have made of the run's model, for the error of weights that do not fit.
std::string other_model(const fs::path& dir, const std::vector<std::string>& overrides,
                        const RunConfig& config) {
  if (overrides.empty()) return "";
  std::string out;
  for (const std::string& line :
       lines_of(config_differences(to_yaml(load_run_config(dir)), to_yaml(config)))) {
    if (line.starts_with("  model.")) out += line + "\n";
  }
  return out.empty() ? "" : cat("the run was trained with another model (then | now):\n", out);
}

}  // namespace

SavedRun open_run(const fs::path& dir, const std::vector<std::string>& overrides) {
  const HostStateGuard host;
  verify_run(dir);
  SavedRun run;
  run.config = load_run_config(dir, overrides);
  run.dir = dir;
  const fs::path data = dir / "data.json";
  run.info = data_info_from_json(read_file(data, "description of data", kMaxJsonBytes), data);
  run.device = set_up(run.config);
  const fs::path weights = weights_of(dir);
  run.step = weights.parent_path() == dir ? step_of_model(dir) : step_of(weights.parent_path());
  const std::vector<NamedTensor> state = tensors_of(weights);
  require_room_for(run.info, state, data);
  {
    const kernels::SkipDraws uninitialised;  // the weights come from the file
    run.model = build_model(run.config.model, run.info, run.device);
  }
  failing_as<InputError>(cat(weights.string(), ": ", other_model(dir, overrides, run.config)),
                         [&] { run.model->load_state_dict(state); });
  run.model->eval();
  return run;
}

SavedRun RunArguments::open() const {
  SavedRun opened = open_run(run, overrides);
  apply_settings(opened.config);
  report_device(opened.config, opened.device);
  return opened;
}

}  // namespace taper::v0::runner
