// A parameter group: parameters with common options, and their optimizer state.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "optim/group_options.h"

namespace taper::v0::optim {

class Group {
 public:
  explicit Group(std::unique_ptr<GroupOptions> own);

  // The name is used in messages and may be empty.
  void add(const Tensor& param, const std::string& name);
  void set_lr(double lr);
  // Updates the parameters that have gradients. Takes one launch for each device and number of
  // updates. Creates missing states, and moves states whose parameter has moved. found_inf: see
  // Optimizer::set_found_inf().
  void step(const Tensor& found_inf);

  // A parameter and its optimizer state. Parameters that have always been updated together share
  // `step`, a 0-dim float64 tensor that counts their updates.
  struct Slot {
    Tensor param;
    std::string name;    // may be empty
    bool was_in_module;  // whether a module held the parameter when it was added
    std::vector<Tensor> states = {};
    Tensor master = {}, step = {};
  };
  bool trains_master(const Slot& slot) const {
    return options->trains_masters() && is_half(slot.param.dtype());
  }

  std::vector<Slot> slots;
  std::unique_ptr<GroupOptions> options;
  OptimizerTraits traits;

 private:
  // Returns the slots that have gradients, grouped by device and number of updates.
  std::vector<std::vector<Slot*>> parts();
  Tensor device_lr(Device device);
  // Returns a count of updates that the slots of `part` share with no other slots. If other slots
  // share the present count of `part`, this is a copy of it.
  Tensor own_count(const std::vector<Slot*>& part) const;
  void step(const std::vector<Slot*>& part, const Tensor& found_inf);
  void prepare(Slot& slot) const;

  std::vector<Tensor> device_lrs_;  // 0-dim float64, one for each device of the parameters
};

// Implements Optimizer::state_dict().
std::vector<NamedTensor> state_of(const std::vector<Group>& groups);
// Implements Optimizer::load_state_dict(): returns groups with the same parameters and the saved
// state.
std::vector<Group> loaded(const std::vector<Group>& groups, const std::vector<NamedTensor>& state);

}  // namespace taper::v0::optim
