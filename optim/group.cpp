#include "optim/group.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "framework/factory/factories.h"
#include "framework/factory/low_precision_cache.h"
#include "framework/io/text_utils.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0::optim {
namespace {

// Creates a missing state with its initial value, or moves an existing one to the parameter's
// device.
void prepare_state(Tensor& state, const Tensor& param, double initial) {
  if (state.defined()) {
    state = matching_layout(param, state, state_dtype(param));
  } else {
    state = empty_like_layout(param, state_dtype(param));
    kernels::fill(state, initial);
  }
}

kernels::Update update_of(const Group::Slot& slot) {
  const Tensor& p = slot.param;
  const bool has_master = slot.master.defined();
  return {has_master ? slot.master : p, matching_layout(p, p.grad(), p.dtype()), slot.states,
          has_master ? p : low_precision_copy_to_update(p)};
}

}  // namespace

Group::Group(std::unique_ptr<GroupOptions> own)
    : options(std::move(own)), traits(options->traits()) {
  require<ValueError>(!traits.initial || !traits.states.empty(), traits.optimizer,
                      ": traits() gives an initial value but names no state for it");
}

void Group::add(const Tensor& param, const std::string& name) {
  slots.push_back(
      {param, name, param.impl()->module_places > 0, std::vector<Tensor>(traits.states.size())});
  if (traits.initial) prepare_state(slots.back().states[0], param, *traits.initial);
}

void Group::set_lr(double lr) {
  if (options->lr() == lr) return;
  options->lr() = lr;
  for (const Tensor& device_lr : device_lrs_) kernels::fill(device_lr, lr);
}

Tensor Group::device_lr(Device device) {
  for (const Tensor& lr : device_lrs_) {
    if (lr.device() == device) return lr;
  }
  device_lrs_.push_back(Tensor::make({}, kFloat64, device));
  kernels::fill(device_lrs_.back(), options->lr());
  return device_lrs_.back();
}

std::vector<std::vector<Group::Slot*>> Group::parts() {
  std::vector<std::vector<Slot*>> parts;
  for (Slot& slot : slots) {
    const Device device = slot.param.device();
    if (const Tensor old = slot.step; old.defined() && old.device() != device) {
      // The count is moved with the parameters. Slots that shared it on the old device share it on
      // the new one.
      const Tensor there = kernels::make_step(device, old);
      for (Slot& other : slots) {
        const bool shares = other.step.defined() && other.step.is_same(old);
        if (shares && other.param.device() == device) other.step = there;
      }
    }
    if (!slot.param.grad().defined()) continue;
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
  // The slots that are not updated now keep the old count.
  return kernels::make_step(part[0]->param.device(), shared);
}

void Group::prepare(Slot& slot) const {
  for (size_t k = 0; k < slot.states.size(); ++k) {
    prepare_state(slot.states[k], slot.param, k == 0 ? traits.initial.value_or(0) : 0);
  }
  // A new master is 0 and differs from the parameter. The kernel detects that and copies the
  // parameter into it. A parameter that is no longer of a half type needs no master.
  if (trains_master(slot)) {
    prepare_state(slot.master, slot.param, 0);
  } else {
    slot.master = {};
  }
}

void Group::step(const std::vector<Slot*>& part, const Tensor& found_inf) {
  const Device device = part[0]->param.device();
  const Tensor found_here = found_inf.defined() ? found_inf.to(device) : found_inf;
  const bool counts = traits.count != OptimizerTraits::kUncounted;
  const Tensor count = counts ? own_count(part) : part[0]->step;
  const kernels::StepScalars scalars{device_lr(device), count, found_here, counts};
  std::vector<kernels::Update> updates;
  updates.reserve(part.size());
  for (Slot* slot : part) {
    slot->step = count;
    prepare(*slot);
    updates.push_back(update_of(*slot));
  }
  options->update(updates, scalars);
  for (size_t i = 0; i < part.size(); ++i) {
    const Tensor& p = part[i]->param;
    // Increments the version, so that a graph that has saved the old values can detect the change.
    p.storage()->version.fetch_add(1);
    const Tensor& low = updates[i].low;
    if (low.defined() && !low.is_same(p)) low_precision_copy_updated(p);
  }
}

void Group::step(const Tensor& found_inf) {
  for (const std::vector<Slot*>& part : parts()) step(part, found_inf);
}

// --- state dicts ---

namespace {

std::string group_key(size_t group, const char* name) {
  return concat_to_string("param_groups.", group, ".", name);
}

// Appends the entries "state.ID.NAME" of the group's parameters, whose ids start at `id`.
void save_slots(const Group& group, int64_t id, std::vector<NamedTensor>& out) {
  const OptimizerTraits& traits = group.traits;
  for (const Group::Slot& slot : group.slots) {
    const std::string key = concat_to_string("state.", id++, ".");
    if (slot.master.defined()) out.push_back({key + "master_param", slot.master});
    // If all updates so far have overflowed, the states are allocated but must not be saved.
    const bool counts = traits.count == OptimizerTraits::kCounted && slot.step.defined();
    const bool begun = slot.states.empty() ? slot.step.defined() : slot.states[0].defined();
    if (!begun || (counts && slot.step.item<double>() == 0)) continue;
    if (traits.count == OptimizerTraits::kSaved) {
      const Tensor step = zeros({});
      if (slot.step.defined()) kernels::copy_into(step, slot.step);
      out.push_back({key + "step", step});
      if (const auto& [name, of] = traits.derived; name) {
        out.push_back({key + name, tensor(of(step.item<double>()), {.dtype = kFloat64})});
      }
    }
    for (size_t k = 0; k < slot.states.size(); ++k) {
      out.push_back({key + traits.states[k], slot.states[k]});
    }
  }
}

// A state dict that is being loaded, and everything in it that does not fit.
struct Reader {
  std::map<std::string, Tensor> given = {};
  std::vector<std::string> missing = {};
  std::string problems = {};

  // Returns whether a name starts with the prefix.
  bool has(const std::string& prefix) const {
    const auto it = given.lower_bound(prefix);
    return it != given.end() && it->first.starts_with(prefix);
  }
  // Removes and returns the tensor of that name. `shape` is its required shape; null: any. If it is
  // missing or has another shape, records that and returns an undefined tensor.
  Tensor take(const std::string& name, const Shape* shape) {
    const auto entry = given.extract(name);
    if (entry.empty() || !entry.mapped().defined()) return missing.push_back(name), Tensor();
    const Tensor& found = entry.mapped();
    if (!shape || found.shape() == *shape) return found;
    problems += concat_to_string(
        "\n\tsize mismatch for ", name, ": copying a param with shape ", found.shape(),
        " from checkpoint, the shape in current optimizer is ", *shape, ".");
    return {};
  }
  // Throws ValueError if anything was missing, unexpected, or of another shape.
  void finish(const char* optimizer) const {
    std::vector<std::string> unexpected;
    for (const auto& [name, tensor] : given) unexpected.push_back(name);
    const std::string text = detail::state_keys("Missing", missing) +
                             detail::state_keys("Unexpected", unexpected) + problems;
    require<ValueError>(text.empty(), "Error(s) in loading state_dict for ", optimizer, ":", text);
  }
};

// Loads the entries of a parameter, whose names start with `key`. Parameters with the same count
// share one tensor.
void load_slot(Group::Slot& slot, const Group& group, const std::string& key, Reader& saved,
               std::map<std::pair<double, std::string>, Tensor>& counts) {
  const OptimizerTraits& traits = group.traits;
  const auto read = [&](Tensor& state, const char* name) {
    const Tensor value = saved.take(key + name, &slot.param.shape());
    if (!value.defined()) return;
    prepare_state(state, slot.param, 0);
    kernels::copy_into(state, value);
  };
  const bool begun = saved.has(key) || traits.initial;
  if (group.trains_master(slot) && saved.has(key + "master_param")) {
    read(slot.master, "master_param");
  }
  if (!begun) return;
  for (size_t k = 0; k < slot.states.size(); ++k) read(slot.states[k], traits.states[k]);
  if (traits.count == OptimizerTraits::kUncounted) return;
  const Shape number = {};
  const Tensor step =
      traits.count == OptimizerTraits::kSaved ? saved.take(key + "step", &number) : ones({});
  if (traits.derived.name) (void)saved.take(key + traits.derived.name, &number);
  const double n = step.defined() ? step.item<double>() : 0;
  const Device device = slot.param.device();
  Tensor& shared = counts[{n, to_string(device)}];
  if (!shared.defined()) shared = kernels::make_step(device, step);
  slot.step = shared;
}

// Returns a group with the parameters of `own` and with the settings and state that were saved for
// group g.
Group loaded_group(const Group& own, size_t g, Reader& saved) {
  const size_t size = own.slots.size();
  const Tensor numbers = saved.take(group_key(g, "params"), nullptr);
  const auto ids =
      numbers.defined() ? numbers.to_vector<int64_t>() : std::vector<int64_t>(size, -1);
  require<ValueError>(ids.size() == size,
                      "loaded state dict contains a parameter group that doesn't match the size of "
                      "optimizer's group (group ",
                      g, ": ", ids.size(), " parameters, the optimizer's has ", size, ")");
  Group group(own.options->clone());
  for (const Setting& setting : group.options->settings()) {
    const Tensor value = saved.take(group_key(g, setting.name), &setting.shape);
    if (value.defined()) setting.assign(value);
  }
  try {
    group.traits = group.options->traits();
  } catch (const ValueError& error) {
    saved.problems += concat_to_string("\n\t", error.what(), " (group ", g, ")");
  }
  std::map<std::pair<double, std::string>, Tensor> counts;
  for (size_t i = 0; i < size; ++i) {
    group.add(own.slots[i].param, own.slots[i].name);
    group.slots.back().was_in_module = own.slots[i].was_in_module;
    load_slot(group.slots.back(), group, concat_to_string("state.", ids[i], "."), saved, counts);
  }
  return group;
}

}  // namespace

std::vector<NamedTensor> state_of(const std::vector<Group>& groups) {
  std::vector<NamedTensor> state, settings;
  int64_t id = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const int64_t end = id + std::ssize(groups[g].slots);
    save_slots(groups[g], id, state);
    for (const Setting& s : groups[g].options->settings()) {
      settings.push_back({group_key(g, s.name), s.value()});
    }
    settings.push_back({group_key(g, "params"), taper::arange(id, end)});
    id = end;
  }
  state.insert(state.end(), settings.begin(), settings.end());
  return state;
}

std::vector<Group> loaded(const std::vector<Group>& groups, const std::vector<NamedTensor>& state) {
  Reader reader;
  for (const auto& [name, tensor] : state) reader.given[name] = tensor;
  size_t saved = 0;
  while (reader.has(concat_to_string("param_groups.", saved, "."))) ++saved;
  require<ValueError>(saved == groups.size(),
                      "loaded state dict has a different number of parameter groups (", saved,
                      ", the optimizer has ", groups.size(), ")");
  std::vector<Group> out;
  for (size_t g = 0; g < saved; ++g) out.push_back(loaded_group(groups[g], g, reader));
  reader.finish(groups.empty() ? "Optimizer" : groups[0].traits.optimizer);
  return out;
}

}  // namespace taper::v0::optim
