// Creates the components that a config names: data sources, models, losses, optimizers, schedules
// and metrics.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/components/tables.h"
#include "autograd/ops/nn/loss_ops.h"
#include "data/metrics.h"
#include "framework/kernels/loss/softmax.h"
#include "modules/models/pretrained.h"
#include "modules/module.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace taper::v0::runner {

// --- data ---

// Returns the source that `config` names. A relative path is resolved against `base` if the file
// exists there. Throws ConfigError, with the position of `config` in its file, for an option that
// does not fit the data.
std::unique_ptr<data::Source> build_source(const Component& config,
                                           const std::filesystem::path& base = {});

// --- models ---

// Builds the model. The input size of each layer is inferred from the layer before it. An mlp gets
// an output layer appended; a sequential model must end with its output layer. If shapes do not
// fit, throws ConfigError with the position of the layer (or model) in the config and the shape of
// the layer's input.
std::unique_ptr<Module> build_model(const Component& config, const DataInfo& data, Device device);

// Call this in a catch block for an exception thrown by model(x). Throws an error that names the
// layer (or model), its position in the config, and the path of its module. It is a ConfigError if
// an op rejected its arguments, and a ForeignError if the user's program registered the layer.
// Returns for other errors, such as OutOfMemoryError.
void refuse_layer(Module& model, const Component& config, const std::exception& error);
// Returns model(x). Throws the errors of refuse_layer(). Throws ConfigError if the result does not
// have the shape that the data need. Also throws ConfigError if the result does not require grad
// while gradients are recorded.
Tensor run_model(Module& model, const Component& config, const DataInfo& data, const Tensor& x);
// Returns f(), which must synchronize with the device. Throws the errors of refuse_layer() for
// errors that a GPU reports late, such as an index out of range.
template <class F> auto waiting_for(Module& model, const Component& config, F f) try {
  return f();
} catch (const std::exception& error) {
  refuse_layer(model, config, error);
  throw;
}
// Runs a model that the user's program registered on a sample batch, so that the errors of
// run_model() are thrown before the training starts. Does not advance the default generator.
void try_model(Module& model, const Component& config, const DataInfo& data, Device device);

// Returns whether the model accepts texts of any length up to that of the data.
bool takes_any_length(const Module& model);
// Returns whether the type of the model is one that accepts padded texts of any length up to that
// of the data, and for which padding takes time. The mean of embeddings takes hardly any.
bool pays_for_padding(const Component& model);
// Returns a batch of zeros with the shape and dtype of the model's input.
Tensor sample_batch(const DataInfo& data, int64_t count, Device device);

// --- losses ---

struct Loss {
  // Computes the loss from outputs [..., C] and classes [...] (kIgnoredTarget is ignored), from
  // outputs [N, 1] and values [N], or from outputs and labels [N, labels]. With Reduction::kNone,
  // dimension 0 of the result is that of the targets. Empty if the loss does not fit the task.
  std::function<Tensor(const Tensor& outputs, const Tensor& targets, Reduction)> value{};
  // Converts the model's outputs into predictions: probabilities of the classes, or values.
  std::function<Tensor(const Tensor& outputs)> prediction{};
  bool takes_probabilities = false;  // outputs outside [0, 1] are rejected
  // Set if `value` is the cross entropy of classes with these options.
  std::optional<CrossEntropyOptions> cross_entropy{};

  Tensor operator()(const Tensor& outputs, const Tensor& targets, Reduction reduction) const {
    return value(outputs, targets, reduction);
  }
};
// Returns loss(outputs, targets, reduction) for the loss that `config` names, computed on the
// device of the outputs, to which the targets are moved. If the loss rejects the outputs or
// targets, throws ConfigError with the position of `config`, or ForeignError if the user's program
// registered the loss.
Tensor run_loss(const Loss& loss, const Component& config, const Tensor& outputs,
                const Tensor& targets, Reduction reduction);
// Returns the mean loss of the samples. With weights [N] it is sum(w * l) / sum(w), where l is the
// loss of a sample (its mean over several outputs); it is 0 if all weights are. Throws the errors
// of run_loss(), and ConfigError if there are weights and the loss of the user's program has no
// value for each sample.
Tensor run_mean_loss(const Loss& loss, const Component& config, const Tensor& outputs,
                     const Tensor& targets, const Tensor& weights);

// Returns whether the model can compute the loss of this many tokens in blocks, so that the large
// logits are never stored as a whole. True for a GPT without hooks, the cross entropy, and logits
// of more than kLossBlockBytes in a half type.
bool computes_loss_in_blocks(const Module& model, const Loss& loss, int64_t tokens);
// Returns the mean loss of such a model. Throws the errors of run_model().
Tensor run_loss_in_blocks(Module& model, const Component& config, const Loss& loss,
                          const Tensor& tokens, const Tensor& targets);
// Returns a scalar with the forward pass of such a model except its head. Used to measure memory.
Tensor run_before_head(Module& model, const Component& config, const Tensor& tokens);

// --- optimizers ---

// Creates the optimizer. Muon updates the matrices of hidden layers. Embeddings, the last linear
// layer, biases and norms are updated by AdamW with the same lr and weight_decay, so use Muon with
// `adjust_lr_fn: match_rms_adamw`. Frozen parameters are left out. Throws ConfigError for a model
// without parameters or one that the optimizer rejects.
std::unique_ptr<optim::Optimizer> build_optimizer(const Component& config, const OptimizerSite& at);

// Returns the parameter groups that the config requests for these parameters in addition to the
// default group.
std::vector<optim::GroupRule> rules_of(const OptimizerSite& at,
                                       const std::vector<NamedTensor>& params);
// Returns rules_of() for all parameters that are trained.
std::vector<optim::GroupRule> rules_of(const OptimizerSite& at);
// Throws ConfigError for a pattern of `lr_by_part` that is not the longest match of any parameter
// that is trained.
void check_parts(const OptimizerSite& at);
// Returns the option `lr` of an optimizer, which is the rate of the parameters that no part names.
double lr_of(const Component& optimizer);

template <class Options>
std::unique_ptr<optim::Optimizer> plain_optimizer(const Options& o, const OptimizerSite& at) {
  return std::make_unique<optim::OptimizerOf<Options>>(trainable_parameters(at.model), o,
                                                       rules_of(at));
}

// Registers OptimizerOf<Options>, or an optimizer that make(options, site) creates, under this
// name.
template <class Options, class Make> void register_optimizer(const std::string& name, Make make) {
  optimizers().add<Options>(name, std::move(make));
}
template <class Options> void register_optimizer(const std::string& name) {
  register_optimizer<Options>(name, plain_optimizer<Options>);
}

// --- schedules ---

// Returns the learning rate of each step, counted from 0. During the warmup, the rate increases
// linearly from lr / (warmup + 1) at step 0 to lr at step `warmup`, where the schedule begins. A
// plateau schedule depends on evaluations, not on the step, so it is constant here.
optim::Schedule build_schedule(const Component& config, int64_t warmup, const ScheduleSite& at);
// Returns the options of optim::ReduceLROnPlateau for a plateau schedule; std::nullopt for others.
std::optional<optim::PlateauOptions> plateau_of(const Component& config);

// --- metrics ---

using data::MetricBatch;
using data::MetricSums;

// Returns the metric of that name. It is created without data, so only its tasks and its direction
// (higher_is_better) may be used.
Metric metric(const std::string& name);

// Registers the metric that make(data, device) returns. Throws ValueError if the name is taken.
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
