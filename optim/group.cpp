#include "optim/group.h"

#include <algorithm>

#include "framework/factories.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/memory/half_copy.h"

namespace taper::optim {
namespace {

// State that is missing starts at its initial value; state that was left behind follows.
void prepare_state(Tensor& state, const Tensor& param, double initial) {
  if (state.defined()) {
    state = beside(param, state, state_dtype(param));
  } else {
    state = empty_like_layout(param, state_dtype(param));
    kernels::fill(state, initial);
  }
}

kernels::Update update_of(const Group::Slot& slot) {
  const Tensor& p = slot.param;
  const bool has_master = slot.master.defined();
  return {has_master ? slot.master : p, beside(p, p.grad(), p.dtype()), slot.states,
          has_master ? p : half_copy_to_update(p)};
}

std::string group_key(size_t group, const char* name) {
  return cat("param_groups.", group, ".", name);
}

void list(std::string& names, const std::string& name) {
  names += cat(names.empty() ? "" : ", ", "\"", name, "\"");
}

}  // namespace

OptimizerStateReader::OptimizerStateReader(const std::vector<NamedTensor>& state) {
  for (const auto& [name, tensor] : state) given_[name] = tensor;
}

bool OptimizerStateReader::has(const std::string& prefix) const {
  const auto it = given_.lower_bound(prefix);
  return it != given_.end() && it->first.starts_with(prefix);
}

Tensor OptimizerStateReader::take(const std::string& name, const Shape* shape) {
  const auto entry = given_.extract(name);
  if (entry.empty() || !entry.mapped().defined()) return list(missing_, name), Tensor();
  const Tensor& found = entry.mapped();
  if (!shape || found.shape() == *shape) return found;
  problems += cat("\n\tsize mismatch for ", name, ": copying a param with shape ", found.shape(),
                  " from checkpoint, the shape in current optimizer is ", *shape, ".");
  return {};
}

void OptimizerStateReader::finish(const char* optimizer) const {
  std::string unexpected;
  for (const auto& [name, tensor] : given_) list(unexpected, name);
  const auto line = [](const char* kind, const std::string& names) {
    return names.empty() ? "" : cat("\n\t", kind, " key(s) in state_dict: ", names, ".");
  };
  const std::string text = cat(line("Missing", missing_), line("Unexpected", unexpected), problems);
  if (text.empty()) return;
  throw ValueError(cat("Error(s) in loading state_dict for ", optimizer, ":", text));
}

void Group::add(const Tensor& param) {
  slots.push_back({param, std::vector<Tensor>(recipe.states.size()), {}, {}});
  if (recipe.initial) prepare_state(slots.back().states.at(0), param, *recipe.initial);
}

void Group::set_lr(double lr) {
  if (rule->lr() == lr) return;
  rule->lr() = lr;
  for (const Tensor& device_lr : device_lrs_) kernels::fill(device_lr, lr);
}

Tensor Group::device_lr(Device device) {
  for (const Tensor& lr : device_lrs_) {
    if (lr.device() == device) return lr;
  }
  device_lrs_.push_back(Tensor::make({}, kFloat64, device));
  kernels::fill(device_lrs_.back(), rule->lr());
  return device_lrs_.back();
}

std::vector<std::vector<Group::Slot*>> Group::parts() {
  std::vector<std::vector<Slot*>> parts;
  // Counts that followed their parameters to another device: who shared one still does.
  std::vector<std::pair<Tensor, Tensor>> moved;
  for (Slot& slot : slots) {
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

Tensor Group::own_count(const std::vector<Slot*>& part) const {
  const Tensor& shared = part[0]->step;
  const auto shares = [&](const Slot& s) { return s.step.defined() && s.step.is_same(shared); };
  const auto sharers = std::count_if(slots.begin(), slots.end(), shares);
  if (shared.defined() && size_t(sharers) == part.size()) return shared;
  // The others stay behind with the old count.
  const Tensor own = kernels::make_step(part[0]->param.device());
  if (shared.defined()) kernels::copy_into(own, shared);
  return own;
}

void Group::prepare(Slot& slot) const {
  for (size_t k = 0; k < slot.states.size(); ++k) {
    prepare_state(slot.states[k], slot.param, k == 0 ? recipe.initial.value_or(0) : 0);
  }
  // The kernel finds that a new master is not what the parameter says. A parameter that is no
  // longer half needs none.
  if (trains_master(slot)) {
    prepare_state(slot.master, slot.param, 0);
  } else {
    slot.master = {};
  }
}

void Group::step(const std::vector<Slot*>& part, const Tensor& found_inf) {
  const Device device = part[0]->param.device();
  if (found_inf.defined() && found_inf.device() != device) {
    throw Error(cat("found_inf is on ", found_inf.device(), " and a parameter on ", device));
  }
  const bool counts = recipe.count != Recipe::uncounted;
  const Tensor count = counts ? own_count(part) : part[0]->step;
  const kernels::StepScalars scalars{device_lr(device), count, found_inf, counts};
  std::vector<kernels::Update> updates;
  updates.reserve(part.size());
  for (Slot* slot : part) {
    slot->step = count;
    prepare(*slot);
    updates.push_back(update_of(*slot));
  }
  rule->update(updates, scalars);
  for (size_t i = 0; i < part.size(); ++i) {
    const Tensor& p = part[i]->param;
    // A graph that saved the old values must notice the step.
    p.storage()->version.fetch_add(1);
    const Tensor& low = updates[i].low;
    if (low.defined() && !low.is_same(p)) half_copy_updated(p);
  }
}

void Group::step(const Tensor& found_inf) {
  for (const std::vector<Slot*>& part : parts()) step(part, found_inf);
}

void Group::save_state(std::vector<NamedTensor>& out, int64_t first_id) const {
  for (const Slot& slot : slots) {
    const std::string key = cat("state.", first_id++, ".");
    if (slot.master.defined()) out.push_back({key + "master_param", slot.master});
    // Updates that all overflowed leave no trace, though their zeros are there.
    const bool counts = recipe.count == Recipe::counted && slot.step.defined();
    const bool begun = slot.states.empty() ? slot.step.defined() : slot.states[0].defined();
    if (!begun || (counts && slot.step.item<double>() == 0)) continue;
    if (recipe.count == Recipe::saved) {
      const Tensor step = zeros({});
      if (slot.step.defined()) kernels::copy_into(step, slot.step);
      out.push_back({key + "step", step});
    }
    for (size_t k = 0; k < slot.states.size(); ++k) {
      out.push_back({key + recipe.states[k], slot.states[k]});
    }
  }
}

void Group::save_settings(std::vector<NamedTensor>& out, size_t g, int64_t first_id) const {
  for (const Setting& s : rule->settings()) out.push_back({group_key(g, s.name), s.value()});
  out.push_back({group_key(g, "params"), taper::arange(first_id, first_id + std::ssize(slots))});
}

Group Group::loaded(OptimizerStateReader& saved, size_t g) const {
  const Tensor numbers = saved.take(group_key(g, "params"), nullptr);
  const auto ids =
      numbers.defined() ? numbers.to_vector<int64_t>() : std::vector<int64_t>(slots.size(), -1);
  if (ids.size() != slots.size()) {
    throw ValueError(cat(
        "loaded state dict contains a parameter group that doesn't match the size of optimizer's "
        "group (group ",
        g, ": ", ids.size(), " parameters, the optimizer's has ", slots.size(), ")"));
  }
  Group group(rule->clone());
  for (const Setting& setting : group.rule->settings()) {
    const Tensor value = saved.take(group_key(g, setting.name), &setting.shape);
    if (value.defined()) setting.assign(value);
  }
  try {
    group.recipe = group.rule->recipe();
  } catch (const ValueError& error) {
    saved.problems += cat("\n\t", error.what(), " (group ", g, ")");
  }
  // Those who have counted as far share their count.
  std::map<std::pair<double, std::string>, Tensor> steps;
  for (size_t i = 0; i < slots.size(); ++i) {
    group.add(slots[i].param);
    Slot& slot = group.slots.back();
    const std::string key = cat("state.", ids[i], ".");
    const auto read = [&](Tensor& state, const char* name) {
      const Tensor value = saved.take(key + name, &slot.param.shape());
      if (!value.defined()) return;
      prepare_state(state, slot.param, 0);
      kernels::copy_into(state, value);
    };
    const bool begun = saved.has(key) || group.recipe.initial;
    if (group.trains_master(slot) && saved.has(key + "master_param")) {
      read(slot.master, "master_param");
    }
    for (size_t k = 0; begun && k < slot.states.size(); ++k) {
      read(slot.states[k], group.recipe.states[k]);
    }
    if (begun && group.recipe.count != Recipe::uncounted) {
      const Shape number = {};
      const bool known = group.recipe.count == Recipe::saved;
      const Tensor step = known ? saved.take(key + "step", &number) : ones({});
      const double n = step.defined() ? step.item<double>() : 0;
      const Device device = slot.param.device();
      Tensor& shared = steps[{n, to_string(device)}];
      if (!shared.defined()) {
        shared = kernels::make_step(device);
        kernels::fill(shared, n);
      }
      slot.step = shared;
    }
  }
  return group;
}

}  // namespace taper::optim
