// Parameters that share their settings, and what an optimizer remembers of each.
#pragma once

#include <memory>
#include <vector>

#include "optim/group_options.h"

namespace taper::v0::optim {

class Group {
 public:
  explicit Group(std::unique_ptr<GroupOptions> own);

  void add(const Tensor& param);
  void set_lr(double lr);
  // One launch for each device and count of updates, with states made or moved where needed.
  void step(const Tensor& found_inf);

  // One parameter and what is remembered of it. Parameters that have always been updated together
  // share `step`, a 0-dim float64 tensor that counts their updates.
  struct Slot {
    Tensor param;
    std::vector<Tensor> states;
    Tensor master, step;
  };
  bool trains_master(const Slot& slot) const {
    return options->trains_masters() && is_half(slot.param.dtype());
  }

  std::vector<Slot> slots;
  std::unique_ptr<GroupOptions> options;
  OptimizerTraits traits;

 private:
  // The slots that have gradients, by device and count of updates.
  std::vector<std::vector<Slot*>> parts();
  Tensor device_lr(Device device);
  // The count that a part shares from now on, whoever else shared it.
  Tensor own_count(const std::vector<Slot*>& part) const;
  void step(const std::vector<Slot*>& part, const Tensor& found_inf);
  void prepare(Slot& slot) const;

  std::vector<Tensor> device_lrs_;  // 0-dim float64, one for each device of the parameters
};

// Optimizer::state_dict.
std::vector<NamedTensor> state_of(const std::vector<Group>& groups);
// The same parameters with what was saved: Optimizer::load_state_dict.
std::vector<Group> loaded(const std::vector<Group>& groups, const std::vector<NamedTensor>& state);

}  // namespace taper::v0::optim
