// Opens the model of a run from its directory.
#include <algorithm>
#include <thread>

#include "apps/runner/base/string_utils.h"
#include "apps/runner/commands/commands.h"
#include "apps/runner/components/components.h"
#include "apps/runner/config/json_reader.h"
#include "apps/runner/run/checkpoint.h"
#include "apps/runner/run/data_info.h"
#include "apps/runner/run/evaluate.h"
#include "apps/runner/run/host_state.h"
#include "apps/runner/run/log_sink.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/run/run_metadata.h"
#include "apps/runner/settings/placement.h"
#include "framework/base/log.h"
#include "framework/kernels/random/random.h"

namespace taper::v0::runner {
namespace {

constexpr const char* kModel = "model.safetensors";

// Returns the step that exit.json stores under `key`. Returns -1 if there is none, as in runs of
// older versions.
int64_t step_at_end(const fs::path& dir, const char* key) {
  const fs::path file = dir / "exit.json";
  if (!fs::exists(file)) return -1;
  const Document end = parse_json(read_file(file, "end of the run", kMaxJsonBytes), {});
  const Node* step = end.root ? end.root->find(key) : nullptr;
  return step ? read_scalar<int64_t>(*step).value.value_or(-1) : -1;
}

// Returns the thresholds between the classes: the number in the config, or the numbers that the run
// chose when it ended. Warns if the run did not choose any.
std::vector<double> thresholds_of(const fs::path& dir, const RunConfig& config,
                                  const DataInfo& info) {
  if (!config.threshold) return {};
  require_two_classes(config, info);
  if (!chooses_threshold(config)) return given_thresholds(config, info);
  const fs::path file = dir / "exit.json";
  Document end;
  if (fs::exists(file)) end = parse_json(read_file(file, "end of the run", kMaxJsonBytes), {});
  const Node* rule = end.root ? end.root->find("threshold") : nullptr;
  const bool is_same = rule && rule->text == *config.threshold;
  const Node* list = is_same ? end.root->find("thresholds") : nullptr;
  std::vector<double> out;
  for (const Node& each : list ? list->children : std::vector<Node>()) {
    if (const auto value = read_scalar<double>(each).value) out.push_back(*value);
  }
  if (out.size() == std::max<size_t>(1, info.labels.size())) return out;
  warn(concat_to_string("threshold: ", *config.threshold,
                        " was not chosen in this run, so 0.5 decides"));
  return {};
}

// A run and the weights to load: "best", "last", the path of a checkpoint, or empty for the
// default.
struct Request {
  fs::path run;
  std::string weights;
};

// Splits a path that the user gave into run and weights. The path may also name a checkpoint of a
// run, including the links RUN/checkpoints/best and RUN/checkpoints/last.
Request request_of(const fs::path& given, const std::string& weights) {
  // Removes a trailing '/'.
  const fs::path path = given.filename().empty() ? given.parent_path() : given;
  const fs::path all = fs::absolute(path).lexically_normal().parent_path();
  const std::string name = path.filename();
  const bool is_named = all.filename() == "checkpoints" && (name == "best" || name == "last");
  if (!is_named && !is_checkpoint(path)) return {given, weights};
  const fs::path run = (is_named ? all : fs::canonical(path).parent_path()).parent_path();
  require<InputError>(
      is_run(run), "'", given.string(),
      "' is a checkpoint outside of the directory of its run, which describes its data and ",
      "model; pass RUN or RUN/checkpoints/NAME");
  require<ConfigError>(weights.empty(), "--weights: '", given.string(),
                       "' already selects the weights; leave out --weights");
  return {run, is_named ? name : path.string()};
}

fs::path checkpoint_of(const Request& request) {
  const fs::path& run = request.run;
  const bool is_last = request.weights == "last";
  const std::optional<fs::path> newest = is_last ? newest_checkpoint(run) : std::nullopt;
  const fs::path found = is_last                     ? newest.value_or("")
                         : request.weights == "best" ? best_checkpoint(run)
                                                     : fs::path(request.weights);
  require<InputError>(fs::is_directory(found), "the run in '", run.string(), "' has no ",
                      request.weights, " checkpoint");
  const std::string damage = damage_of(found);
  require<InputError>(damage.empty(), "the checkpoint '", found.string(),
                      "' cannot be used: ", damage);
  return found;
}

struct Weights {
  fs::path file;
  int64_t step;  // -1: unknown
};

Weights weights_of(const Request& request) {
  const fs::path& run = request.run;
  const int64_t saved = step_at_end(run, "model_step");
  const bool has_model = fs::exists(run / kModel);
  // If model.safetensors of a finished run holds the requested weights, no checkpoint is needed.
  const char* key = request.weights == "best" ? "best_step" : "step";
  const bool is_that = request.weights.empty() || (saved >= 0 && step_at_end(run, key) == saved);
  const bool is_by_path = request.weights.find('/') != std::string::npos;
  if (has_model && is_that && !is_by_path) return {run / kModel, saved};
  if (!request.weights.empty()) {
    const fs::path checkpoint = checkpoint_of(request);
    return {checkpoint / kModel, step_of(checkpoint)};
  }
  const auto newest = newest_checkpoint(run);
  require<InputError>(newest.has_value(), "the run in '", run.string(),
                      "' has saved no weights yet");
  return {*newest / kModel, step_of(*newest)};
}

// Throws InputError if the model would have more outputs than its weights allow, before memory for
// it is allocated: the last layer has at least one weight per output. A small model is built
// anyway, as the error for its weights is more specific.
void require_room_for(const DataInfo& info, const std::vector<NamedTensor>& state,
                      const fs::path& data) {
  constexpr int64_t kSmall = 1 << 16;
  int64_t weights = 0;
  for (const NamedTensor& t : state) weights += t.tensor.numel();
  require<InputError>(info.outputs <= std::max(weights, kSmall), data.string(),
                      ": outputs: ", info.outputs, " is more than the ", weights,
                      " weights of the model");
}

// Describes how the overrides changed the run's model, for the error about weights that do not fit.
std::string other_model(const fs::path& dir, const std::vector<std::string>& overrides,
                        const RunConfig& config) {
  if (overrides.empty()) return "";
  std::string out;
  for (const std::string& line :
       lines_of(config_differences(to_yaml(load_run_config(dir)), to_yaml(config)))) {
    if (line.starts_with("  model.")) out += line + "\n";
  }
  return out.empty()
             ? ""
             : concat_to_string("the run was trained with a different model (then | now):\n", out);
}

}  // namespace

SavedRun open_run(const fs::path& given, const std::vector<std::string>& overrides,
                  const std::string& which) {
  const HostStateGuard host;
  require<ConfigError>(which.empty() || which == "best" || which == "last",
                       "--weights: expected best or last, got '", which, "'");
  const Request request = request_of(given, which);
  const fs::path& dir = request.run;
  verify_run(dir);
  SavedRun run;
  run.config = load_run_config(dir, overrides);
  run.dir = dir;
  const fs::path data = dir / "data.json";
  run.info = data_info_from_json(read_file(data, "description of data", kMaxJsonBytes), data);
  run.info.thresholds = thresholds_of(dir, run.config, run.info);
  run.device = set_up(run.config);
  const std::jthread device_start = start_device(run.device);
  const auto [weights, step] = weights_of(request);
  run.step = step;
  const std::vector<NamedTensor> state = tensors_of(weights);
  require_room_for(run.info, state, data);
  {
    const kernels::SkipDrawsGuard uninitialized;  // the weights are loaded from the file below
    run.model = build_placed_model(run.config, run.info, run.device);
  }
  failing_as<InputError>(
      concat_to_string(weights.string(), ": ", other_model(dir, overrides, run.config)),
      [&] { run.model->load_state_dict(state); });
  run.model->eval();
  return run;
}

SavedRun RunArguments::open() const {
  SavedRun opened =
      with_status("loading the run", [&] { return open_run(run, overrides, weights); });
  apply_settings(opened.config);
  report_device(opened.config, opened.device);
  return opened;
}

}  // namespace taper::v0::runner
