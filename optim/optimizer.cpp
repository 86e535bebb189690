#include "optim/optimizer.h"

#include <algorithm>

#include "framework/factories.h"
#include "framework/kernels/binary.h"
#include "framework/kernels/copy.h"

namespace taper::optim {
namespace {

DType state_dtype(const Tensor& param) { return param.dtype() == kFloat64 ? kFloat64 : kFloat32; }

Tensor copy_of(const Tensor& x, DType dtype, Device device) {
  Tensor out = Tensor::make(x.shape(), dtype, device);
  kernels::copy_into(out, x);
  return out;
}

// State that is missing starts at zero; state that was left behind by a move follows.
void prepare(Tensor& state, const Tensor& param) {
  const DType dtype = state_dtype(param);
  if (!state.defined()) {
    state = zeros(param.shape(), {.dtype = dtype, .device = param.device()});
  } else if (state.dtype() != dtype || state.device() != param.device()) {
    state = copy_of(state, dtype, param.device());
  }
}

}  // namespace

void Optimizer::zero_grad() {
  for (const Group& group : groups_) {
    for (const Slot& slot : group.slots) slot.param.set_grad({});
  }
}

void Optimizer::set_lr(double lr) {
  for (Group& group : groups_) group.lr = lr;
}
void Optimizer::set_lr(size_t group, double lr) { groups_.at(group).lr = lr; }

void Optimizer::add_group(const std::vector<Tensor>& params, double lr) {
  if (params.empty()) throw ValueError("optimizer got an empty parameter list");
  if (!(lr >= 0)) throw ValueError(cat("Invalid learning rate: ", lr));
  Group group{{}, lr, {}};
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor& p = params[i];
    const std::string which = cat("parameter ", i, " of group ", groups_.size());
    if (!p.defined()) throw ValueError(cat(which, " is undefined"));
    if (!p.is_leaf()) throw ValueError(cat("can't optimize a non-leaf Tensor (", which, ")"));
    if (!p.is_floating_point()) {
      throw ValueError(cat(which, " has dtype ", p.dtype(), "; only floating tensors are trained"));
    }
    const auto same = [&](const Slot& slot) { return slot.param.is_same(p); };
    bool known = std::any_of(group.slots.begin(), group.slots.end(), same);
    for (const Group& g : groups_) {
      known = known || std::any_of(g.slots.begin(), g.slots.end(), same);
    }
    if (known) {
      throw ValueError(
          cat("some parameters appear in more than one parameter group (", which, ")"));
    }
    group.slots.push_back({p, {}, {}, {}});
  }
  groups_.push_back(std::move(group));
}

std::vector<Optimizer::Batch> Optimizer::batches(Group& group, int states) {
  struct Members {
    Tensor step;  // the count they share so far; undefined before the first update
    std::vector<Slot*> slots;
  };
  std::vector<Members> parts;
  // Counts that followed their parameters to another device: who shared one still does.
  std::vector<std::pair<Tensor, Tensor>> moved;
  const auto follow_step = [&](Tensor& step, Device device) {
    if (!step.defined() || step.device() == device) return;
    const auto known = std::find_if(moved.begin(), moved.end(), [&](const auto& m) {
      return m.first.is_same(step) && m.second.device() == device;
    });
    if (known != moved.end()) {
      step = known->second;
      return;
    }
    moved.push_back({step, copy_of(step, kFloat64, device)});
    step = moved.back().second;
  };
  for (Slot& slot : group.slots) {
    if (!slot.param.grad().defined()) continue;
    follow_step(slot.step, slot.param.device());
    const auto belongs = [&](const Members& m) {
      const Tensor& other = m.slots[0]->param;
      return m.step.is_same(slot.step) && other.device() == slot.param.device() &&
             other.dtype() == slot.param.dtype();
    };
    auto part = std::find_if(parts.begin(), parts.end(), belongs);
    if (part == parts.end()) part = parts.insert(parts.end(), {slot.step, {}});
    part->slots.push_back(&slot);
  }

  std::vector<Batch> out;
  for (const Members& part : parts) {
    const Device device = part.slots[0]->param.device();
    if (!group.device_lr.defined() || group.device_lr.device() != device) {
      group.device_lr = empty({}, {.dtype = kFloat64, .device = device});
    }
    kernels::fill(group.device_lr, group.lr);
    const auto sharers = std::count_if(group.slots.begin(), group.slots.end(), [&](const Slot& s) {
      return s.step.defined() && s.step.is_same(part.step);
    });
    Tensor step = part.step;
    if (!step.defined()) {
      step = zeros({}, {.dtype = kFloat64, .device = device});
    } else if (size_t(sharers) != part.slots.size()) {
      step = copy_of(step, kFloat64, device);  // the others stay behind with the old count
    }
    kernels::binary_into(kernels::BinaryOp::add, step, step, wrap_scalar(1));
    Batch batch{{}, group.device_lr, step};
    for (Slot* slot : part.slots) {
      slot->step = step;
      if (states > 0) prepare(slot->state1, slot->param);
      if (states > 1) prepare(slot->state2, slot->param);
      // A graph that saved the old values must notice the step.
      slot->param.storage()->version.fetch_add(1);
      batch.updates.push_back({slot->param, slot->param.grad(), slot->state1, slot->state2});
    }
    out.push_back(std::move(batch));
  }
  return out;
}

}  // namespace taper::optim
