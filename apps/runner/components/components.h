// Builds what a config names: data sources, models, losses, optimizers, schedules and metrics.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/components/tables.h"
#include "data/metrics.h"
#include "framework/kernels/loss/softmax.h"
#include "modules/module.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace taper::v0::runner {

// --- data ---

// Returns the source that `config` names. Relative paths of files that exist below `base` are
// looked up there. An option that the data do not allow throws ConfigError at the config's place.
std::unique_ptr<data::Source> build_source(const Component& config,
                                           const std::filesystem::path& base = {});

// --- models ---

// Inputs of every layer are inferred from the one before; an mlp gets its last layer added, a
// sequential model must end in the output. Throws ConfigError at the layer's (or model's) place,
// with the shape that arrives there, when shapes do not fit.
std::unique_ptr<Module> build_model(const Component& config, const DataInfo& data, Device device);

// Called in a catch block for an exception out of model(x). Throws an error that names the layer
// (or model) at its place in the config, and its module's path: ConfigError where an op has refused
// its arguments, ForeignError where the layer is of the user's program. Returns for other errors,
// such as OutOfMemoryError.
void refuse_layer(Module& model, const Component& config, const std::exception& error);
// Returns model(x). Throws as refuse_layer does; also ConfigError for a result that is not of the
// shape that the data need, or that has no gradient where gradients are recorded.
Tensor run_model(Module& model, const Component& config, const DataInfo& data, const Tensor& x);
// Returns f(), which waits for the device. Throws as refuse_layer does for what a GPU has reported
// late, such as an index out of range.
template <class F> auto waiting_for(Module& model, const Component& config, F f) try {
  return f();
} catch (const std::exception& error) {
  refuse_layer(model, config, error);
  throw;
}
// Runs a model of a program's own on a sample batch for those errors, and leaves no trace.
void try_model(Module& model, const Component& config, const DataInfo& data, Device device);

// Returns whether the model takes texts of any length up to that of the data.
bool takes_any_length(const Module& model);
// Zeros as the data give them to the model.
Tensor sample_batch(const DataInfo& data, int64_t count, Device device);

// --- losses ---

struct Loss {
  // Of outputs [..., C] against classes [...] (those of kIgnoredTarget do not count), or [N, 1]
  // against values [N]. Empty where the loss is not for the task.
  std::function<Tensor(const Tensor& outputs, const Tensor& targets, Reduction)> value{};
  // What outputs say: probabilities of classes, or values.
  std::function<Tensor(const Tensor& outputs)> prediction{};
  bool takes_probabilities = false;  // outputs outside of [0, 1] are refused

  Tensor operator()(const Tensor& outputs, const Tensor& targets, Reduction reduction) const {
    return value(outputs, targets, reduction);
  }
};
// Returns loss(outputs, targets, reduction) of the loss that `config` names. Throws ConfigError at
// its place for outputs or targets that it does not take, ForeignError out of a loss of the user's
// program.
Tensor run_loss(const Loss& loss, const Component& config, const Tensor& outputs,
                const Tensor& targets, Reduction reduction);

// --- optimizers ---

// Muon gets the matrices of hidden layers; embeddings, the last linear layer, biases and norms go
// to AdamW with the same lr and weight_decay (so take `adjust_lr_fn: match_rms_adamw`). Throws
// ConfigError for a model without parameters, or one that the optimizer refuses.
std::unique_ptr<optim::Optimizer> build_optimizer(const Component& config, const OptimizerSite& at);

// Returns the parameter groups that the config asks for in addition to the group of all parameters.
std::vector<optim::GroupRule> rules_of(const OptimizerSite& at);

template <class Options>
std::unique_ptr<optim::Optimizer> plain_optimizer(const Options& o, const OptimizerSite& at) {
  return std::make_unique<optim::OptimizerOf<Options>>(at.model.named_parameters(), o,
                                                       rules_of(at));
}

// Makes OptimizerOf<Options> known under that name, or what make(options, site) gives.
template <class Options, class Make> void register_optimizer(const std::string& name, Make make) {
  optimizers().add<Options>(name, std::move(make));
}
template <class Options> void register_optimizer(const std::string& name) {
  register_optimizer<Options>(name, plain_optimizer<Options>);
}

// --- schedules ---

// Returns the learning rate of each step, from 0. The rate climbs along a line from lr / (warmup +
// 1) at step 0 to lr at step `warmup`, where the schedule begins. A plateau is no function of the
// step: it gets a constant schedule here.
optim::Schedule build_schedule(const Component& config, int64_t warmup, const ScheduleSite& at);
// Returns the options for optim::ReduceLROnPlateau of a plateau; nothing for other schedules.
std::optional<optim::PlateauOptions> plateau_of(const Component& config);

// --- metrics ---

using data::MetricBatch;
using data::MetricSums;

// The row of that name, whatever the data are.
Metric metric(const std::string& name);

// Makes known what make(data, device) gives. Throws ValueError for a name that is taken.
//
//   register_metric("within_one", [](const DataInfo& data, Device) -> Metric {
//     return {.tasks = {Task::kRegression},
//             .sums = [](const MetricBatch& b) { return b.total(abs(b.outputs - b.targets) < 1); },
//             .value = [](const MetricSums& all) { return all.sums[0] / all.count; },
//             .higher_is_better = true};
//   });
struct NoOptions {
  template <class V> void describe(V&) {}
};
template <class Make> void register_metric(const std::string& name, Make make) {
  metric_types().add<NoOptions>(name, [make](const NoOptions&, const DataInfo& data,
                                             Device device) { return make(data, device); });
}

}  // namespace taper::v0::runner
