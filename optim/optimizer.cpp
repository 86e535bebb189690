#include "optim/optimizer.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string_view>

#include "framework/factory/factories.h"
#include "framework/profiler/profiler.h"
#include "optim/group.h"
#include "optim/shared.h"

namespace taper::v0::optim {
namespace {

// Returns whether the pattern matches the whole name. `*` matches any text; the pattern has no `|`.
bool matches_one(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] != '*') {
    return !name.empty() && name[0] == pattern[0] && matches_one(pattern.substr(1), name.substr(1));
  }
  return matches_one(pattern.substr(1), name) ||
         (!name.empty() && matches_one(pattern, name.substr(1)));
}
bool matches(std::string_view pattern, std::string_view name) {
  const size_t bar = pattern.find('|');
  if (matches_one(pattern.substr(0, bar), name)) return true;
  return bar != pattern.npos && matches(pattern.substr(bar + 1), name);
}

void assign_by_name(GroupOptions& options, const std::string& name, double value) {
  std::string known;
  for (const Setting& setting : options.settings()) {
    if (setting.name == name && setting.shape.empty()) return setting.assign(wrap_scalar(value));
    known += concat_to_string(known.empty() ? "" : ", ", setting.name);
  }
  throw ValueError(options.traits().optimizer, " has no setting \"", name,
                   "\" that is a single number; its settings are ", known);
}

}  // namespace

std::vector<NamedTensor> unnamed(const std::vector<Tensor>& params) {
  std::vector<NamedTensor> out;
  for (const Tensor& p : params) out.push_back({"", p});
  return out;
}

GroupRule no_decay() { return {"*", {{"weight_decay", 0}}, 1}; }
const std::vector<GroupRule>& no_rules() {
  static const std::vector<GroupRule> none;
  return none;
}

Optimizer::Optimizer() = default;
Optimizer::~Optimizer() = default;
Optimizer::Optimizer(Optimizer&& other) noexcept
    : groups_(std::move(other.groups_)), found_inf_(std::move(other.found_inf_)) {
  other.was_moved_ = true;
}
Optimizer& Optimizer::operator=(Optimizer&& other) noexcept {
  if (this == &other) return *this;
  groups_ = std::exchange(other.groups_, {});
  found_inf_ = std::exchange(other.found_inf_, {});
  was_moved_ = std::exchange(other.was_moved_, true);
  return *this;
}

void Optimizer::add_groups(const std::vector<NamedTensor>& params, const GroupOptions& options,
                           const std::vector<GroupRule>& rules) {
  std::vector<std::vector<NamedTensor>> members(rules.size() + 1);
  for (const NamedTensor& p : params) {
    size_t i = 0;
    while (i < rules.size() && !(matches(rules[i].pattern, p.name) && p.tensor.defined() &&
                                 p.tensor.dim() <= rules[i].max_dim)) {
      ++i;
    }
    members[i == rules.size() ? 0 : i + 1].push_back(p);
  }
  if (rules.empty() || !members[0].empty()) add_group(members[0], options.clone());
  for (size_t i = 0; i < rules.size(); ++i) {
    const auto& [pattern, settings, max_dim] = rules[i];
    require<ValueError>(
        !members[i + 1].empty(), "no parameter matches the pattern \"", pattern, "\"",
        max_dim < kMaxDims ? concat_to_string(" with dimensions up to ", max_dim) : "",
        i > 0 ? ", or earlier patterns match all of its parameters" : "");
    std::unique_ptr<GroupOptions> own = options.clone();
    for (const auto& [name, value] : settings) assign_by_name(*own, name, value);
    add_group(members[i + 1], std::move(own));
  }
}

void Optimizer::add_group(const std::vector<NamedTensor>& params,
                          std::unique_ptr<GroupOptions> options) {
  Group group(std::move(options));
  if (params.empty()) throw ValueError("optimizer got an empty parameter list");
  std::vector<Tensor> known = parameters();
  for (size_t i = 0; i < params.size(); ++i) {
    const auto& [name, p] = params[i];
    const std::string which = name.empty()
                                  ? concat_to_string("parameter ", i, " of group ", groups_.size())
                                  : concat_to_string("parameter ", name);
    if (!p.defined()) throw ValueError(which, " is undefined");
    if (!p.is_leaf()) throw ValueError("can't optimize a non-leaf Tensor (", which, ")");
    require<ValueError>(p.is_floating_point(), which, " has dtype ", p.dtype(),
                        "; only floating tensors are trained");
    require<ValueError>(is_dense(p.shape(), p.strides()), which,
                        " has holes in memory; only dense tensors are trained");
    require<ValueError>(!group.traits.only_matrices || p.dim() == 2, group.traits.optimizer,
                        " only supports 2D parameters whereas we found a parameter with size: ",
                        p.shape(), " (", which, ")");
    require<ValueError>(
        std::none_of(known.begin(), known.end(), [&](const Tensor& x) { return x.is_same(p); }),
        "some parameters appear in more than one parameter group (", which, ")");
    known.push_back(p);
    group.add(p, name);
  }
  groups_.push_back(std::move(group));
}

void Optimizer::check_step() const {
  require(
      !was_moved_,
      "this optimizer was moved from: the optimizer that it was moved to has its parameters and "
      "state; this one may only be destroyed or assigned to");
  if (const char* name = swapped_by(*this)) {
    throw Error(name,
                ": step() while the averages are in the model; the step would be lost when they "
                "are swapped back");
  }
  check_modules();
}

void Optimizer::check_modules() const {
  size_t lost = 0, i = 0, first = 0;
  const Group::Slot* slot = nullptr;
  for (const Group& group : groups_) {
    for (const Group::Slot& s : group.slots) {
      const bool is_lost = s.was_in_module && s.param.impl()->module_places == 0;
      lost += is_lost;
      if (is_lost && !slot) slot = &s, first = i;
      ++i;
    }
  }
  if (!slot) return;
  const std::string which = slot->name.empty() ? concat_to_string(first) : slot->name;
  throw Error(groups_[0].traits.optimizer, ": parameter ", which, " of shape ", slot->param.shape(),
              lost > 1 ? concat_to_string(" and ", lost - 1, " more are") : " is",
              " no longer in a module: the module was destroyed, or its layer, weight or whole "
              "content was replaced after the optimizer was created, so that a step would train "
              "tensors that the model does not use. Create the optimizer after the model is "
              "complete; to restore weights, use load_state_dict(), which writes into the "
              "parameters");
}

void Optimizer::step() {
  check_step();
  const char* name = groups_.empty() ? "Optimizer" : groups_[0].traits.optimizer;
  const RecordFunction range(is_observed() ? concat_to_string("Optimizer.step#", name, ".step")
                                           : "");
  for (Group& group : groups_) group.step(found_inf_);
}

Tensor Optimizer::step_by(const std::function<Tensor()>& closure) {
  const Tensor loss = closure();
  step();
  return loss;
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

void Optimizer::zero_grad() {
  for (const Tensor& p : parameters()) p.set_grad({});
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> all;
  for (const Group& group : groups_) {
    for (const Group::Slot& slot : group.slots) all.push_back(slot.param);
  }
  return all;
}

size_t Optimizer::num_groups() const { return groups_.size(); }
const Group& Optimizer::group(size_t index) const {
  if (index < groups_.size()) return groups_[index];
  throw IndexError("the optimizer has ", groups_.size(), " parameter group",
                   groups_.size() == 1 ? "" : "s", ", counted from 0, but no group ", index);
}
double Optimizer::lr(size_t index) const { return group(index).options->lr(); }
void Optimizer::set_lr(size_t index, double lr) { const_cast<Group&>(group(index)).set_lr(lr); }
void Optimizer::set_lr(double lr) {
  for (Group& group : groups_) group.set_lr(lr);
}

std::vector<NamedTensor> Optimizer::state_dict() const { return state_of(groups_); }

void Optimizer::load_state_dict(const std::vector<NamedTensor>& state) {
  groups_ = loaded(groups_, state);
}

}  // namespace taper::v0::optim
