// Metrics of evaluations as a config names them: sums over batches, and a number made of them.
//
//   register_metric("within_one", [](const DataInfo& data, Device) -> Metric {
//     return {.tasks = {Task::kRegression},
//             .sums = [](const MetricBatch& b) { return b.total(abs(b.outputs - b.targets) < 1);
//             }, .value = [](const MetricSums& all) { return all.sums[0] / all.count; }, .grows =
//             true};
//   });
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/runner/config/tables.h"
#include "framework/tensor.h"

namespace taper::runner {

// What the model gave for a batch, and what was wanted, on the model's device. Of text each token
// is a sample.
struct MetricBatch {
  Tensor outputs;  // float32: [N, C] of classes and tokens, [N] of values
  Tensor targets;  // [N]: int64 classes, or float32 values
  Tensor counts;   // [N] float64: 1, or 0 where the target does not count; its class is 0 then

  // The sum of [N] over those that count, float64.
  Tensor total(const Tensor& each) const;
};

// Over all batches.
struct MetricSums {
  double count = 0, loss = 0;  // samples that count, and the sum of their losses
  std::span<const double> sums{};
};

struct Metric {
  std::vector<Task> tasks;  // for which there is such a number
  // What a batch adds, of the same shape each time. Keeps no gradients, does not wait for the
  // device. None: the loss is enough.
  std::function<Tensor(const MetricBatch&)> sums{};
  // The metric. None: the sums are the confusion matrix, which is no number to aim at.
  std::function<double(const MetricSums&)> value{};
  bool grows = false;     // more is better
  bool is_share = false;  // shown in percent
};

// The row of that name, whatever the data are.
Metric metric(const std::string& name);

// Makes known what make(data, device) gives. Throws ValueError for a name that is taken.
struct NoOptions {
  template <class V> void describe(V&) {}
};
template <class Make> void register_metric(const std::string& name, Make make) {
  metric_types().add<NoOptions>(name, [make](const NoOptions&, const DataInfo& data,
                                             Device device) { return make(data, device); });
}

}  // namespace taper::runner
