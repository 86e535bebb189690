// The kinds of components that a config names, and what one of each is made for. A program adds its
// own before it calls main (apps/runner/program.h); from then on they are known by name in
// YAML, JSON Schema and the reference page as the built-in ones:
//
//   register_layer<ScaleOptions>("scale", [](const ScaleOptions& o, const LayerSite& at) {
//     return std::make_unique<Scale>(at.in.back(), o);
//   });
#pragma once

#include <filesystem>
#include <functional>
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

// A layer of a sequential model.
struct LayerSite {
  Shape in;            // its input without the batch, which has at least one dimension
  int64_t vocab_size;  // of the data; 0: they are no tokens
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

// Those of layers() that are activations.
std::vector<std::string> activations();

struct LossSite {
  Task task;
  bool is_evaluation = false;  // measures: without label smoothing
};
struct Loss;
using Losses = Table<Loss(const LossSite&)>;
Losses& losses();
bool fits(const Component& loss, Task task);

struct ScheduleSite {
  double lr;  // the optimizer's
  int64_t steps, steps_per_epoch;
};
using Schedules = Table<optim::Schedule(const ScheduleSite&)>;
Schedules& schedules();
// The metric that it goes by, if it does.
std::optional<std::string> metric_of(const Component& schedule);

struct OptimizerSite {
  Module& model;
  bool no_decay;  // biases and norms without weight decay
};
using Optimizers = Table<std::unique_ptr<optim::Optimizer>(const OptimizerSite&)>;
Optimizers& optimizers();

// How well a model does, in evaluations.
using data::Metric;
using MetricTypes = Table<Metric(const DataInfo&, Device)>;
MetricTypes& metric_types();
// What a run may aim at: the loss, and the metrics that are a number.
std::vector<std::string> goals();
// Whether a greater value of this goal is better.
bool is_better_when_greater(const std::string& goal);

using DataTypes = Table<std::unique_ptr<data::Source>()>;
DataTypes& data_types();
template <class Options> std::unique_ptr<data::Source> make_source(const Options& options) {
  return std::make_unique<data::SourceOf<Options>>(options);
}

// What batches of training images go through (data/transforms.h).
using ImageTransform = std::function<Tensor(const Tensor&, data::SampleRng&)>;
using ImageTransforms = Table<ImageTransform()>;
ImageTransforms& image_transforms();

// Who looks on at a run, by the config's word (apps/runner/train/train.h).
struct CallbackSite {
  const std::filesystem::path& dir;  // the run's
  const DataInfo& data;
  bool is_first = true;  // of several ranks, which have one each that sees and does the same
};
struct Observer;
using Callbacks = Table<std::unique_ptr<Observer>(const CallbackSite&)>;
Callbacks& callbacks();

// `make` gets the options, which describe themselves (framework/base/describe.h), and the site.
// Throws ValueError for a name that is taken.
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
// Options that load what they name (data/source.h).
template <class Options> void register_data(const std::string& name) {
  data_types().add<Options>(name, make_source<Options>);
}

}  // namespace taper::v0::runner
