// Evaluations: the metrics that a config names, of a split.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "apps/runner/components/components.h"
#include "apps/runner/components/tables.h"
#include "apps/runner/settings/run_config.h"
#include "data/metrics.h"
#include "framework/distributed/communicator.h"
#include "framework/tensor/tensor.h"
#include "modules/module.h"

namespace taper::v0::runner {

using distributed::Communicator;

// What an evaluation gave.
struct Metrics {
  // "loss", then those that the config names: {"accuracy", 0.97}.
  std::vector<std::pair<std::string, double>> values;
  std::vector<std::vector<int64_t>> confusion;  // [true class][predicted class], where asked for
  // How many samples are predicted to be of each class, where there are at most 1000 classes; not
  // kept by checkpoints.
  std::vector<int64_t> predicted{};

  // Throws ConfigError, with the names that there are, for one that was not measured.
  double operator[](const std::string& name) const;
};
// "test loss:       0.0123", one on a line; a confusion matrix as a table where classes have names.
std::string to_text(const Metrics& metrics, const DataInfo& info);

//   Evaluator evaluator(config, data, device);
//   for (...) evaluator.add(model(inputs), targets);
//   Metrics metrics = evaluator.read();
class Evaluator {
 public:
  // Throws ConfigError for a confusion matrix of more than 1000 classes.
  Evaluator(const RunConfig& config, const DataInfo& info, Device device);

  // Keeps no gradients and does not wait for the device.
  void add(const Tensor& outputs, const Tensor& targets) { add(sums_of(outputs, targets)); }
  // What a batch adds, [n] float64, for another rank's evaluator.
  Tensor sums_of(const Tensor& outputs, const Tensor& targets);
  void add(const Tensor& sums);
  // Waits for the device. The loss is the mean over samples (of text: tokens), without label
  // smoothing; errors of values are in the file's own unit.
  Metrics read() const;
  // Of what read() gives as numbers.
  std::vector<std::string> names() const;

 private:
  struct Measured {
    Component row;  // of the metric
    Metric metric;
    Shape shape{};  // of its sums
  };
  static constexpr int64_t kMostCounted = 1000;  // classes

  Component loss_config_;
  Loss loss_;
  Tensor totals_;  // float64: samples, their losses, and the metrics' sums
  std::vector<Measured> measured_;
  int64_t counted_classes_ = 0;  // whose predictions are counted, behind the metrics' sums
};

// Measures all batches that the loader gives in `epoch`, with the model in evaluation mode and in
// the config's precision; then the model trains again if it did before. Of several ranks each
// measures some of the batches, and all get the numbers that one rank alone would get.
// `after_batch` is called with the number of batches that this rank has measured so far, on all
// ranks after the same number, and may end the evaluation by an exception. By default it is
// check_stop().
Metrics evaluate(Module& model, DataLoader& batches, int64_t epoch, const RunConfig& config,
                 const DataInfo& info, const Communicator& ranks,
                 const std::function<void(int64_t batches)>& after_batch = {});

}  // namespace taper::v0::runner
