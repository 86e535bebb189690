// The built-in commands. Those that use a trained run are also declared as functions, which return
// the text for stdout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/runner/base/errors.h"
#include "apps/runner/commands/command.h"
#include "apps/runner/commands/saved_run.h"
#include "apps/runner/run/generate.h"

namespace taper::v0::runner {

Command train_command(), eval_command(), verify_command(), predict_command(), generate_command(),
    info_command(), schema_command(), report_command(), export_command(), inspect_command(),
    sweep_command(), lr_find_command(), list_command();
// Commands of the gate (apps/runner/gate/gate.h).
Command record_command(), check_command(), bless_command(), trace_command(), coverage_command(),
    reproduce_command(), diff_command(), bisect_command();

// Implements SavedRun::predict() without its guards, so that it can be traced.
Tensor predict_raw(const SavedRun& run, const Tensor& raw);

// Returns the metrics on the run's test data or, if `data` is given, on the file `data`, which must
// have the same format.
std::string evaluate_run(const SavedRun& run, const fs::path& data = {});

// Returns CSV text with the prediction for each row or image and the probability of each class
// ("p_NAME"). Predicted values are in the unit of the training file. A broken image has a row with
// empty cells, and a warning names it. Throws InputError if there are more of them than
// `data.broken` of the run allows.
std::string predict(const SavedRun& run, const fs::path& file);

// Logs what was understood of a table, and returns a config that trains on it, with the kinds of
// all columns. `file` is the table, or a config with a table as its data. Throws ConfigError for
// other data, and the errors of load_config() and Table::load().
std::string inspect_data(const std::string& file, const std::vector<std::string>& overrides);

// Returns the prompt followed by the text that the model generates. Throws ConfigError if the run's
// model is not a language model, or if the vocabulary cannot encode the prompt.
std::string generate(const SavedRun& run, const GenerateOptions& options);

// Writes the model to `file` and returns a message that names the file. For `to` = "onnx", writes
// an ONNX model that takes raw samples (data::Source::prepared) and returns the results of
// `predict`, or the logits of a language model. For "pt", writes the weights for PyTorch. Throws
// ConfigError for other values of `to`, and the errors of export_onnx() and save_pt().
std::string export_run(const SavedRun& run, const std::string& to, const fs::path& file);

// Arguments of the commands that open a run.
struct RunArguments {
  std::string run, weights;
  std::vector<std::string> overrides{};
  void describe_run(Schema& v) {
    v("run", run, "directory of the run, or one of its checkpoints").required();
    v("--weights", weights,
      "which weights to use: best (of the best evaluation) or last (after the last step); default: "
      "those in model.safetensors");
  }
  void describe_overrides(Schema& v) {
    v("overrides", overrides, "settings that replace those of the run, such as device=cpu");
  }
  // Opens the run and sets the threads and the matmul precision of the process.
  SavedRun open() const;
};

}  // namespace taper::v0::runner
