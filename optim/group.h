// Parameters that share their settings, and what an optimizer remembers of each.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "optim/rule.h"

namespace taper::optim {

// A state dict that is being read, and all that does not fit.
class OptimizerStateReader {
 public:
  explicit OptimizerStateReader(const std::vector<NamedTensor>& state);
  // Whether a name begins so.
  bool has(const std::string& prefix) const;
  // The tensor of a name, of this shape unless that is null; undefined, and noted, when not there.
  Tensor take(const std::string& name, const Shape* shape);
  // Throws ValueError for what was missing, is left over or does not fit.
  void finish(const char* optimizer) const;

  std::string problems;

 private:
  std::map<std::string, Tensor> given_;
  std::string missing_;
};

class Group {
 public:
  explicit Group(std::unique_ptr<Rule> own) : rule(std::move(own)), recipe(rule->recipe()) {}

  void add(const Tensor& param);
  void set_lr(double lr);
  // One launch for each device and count of updates, with states made or moved where needed.
  void step(const Tensor& found_inf);

  // Entries "state.ID.NAME" of the parameters, numbered from first_id, and of the settings,
  // "param_groups.G.NAME".
  void save_state(std::vector<NamedTensor>& out, int64_t first_id) const;
  void save_settings(std::vector<NamedTensor>& out, size_t g, int64_t first_id) const;
  // The same parameters with what was saved of group g.
  Group loaded(OptimizerStateReader& saved, size_t g) const;

  // One parameter and what is remembered of it. Parameters that have always been updated together
  // share `step`, a 0-dim float64 tensor that counts their updates.
  struct Slot {
    Tensor param;
    std::vector<Tensor> states;
    Tensor master, step;
  };
  std::vector<Slot> slots;
  std::unique_ptr<Rule> rule;
  Recipe recipe;

 private:
  // The slots that have gradients, by device and count of updates.
  std::vector<std::vector<Slot*>> parts();
  Tensor device_lr(Device device);
  // The count that a part shares from now on, whoever else shared it.
  Tensor own_count(const std::vector<Slot*>& part) const;
  void step(const std::vector<Slot*>& part, const Tensor& found_inf);
  void prepare(Slot& slot) const;
  bool trains_master(const Slot& slot) const {
    return rule->trains_masters() && is_half(slot.param.dtype());
  }

  std::vector<Tensor> device_lrs_;  // 0-dim float64, one for each device of the parameters
};

}  // namespace taper::optim
