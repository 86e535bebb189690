// Placement of the parts of a model on several devices (docs/placement.md).
//
//   net.place({{"encoder", "cuda:0"}, {"decoder", "cuda:1"}});
//   gpt.to("cuda:0").place({{"transformer.h.6-11", "cuda:1"}});
//
// A pattern is the path of a module, as in state_dict(): "transformer.h.3". It names the module and
// everything below it. In each part of the path, `*` matches any text, and `6-11` the
// numbers from 6 to 11. If several patterns name a module, the longest wins, which is the one with
// the most parts.
//
// A module computes on its device. When it is called, the tensors among its arguments are moved
// there, and its results are moved to the device of the module that contains it. The moves are on
// the tape, so that gradients take the same way back. Results stay where they are if the containing
// module only passes them on to its next child, as Sequential does (Module::call_style()).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

class Module;

struct PlacementRule {
  std::string pattern;
  Device device;
};

// A parameter or buffer, and the device on which a placement puts it.
struct PlacedTensor {
  std::string name;
  Tensor tensor;
  Device device;
};

// How a module's forward() uses the results of its children.
enum class CallStyle : uint8_t {
  kComputes,  // it may combine them with other tensors
  kPassesOn,  // each result only becomes an argument of the next child
  kNone,      // there is no forward(): a list or dict of modules
};

// The moves of tensors in the calls of a placed module.
struct CallPlacement {
  Device device;  // on which the module computes
  // Whether all tensors among the arguments are moved to `device`. Otherwise they are moved only if
  // they are on several devices.
  bool moves_arguments = true;
  std::optional<Device> results{};  // the device of the results; std::nullopt: they stay

  void move_arguments(std::vector<Tensor>& tensors) const;
  void move_results(std::vector<Tensor>& tensors) const;
};

}  // namespace taper::v0
