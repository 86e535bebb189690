#include "apps/runner/train/predict.h"

#include <algorithm>

#include <spdlog/spdlog.h>

#include "apps/runner/run/checkpoint.h"
#include "apps/runner/run/env.h"
#include "apps/runner/run/errors.h"
#include "apps/runner/run/json.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/run/text.h"
#include "apps/runner/train/device.h"
#include "apps/runner/train/evaluate.h"
#include "apps/runner/train/model.h"
#include "autograd/node.h"
#include "autograd/ops/index.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/softmax.h"
#include "autograd/ops/unary.h"
#include "framework/factories.h"
#include "framework/io/safetensors.h"
#include "framework/kernels/random/random.h"
#include "framework/precision.h"
#include "framework/threads.h"

namespace taper::runner {
namespace {

namespace fs = std::filesystem;

// What f gives; whatever it finds wrong with the file is an InputError that names it.
template <class F> auto of_file(const fs::path& file, F f) try {
  return f();
} catch (const RunError&) {
  throw;
} catch (const OutOfMemoryError&) {
  throw;
} catch (const Error& error) {
  throw InputError(cat(file.string(), ": ", error.what()));
}

fs::path weights_of(const fs::path& dir) {
  if (fs::exists(dir / "model.safetensors")) return dir / "model.safetensors";
  if (const auto newest = newest_checkpoint(dir)) return *newest / "model.safetensors";
  throw InputError(cat("the run in '", dir.string(), "' has saved no weights yet"));
}

// As exit.json says; -1: of an older version.
int64_t step_of_model(const fs::path& dir) {
  const fs::path file = dir / "exit.json";
  if (!fs::exists(file)) return -1;
  const std::string text = read_file(file, "end of the run", kMaxJsonBytes);
  const Document end = parse_json(text, {});
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
  if (info.outputs <= std::max(weights, kSmall)) return;
  throw InputError(cat(data.string(), ": outputs: ", info.outputs, " are more than the ", weights,
                       " weights of the model"));
}

// A cell of a CSV file.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

}  // namespace

SavedRun load_run(const fs::path& dir, const std::vector<std::string>& overrides) {
  verify_run(dir);
  SavedRun run;
  run.config = load_run_config(dir, overrides);
  run.dir = dir;
  const fs::path data = dir / "data.json";
  run.info = data_info_from_json(read_file(data, "description of data", kMaxJsonBytes), data);
  if (run.config.threads > 0) set_num_threads(int(run.config.threads));
  if (run.config.train.precision == Precision::kTf32) set_float32_matmul_precision("high");
  run.device = choose_device(run.config.device, run.config.visible_devices);
  const fs::path weights = weights_of(dir);
  run.step = weights.parent_path() == dir ? step_of_model(dir) : step_of(weights.parent_path());
  const auto state = of_file(weights, [&] { return load_safetensors(weights).tensors; });
  require_room_for(run.info, state, data);
  {
    const kernels::SkipDraws uninitialised;  // the weights come from the file
    run.model = build_model(run.config.model, run.info, run.device);
  }
  of_file(weights, [&] { return run.model->load_state_dict(state); });
  run.model->eval();
  return run;
}

std::string evaluate_run(const SavedRun& run, const fs::path& file) {
  const auto source = source_of(run.config.data);
  data::DatasetPtr rows;
  if (!file.empty()) {
    rows = source->more(run.info, file);
    if (std::ranges::count(rows->fields(), "targets") == 0) {
      throw InputError(cat(file.string(), ": has no labels; `taper predict` needs none"));
    }
  } else {
    const data::Splits whole = source->load(run.config.seed);
    if (to_json(whole) != to_json(run.info)) {
      throw InputError(
          "the training data are no longer those of the run (data.json): classes, "
          "columns, scales or the vocabulary differ; use --data FILE");
    }
    rows = whole.test;
    if (const std::string changed = changed_data(run.dir, run.config); !changed.empty()) {
      spdlog::warn("the data are not those that the run had (then | now):\n{}", changed);
    }
  }
  const TrainConfig& c = run.config.train;
  DataLoader batches(rows,
                     {.batch_size = c.eval_batch_size, .on_device = run.config.data.on_device},
                     run.device, run.config.seed);
  const std::string weights = run.step < 0 ? "" : cat("weights:         of step ", run.step, "\n");
  return cat(weights, "samples:         ", rows->size(), "\n",
             to_text(evaluate(*run.model, batches, 0, run.config, run.info, run.device), run.info));
}

std::string predict(const SavedRun& run, const fs::path& file) {
  const NoGradGuard no_grad;
  const data::DatasetPtr rows = source_of(run.config.data)->more(run.info, file);
  const bool is_regression = run.info.task == Task::kRegression;
  const Loss loss = losses().make(run.config.loss, {run.info.task});
  std::string out = "prediction";
  for (const std::string& name : run.info.class_names) out += cat(",", cell("p_" + name));
  DataLoader batches(rows, {.batch_size = run.config.train.eval_batch_size}, run.device, 0);
  batches.start(0);
  while (const std::optional<Batch> batch = batches.next()) {
    const Tensor y = (*run.model)(batch->inputs).to(kFloat32);
    const Tensor host = loss.prediction(y).cpu().contiguous();
    for (int64_t i = 0; i < host.size(0); ++i) {
      const std::span<float> row =
          host.span<float>().subspan(size_t(i * host.size(1)), size_t(host.size(1)));
      if (is_regression) {
        out += cat("\n", float(row[0] * run.info.target_std + run.info.target_mean));
        continue;
      }
      const auto best = std::ranges::max_element(row) - row.begin();
      out += cat("\n", cell(run.info.class_names[size_t(best)]));
      for (const float p : row) out += cat(",", p);
    }
  }
  return out + "\n";
}

}  // namespace taper::runner
