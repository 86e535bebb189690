// A run that was trained, for programs that use its model: `taper predict` for tensors.
//
//   const runner::SavedRun run = runner::open_run("runs/iris", {"device=cpu"});
//   const Tensor p = run.predict(tensor({{5.1, 3.5, 1.4, 0.2}}));
//   std::cout << run.info.class_names[size_t(argmax(p, 1).item<int64_t>())];
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/runner/settings/run_config.h"
#include "framework/tensor/tensor.h"
#include "modules/module.h"

namespace taper::v0::runner {

// Its directory is all that is needed.
struct SavedRun {
  std::filesystem::path dir;
  RunConfig config;
  DataInfo info;  // what samples and classes are
  Device device;
  std::unique_ptr<Module> model;  // in evaluation mode; takes samples that are prepared
  int64_t step = -1;              // whose weights it has; -1: not known

  // Of raw samples [N, ...info.input_shape] on any device, without gradients, on the run's device
  // in float32: probabilities [N, classes], values [N, 1] in the unit of the training file, or of a
  // text's tokens (int64) logits [N, T, vocabulary]. Raw are pixels as bytes, and of a table the
  // columns info.table->feature_names as numbers, nan where one is missing; a column of words is
  // one of 0 or 1 for each of info.table->categories. Throws ValueError for another shape,
  // TypeError for another dtype (any floating one does where one does).
  Tensor predict(const Tensor& raw) const;
};

// Reads config.yaml (with overrides as device=cpu), data.json and the weights: those in
// model.safetensors, or in the newest checkpoint of a run that did not end. `weights` asks for
// others: "best" for those of the best evaluation, "last" for those after the last step. `dir` may
// also be a checkpoint in its run's directory, as RUN/checkpoints/best. Throws InputError for what
// is missing or damaged (verify_run), ConfigError for what the program has no part of, and
// DeviceUnavailable.
SavedRun open_run(const std::filesystem::path& dir, const std::vector<std::string>& overrides = {},
                  const std::string& weights = "");

}  // namespace taper::v0::runner
