// The kinds of components that a config names, and what one of each is made for. A program adds its
// own before it calls run_program (apps/runner/program.h); from then on they are known by name in
// YAML, JSON Schema and the reference page as the built-in ones:
//
//   register_layer<ScaleOptions>("scale", [](const ScaleOptions& o, const LayerSite& at) {
//     return std::make_unique<Scale>(at.in.back(), o);
//   });
#pragma once

#include <memory>
#include <string>

#include "apps/runner/config/table.h"
#include "framework/device.h"
#include "framework/shape.h"

namespace taper {
class Module;
}

namespace taper::runner {

struct DataInfo;

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

// `make` gets the options, which describe themselves (framework/describe.h), and the site. Throws
// ValueError for a name that is taken.
template <class Options, class Make> void register_layer(const std::string& name, Make make) {
  layers().add<Options>(name, std::move(make));
}
template <class Options, class Make> void register_model(const std::string& name, Make make) {
  models().add<Options>(name, std::move(make));
}

}  // namespace taper::runner
