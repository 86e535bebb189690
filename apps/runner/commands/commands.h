// The program's commands, and what those that use a trained run do, as functions. These functions
// return the text for stdout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/runner/base/errors.h"
#include "apps/runner/commands/command.h"
#include "apps/runner/commands/saved_run.h"

namespace taper::v0::runner {

Command train_command(), eval_command(), verify_command(), predict_command(), generate_command(),
    info_command(), schema_command(), report_command(), export_command();
// The gate's (apps/runner/gate/gate.h).
Command record_command(), check_command(), reproduce_command(), diff_command();

// predict()'s body, which may be traced.
Tensor predict_raw(const SavedRun& run, const Tensor& raw);

// The metrics on the run's test data or, where it is given, on a file of the same kind.
std::string evaluate_run(const SavedRun& run, const fs::path& data = {});

// CSV: for each row or image its prediction, and the probability of each class ("p_NAME"). Values
// are in the unit of the training file.
std::string predict(const SavedRun& run, const fs::path& file);

struct GenerateOptions {
  std::string prompt;
  int64_t tokens = 200;
  double temperature = 1;  // 0: always the likeliest token
  int64_t top_k = 0;       // 0: all
  uint64_t seed = 0;
};
// The prompt and what the model writes after it. Throws ConfigError for a model of anything but
// text, and for a prompt that its vocabulary cannot spell.
std::string generate(const SavedRun& run, const GenerateOptions& options);

// to "onnx": the model as an ONNX file that takes raw samples (data::Source::prepared) and gives
// what `predict` does, or a language model's logits; "pt": its weights for PyTorch. Says what it
// wrote. Throws ConfigError for another format, and as export_onnx and save_pt.
std::string export_run(const SavedRun& run, const std::string& to, const fs::path& file);

// What a command is told of the run that it looks at.
struct RunArguments {
  std::string run, weights;
  std::vector<std::string> overrides{};
  void describe_run(Schema& v) {
    v("run", run, "the run's directory, or one of its checkpoints").required();
    v("--weights", weights,
      "best or last: of the best evaluation, or after the last step; without it, those that the "
      "run saved in model.safetensors");
  }
  void describe_overrides(Schema& v) {
    v("overrides", overrides, "settings over the run's, as device=cpu");
  }
  // Opens the run and sets threads and precision for the process, which is the command's.
  SavedRun open() const;
};

}  // namespace taper::v0::runner
