// Opens a trained run, for programs that use its model. SavedRun::predict() does for tensors what
// `taper predict` does for files.
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

// A trained run, loaded from its directory alone.
struct SavedRun {
  std::filesystem::path dir;
  RunConfig config;
  DataInfo info;  // describes samples and classes
  Device device;
  std::unique_ptr<Module> model;  // in evaluation mode; takes prepared samples
  int64_t step = -1;              // step after which the weights were saved; -1: unknown

  // Predicts from raw samples [N, ...info.input_shape] on any device. Returns a float32 tensor on
  // the run's device: probabilities [N, classes], values [N, 1] in the unit of the training file,
  // or for a language model logits [N, T, vocabulary]. Does not record gradients.
  //
  // Raw samples of images are pixels as bytes, those of text are tokens (int64). Those of tables
  // are the columns info.table->feature_names as numbers, with nan for missing values. A column of
  // words is replaced by one column of 0 or 1 for each of info.table->categories.
  //
  // Throws ValueError for another shape and TypeError for another dtype. Where raw samples are
  // floating-point numbers, every floating-point dtype is accepted.
  Tensor predict(const Tensor& raw) const;
};

// Opens the run in `dir`: reads config.yaml (with overrides such as device=cpu), data.json and the
// weights. These are in model.safetensors, or in the newest checkpoint if the run did not finish.
// `weights` = "best" selects the weights of the best evaluation, "last" those after the last step.
// `dir` may also be a checkpoint within the directory of its run, such as RUN/checkpoints/best.
//
// Throws InputError if a file is missing or damaged (verify_run), ConfigError if the config names a
// component that this program does not have, and DeviceUnavailable.
SavedRun open_run(const std::filesystem::path& dir, const std::vector<std::string>& overrides = {},
                  const std::string& weights = "");

}  // namespace taper::v0::runner
