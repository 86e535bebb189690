// Metrics as a config names them. Sums stay on the device until they are read, once.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/runner/config/config.h"
#include "apps/runner/data/data_info.h"
#include "apps/runner/train/loss.h"
#include "apps/runner/train/metric.h"
#include "modules/module.h"

namespace taper::runner {

struct Metrics {
  // "loss", then those that the config names: {"accuracy", 0.97}.
  std::vector<std::pair<std::string, double>> values;
  std::vector<std::vector<int64_t>> confusion;  // [true class][predicted class], where asked for

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
  void add(const Tensor& outputs, const Tensor& targets);
  // Waits for the device. The loss is the mean over samples (of text: tokens), without label
  // smoothing; errors of values are in the file's own unit.
  Metrics read() const;

 private:
  MetricBatch batch_of(const Tensor& x, const Tensor& y) const;

  struct Measured {
    std::string name;
    Metric metric;
    Tensor sums{};
  };
  bool is_regression_;
  Loss loss_;
  Tensor totals_;  // [2] float64: samples, and their losses
  std::vector<Measured> measured_;
};

// Of all batches that the loader gives in `epoch`, with the model in evaluation mode and in the
// config's precision; then the model trains again where it did before.
Metrics evaluate(Module& model, DataLoader& batches, int64_t epoch, const RunConfig& config,
                 const DataInfo& info, Device device);

}  // namespace taper::runner
