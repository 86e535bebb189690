// The state dict of an optimizer, under PyTorch's names.
#include <map>

#include "framework/factories.h"
#include "framework/kernels/elementwise/copy.h"
#include "optim/optimizer.h"

namespace taper::optim {
namespace {

std::string group_key(size_t group, const char* name) {
  return cat("param_groups.", group, ".", name);
}
void list(std::string& names, const std::string& name) {
  names += cat(names.empty() ? "" : ", ", "\"", name, "\"");
}

}  // namespace

// A state dict that is being read, and all that does not fit.
class Optimizer::Reader {
 public:
  explicit Reader(const std::vector<NamedTensor>& state) {
    for (const auto& [name, tensor] : state) given_[name] = tensor;
  }
  // Whether a name begins so.
  bool has(const std::string& prefix) const {
    const auto it = given_.lower_bound(prefix);
    return it != given_.end() && it->first.starts_with(prefix);
  }
  // The tensor of a name, of this shape unless that is null; undefined, and noted, when not there.
  Tensor take(const std::string& name, const Shape* shape) {
    const auto entry = given_.extract(name);
    if (entry.empty() || !entry.mapped().defined()) return list(missing_, name), Tensor();
    const Tensor& found = entry.mapped();
    if (!shape || found.shape() == *shape) return found;
    problems += cat("\n\tsize mismatch for ", name, ": copying a param with shape ", found.shape(),
                    " from checkpoint, the shape in current optimizer is ", *shape, ".");
    return {};
  }
  void finish(const char* optimizer) const {
    std::string unexpected;
    for (const auto& [name, tensor] : given_) list(unexpected, name);
    const auto line = [](const char* kind, const std::string& names) {
      return names.empty() ? "" : cat("\n\t", kind, " key(s) in state_dict: ", names, ".");
    };
    const std::string text =
        cat(line("Missing", missing_), line("Unexpected", unexpected), problems);
    if (text.empty()) return;
    throw ValueError(cat("Error(s) in loading state_dict for ", optimizer, ":", text));
  }

  std::string problems;

 private:
  std::map<std::string, Tensor> given_;
  std::string missing_;
};

std::vector<NamedTensor> Optimizer::state_dict() const {
  std::vector<NamedTensor> out;
  int64_t id = 0;
  for (const auto& [slots, options, recipe, lrs] : groups_) {
    for (const Slot& slot : slots) {
      const std::string key = cat("state.", id++, ".");
      if (slot.master.defined()) out.push_back({key + "master_param", slot.master});
      // Updates that all overflowed leave no trace, though their zeros are there.
      const bool counts = recipe.count == Recipe::counted && slot.step.defined();
      if (!slot.states[0].defined() || (counts && slot.step.item<double>() == 0)) continue;
      if (recipe.count == Recipe::saved) {
        const Tensor step = zeros({});
        if (slot.step.defined()) kernels::copy_into(step, slot.step);
        out.push_back({key + "step", step});
      }
      for (size_t k = 0; k < recipe.states.size(); ++k) {
        out.push_back({key + recipe.states[k], slot.states[k]});
      }
    }
  }
  id = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    kernels::UpdateRule options = groups_[g].options;
    for (const Field& field : fields_of(options)) {
      out.push_back({group_key(g, field.name), field.value()});
    }
    const int64_t end = id + int64_t(groups_[g].slots.size());
    out.push_back({group_key(g, "params"), taper::arange(id, end)});
    id = end;
  }
  return out;
}

Optimizer::Group Optimizer::read_group(Reader& reader, size_t g) const {
  const Group& old = groups_[g];
  const size_t count = old.slots.size();
  const Tensor saved = reader.take(group_key(g, "params"), nullptr);
  const auto ids = saved.defined() ? saved.to_vector<int64_t>() : std::vector<int64_t>(count, -1);
  if (ids.size() != count) {
    throw ValueError(cat(
        "loaded state dict contains a parameter group that doesn't match the size of optimizer's "
        "group (group ",
        g, ": ", ids.size(), " parameters, the optimizer's has ", count, ")"));
  }
  Group group{{}, old.options, old.recipe, {}};
  for (const Field& field : fields_of(group.options)) {
    const Tensor value = reader.take(group_key(g, field.name), &field.shape);
    if (value.defined()) field.assign(value);
  }
  try {
    group.recipe = recipe_of(group.options);
  } catch (const ValueError& error) {
    reader.problems += cat("\n\t", error.what(), " (group ", g, ")");
  }
  // Those who have counted as far share their count.
  std::map<std::pair<double, std::string>, Tensor> steps;
  for (size_t i = 0; i < count; ++i) {
    Slot slot{old.slots[i].param, old.slots[i].name, {}, {}, {}};
    const std::string key = cat("state.", ids[i], ".");
    const auto read = [&](Tensor& state, const char* name) {
      const Tensor value = reader.take(key + name, &slot.param.shape());
      if (!value.defined()) return;
      prepare(state, slot.param, 0);
      kernels::copy_into(state, value);
    };
    const bool begun = reader.has(key) || group.recipe.initial;
    if (trains_master(slot, group.options) && reader.has(key + "master_param")) {
      read(slot.master, "master_param");
    }
    for (size_t k = 0; begun && k < group.recipe.states.size(); ++k) {
      read(slot.states[k], group.recipe.states[k]);
    }
    if (begun && group.recipe.count != Recipe::uncounted) {
      const Shape number = {};
      const bool known = group.recipe.count == Recipe::saved;
      const Tensor step = known ? reader.take(key + "step", &number) : ones({});
      const double n = step.defined() ? step.item<double>() : 0;
      const Device device = slot.param.device();
      Tensor& shared = steps[{n, to_string(device)}];
      if (!shared.defined()) {
        shared = kernels::make_step(device);
        kernels::fill(shared, n);
      }
      slot.step = shared;
    }
    group.slots.push_back(std::move(slot));
  }
  return group;
}

void Optimizer::load_state_dict(const std::vector<NamedTensor>& state) {
  Reader reader(state);
  size_t saved = 0;
  while (reader.has(cat("param_groups.", saved, "."))) ++saved;
  if (saved != groups_.size()) {
    throw ValueError(cat("loaded state dict has a different number of parameter groups (", saved,
                         ", the optimizer has ", groups_.size(), ")"));
  }
  std::vector<Group> loaded;
  for (size_t g = 0; g < saved; ++g) loaded.push_back(read_group(reader, g));
  reader.finish(groups_[0].recipe.optimizer);
  groups_ = std::move(loaded);
}

}  // namespace taper::optim
