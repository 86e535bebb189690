// The registries of components that a config can name, and the arguments with which components are
// created. A program registers its own components before it calls main() (apps/runner/program.h).
// Configs can then name them like the built-in ones, and JSON Schema and the reference page contain
// them:
//
//   register_layer<ScaleOptions>("scale", [](const ScaleOptions& o, const LayerSite& at) {
//     return std::make_unique<Scale>(at.in.back(), o);
//   });
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/config/table.h"
#include "data/source.h"
#include "data/transforms.h"
#include "framework/base/device.h"
#include "framework/base/shape.h"

namespace taper::v0 {
class Module;
}
namespace taper::v0::data {
struct Metric;
}
namespace taper::v0::optim {
class Optimizer;
struct Schedule;
}  // namespace taper::v0::optim

namespace taper::v0::runner {

using data::DataInfo;
using data::Task;

// The arguments for creating a layer of a sequential model.
struct LayerSite {
  Shape in;            // shape of one sample of its input, at least one dimension
  int64_t vocab_size;  // size of the data's vocabulary; 0: the data are not tokens
  Device device;
};
using Layers = Table<std::unique_ptr<Module>(const LayerSite&)>;
Layers& layers();

struct ModelSite {
  const DataInfo& data;
  Device device;
  Place place;  // of the config, for located()
};
using Models = Table<std::unique_ptr<Module>(const ModelSite&)>;
Models& models();

// Returns the names of the layers that are activations.
std::vector<std::string> activations();

struct LossSite {
  Task task;
  bool is_evaluation = false;  // used in an evaluation: without label smoothing and weights
  std::vector<double> class_weights{};  // of DataInfo
  bool is_multi_label = false;          // targets are 0 or 1 for each output, [N, outputs] float32
  Device device{};                      // of the outputs
  bool scales_targets = false;          // targets are not in the unit of the data
};
// Returns the site of a loss without weights of classes.
LossSite loss_site(const DataInfo& data, bool is_evaluation = false);
struct Loss;
using Losses = Table<Loss(const LossSite&)>;
Losses& losses();
bool fits(const Component& loss, Task task, bool is_multi_label = false);

struct ScheduleSite {
  double lr;  // learning rate of the optimizer
  int64_t steps, steps_per_epoch;
};
using Schedules = Table<optim::Schedule(const ScheduleSite&)>;
Schedules& schedules();
// Returns the metric that a plateau schedule monitors; std::nullopt for other schedules.
std::optional<std::string> metric_of(const Component& schedule);

struct OptimizerSite {
  Module& model;
  bool no_decay;  // no weight decay for biases and norms
  // Learning rates of parameters by patterns of their names (framework/base/name_pattern.h); the
  // longest matching pattern applies.
  std::map<std::string, double> lr_by_part{};
};
using Optimizers = Table<std::unique_ptr<optim::Optimizer>(const OptimizerSite&)>;
Optimizers& optimizers();

// Measures the quality of a model in evaluations.
using data::Metric;
using MetricTypes = Table<Metric(const DataInfo&, Device)>;
MetricTypes& metric_types();
// Returns the names that a config may use as a goal: loss, and the metrics with a single value.
std::vector<std::string> goals();
// Returns whether larger values of the goal are better.
bool is_better_when_greater(const std::string& goal);

using DataTypes = Table<std::unique_ptr<data::Source>()>;
DataTypes& data_types();
template <class Options> std::unique_ptr<data::Source> make_source(const Options& options) {
  return std::make_unique<data::SourceOf<Options>>(options);
}

// Transforms a batch of training images (data/transforms.h).
using ImageTransform = std::function<Tensor(const Tensor&, data::SampleRng&)>;
using ImageTransforms = Table<ImageTransform()>;
ImageTransforms& image_transforms();

// The arguments for creating a callback that a config names (apps/runner/train/train.h).
struct CallbackSite {
  const std::filesystem::path& dir;  // directory of the run
  const DataInfo& data;
  // True on the first rank only. Each rank has its own callback. All of them are called in the same
  // order and must behave the same.
  bool is_first = true;
};
struct Observer;
using Callbacks = Table<std::unique_ptr<Observer>(const CallbackSite&)>;
Callbacks& callbacks();

// Registers a component. `make` is called with the options, which have describe()
// (framework/base/describe.h), and the site. Throws ValueError if the name is taken.
template <class Options, class Make> void register_layer(const std::string& name, Make make) {
  layers().add<Options>(name, std::move(make));
}
template <class Options, class Make> void register_model(const std::string& name, Make make) {
  models().add<Options>(name, std::move(make));
}
template <class Options, class Make> void register_callback(const std::string& name, Make make) {
  callbacks().add<Options>(name, std::move(make));
}
template <class Options> ImageTransform make_transform(const Options& options) { return options; }
template <class Options> void register_transform(const std::string& name) {
  image_transforms().add<Options>(name, make_transform<Options>);
}
// Registers a type of data. Options must be able to load the data that they name (data/source.h).
template <class Options> void register_data(const std::string& name) {
  data_types().add<Options>(name, make_source<Options>);
}

}  // namespace taper::v0::runner
