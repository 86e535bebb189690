// Optimizers (https://pytorch.org/docs/stable/optim.html). They hold handles of the parameters, so
// a model may be moved before or after one is made; state follows its parameter at the next step.
#pragma once

#include <vector>

#include "framework/kernels/optim.h"
#include "framework/tensor.h"

namespace taper::optim {

// Parameters that share their settings.
template <class Options> struct ParamGroup {
  std::vector<Tensor> params;
  Options options;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Updates every parameter that has a gradient, with one launch for each group (of one device and
  // dtype). Never waits for the GPU.
  virtual void step() = 0;
  // Drops the gradients of all parameters.
  void zero_grad();

  size_t num_groups() const { return groups_.size(); }
  double lr(size_t group = 0) const { return groups_.at(group).lr; }
  // Takes effect at the next step.
  void set_lr(double lr);
  void set_lr(size_t group, double lr);

 protected:
  // One parameter and what the optimizer remembers of it. Parameters that have always been updated
  // together share `step`, a 0-dim float64 tensor that counts their updates.
  struct Slot {
    Tensor param, state1, state2, step;
  };
  struct Group {
    std::vector<Slot> slots;
    double lr;
    Tensor device_lr;  // 0-dim float64 where the parameters are
  };
  // Parameters of one group, device, dtype and count of updates, ready for a kernel.
  struct Batch {
    std::vector<kernels::Update> updates;
    Tensor lr, step;
  };

  // Refuses, naming the parameter: none at all, one twice, one that is no leaf or no floating
  // dtype.
  void add_group(const std::vector<Tensor>& params, double lr);
  // The batches of a group with `states` (0 to 2) state tensors each, made or moved where needed,
  // with their counts advanced.
  std::vector<Batch> batches(Group& group, int states);

  std::vector<Group> groups_;
};

}  // namespace taper::optim
