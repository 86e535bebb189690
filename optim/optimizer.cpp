#include "optim/optimizer.h"

#include <algorithm>

#include "framework/factories.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/memory/half_copy.h"
#include "framework/profiler.h"

namespace taper::optim {
namespace {

DType state_dtype(const Tensor& param) { return param.dtype() == kFloat64 ? kFloat64 : kFloat32; }

// Elements lie in the same order, so that a kernel may walk over both side by side.
bool same_order(const Tensor& a, const Tensor& b) {
  return a.strides() == b.strides() || (a.is_contiguous() && b.is_contiguous());
}

// x itself where it already is what a kernel needs beside param.
Tensor beside(const Tensor& param, const Tensor& x, DType dtype) {
  if (x.device() == param.device() && x.dtype() == dtype && same_order(x, param)) return x;
  const Tensor out = empty_like_layout(param, dtype);
  kernels::copy_into(out, x);
  return out;
}

}  // namespace

void Optimizer::zero_grad() {
  for (const Tensor& p : parameters()) p.set_grad({});
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> all;
  for (const Group& group : groups_) {
    for (const Slot& slot : group.slots) all.push_back(slot.param);
  }
  return all;
}

void Optimizer::step_unless(const Tensor& found_inf) {
  if (!skips_on_device() && found_inf.item<bool>()) return;
  struct Flag {
    Optimizer& optimizer;
    ~Flag() { optimizer.set_found_inf({}); }
  } const flag{*this};
  set_found_inf(found_inf);
  step();
}

double Optimizer::lr(size_t group) const {
  return std::visit([](const auto& o) { return o.lr; }, groups_.at(group).options);
}
void Optimizer::set_lr(double lr) {
  for (size_t i = 0; i < groups_.size(); ++i) set_lr(i, lr);
}
void Optimizer::set_lr(size_t group, double lr) {
  Group& g = groups_.at(group);
  if (lr_of(g.options) == lr) return;
  lr_of(g.options) = lr;
  for (const Tensor& device_lr : g.device_lrs) kernels::fill(device_lr, lr);
}

void Optimizer::add_group(const std::vector<NamedTensor>& params,
                          const kernels::UpdateRule& options) {
  Group group{{}, options, recipe_of(options), {}};
  if (params.empty()) throw ValueError("optimizer got an empty parameter list");
  std::vector<Tensor> known = parameters();
  for (size_t i = 0; i < params.size(); ++i) {
    const auto& [name, p] = params[i];
    const std::string which =
        name.empty() ? cat("parameter ", i, " of group ", groups_.size()) : cat("parameter ", name);
    if (!p.defined()) throw ValueError(cat(which, " is undefined"));
    if (!p.is_leaf()) throw ValueError(cat("can't optimize a non-leaf Tensor (", which, ")"));
    if (!p.is_floating_point()) {
      throw ValueError(cat(which, " has dtype ", p.dtype(), "; only floating tensors are trained"));
    }
    if (!is_dense(p.shape(), p.strides())) {
      throw ValueError(cat(which, " has holes in memory; only dense tensors are trained"));
    }
    if (group.recipe.only_matrices && p.dim() != 2) {
      throw ValueError(cat(group.recipe.optimizer,
                           " only supports 2D parameters whereas we found a parameter with size: "
                           "torch.Size(",
                           p.shape(), ") (", which, ")"));
    }
    if (std::any_of(known.begin(), known.end(), [&](const Tensor& x) { return x.is_same(p); })) {
      throw ValueError(
          cat("some parameters appear in more than one parameter group (", which, ")"));
    }
    known.push_back(p);
    group.slots.push_back({p, name, {}, {}, {}});
    if (group.recipe.initial) prepare(group.slots.back().states[0], p, *group.recipe.initial);
  }
  groups_.push_back(std::move(group));
}

void Optimizer::prepare(Tensor& state, const Tensor& param, double initial) {
  if (state.defined()) {
    state = beside(param, state, state_dtype(param));
  } else {
    state = empty_like_layout(param, state_dtype(param));
    kernels::fill(state, initial);
  }
}

std::vector<std::vector<Optimizer::Slot*>> Optimizer::parts_of(Group& group) {
  std::vector<std::vector<Slot*>> parts;
  // Counts that followed their parameters to another device: who shared one still does.
  std::vector<std::pair<Tensor, Tensor>> moved;
  for (Slot& slot : group.slots) {
    if (!slot.param.grad().defined()) continue;
    const Device device = slot.param.device();
    if (slot.step.defined() && slot.step.device() != device) {
      auto known = std::find_if(moved.begin(), moved.end(), [&](const auto& m) {
        return m.first.is_same(slot.step) && m.second.device() == device;
      });
      if (known == moved.end()) {
        const Tensor there = kernels::make_step(device);
        kernels::copy_into(there, slot.step);
        known = moved.insert(moved.end(), {slot.step, there});
      }
      slot.step = known->second;
    }
    auto part = std::find_if(parts.begin(), parts.end(), [&](const auto& p) {
      return p[0]->step.is_same(slot.step) && p[0]->param.device() == device;
    });
    if (part == parts.end()) part = parts.insert(parts.end(), std::vector<Slot*>());
    part->push_back(&slot);
  }
  return parts;
}

bool Optimizer::trains_master(const Slot& slot, const kernels::UpdateRule& options) {
  return is_half(slot.param.dtype()) &&
         std::visit([](const auto& o) { return o.master_weights; }, options);
}

kernels::Update Optimizer::update_of(const Slot& slot) {
  const Tensor& p = slot.param;
  kernels::Update u{p, beside(p, p.grad(), p.dtype()), {}, {}};
  std::copy_n(slot.states, std::size(slot.states), u.states);
  u.low = slot.master.defined() ? p : half_copy_to_update(p);
  if (slot.master.defined()) u.param = slot.master;
  return u;
}

std::vector<Optimizer::Batch> Optimizer::batches(Group& group) {
  std::vector<Batch> out;
  for (const std::vector<Slot*>& part : parts_of(group)) {
    const Device device = part[0]->param.device();
    if (found_inf_.defined() && found_inf_.device() != device) {
      throw Error(cat("found_inf is on ", found_inf_.device(), " and a parameter on ", device));
    }
    auto lr = std::find_if(group.device_lrs.begin(), group.device_lrs.end(),
                           [&](const Tensor& x) { return x.device() == device; });
    if (lr == group.device_lrs.end()) {
      lr = group.device_lrs.insert(lr, Tensor::make({}, kFloat64, device));
      kernels::fill(*lr, lr_of(group.options));
    }
    Tensor step = part[0]->step;
    const bool counts = group.recipe.count != Recipe::uncounted;
    if (counts) {
      const auto shares = [&](const Slot& s) { return s.step.defined() && s.step.is_same(step); };
      const auto sharers = std::count_if(group.slots.begin(), group.slots.end(), shares);
      if (!step.defined()) {
        step = kernels::make_step(device);
      } else if (size_t(sharers) != part.size()) {  // the others stay behind with the old count
        step = kernels::make_step(device);
        kernels::copy_into(step, part[0]->step);
      }
    }
    Batch batch{{}, {*lr, step, found_inf_, counts}, {}};
    for (Slot* slot : part) {
      slot->step = step;
      for (size_t k = 0; k < group.recipe.states.size(); ++k) {
        prepare(slot->states[k], slot->param, k == 0 ? group.recipe.initial.value_or(0) : 0);
      }
      // The kernel finds that a new master is not what the parameter says. A parameter that is no
      // longer half needs none.
      slot->master = trains_master(*slot, group.options) ? slot->master : Tensor();
      if (trains_master(*slot, group.options)) prepare(slot->master, slot->param, 0);
      batch.updates.push_back(update_of(*slot));
      batch.params.push_back(slot->param);
    }
    out.push_back(std::move(batch));
  }
  return out;
}

void Optimizer::apply(const Batch& batch, const kernels::UpdateRule& rule) {
  kernels::update(batch.updates, batch.scalars, rule);
  for (size_t i = 0; i < batch.params.size(); ++i) {
    const Tensor& p = batch.params[i];
    // A graph that saved the old values must notice the step.
    p.storage()->version.fetch_add(1);
    const Tensor& low = batch.updates[i].low;
    if (low.defined() && !low.is_same(p)) half_copy_updated(p);
  }
}

void Optimizer::step() {
  const RecordFunction range(
      is_observed() ? cat("Optimizer.step#", groups_[0].recipe.optimizer, ".step") : "");
  for (Group& group : groups_) {
    for (const Batch& batch : batches(group)) apply(batch, group.options);
  }
}

}  // namespace taper::optim
