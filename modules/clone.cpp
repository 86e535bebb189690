// Copying of modules. A whole tree is copied at once, and each copy replaces its original in the
// copied tree.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "autograd/anomaly.h"
#include "autograd/node.h"
#include "autograd/ops/shape_ops.h"
#include "modules/members.h"

namespace taper::v0 {
namespace {

// The copies made so far. The keys are the originals.
struct Copies {
  std::map<const Module*, Module*> modules = {};
  std::map<const ModuleSlot*, std::shared_ptr<ModuleSlot>> slots = {};
  std::map<const TensorImpl*, Tensor> tensors = {};  // one copy for all tensors that are tied

  std::shared_ptr<ModuleSlot> slot(const std::shared_ptr<ModuleSlot>& from) {
    std::shared_ptr<ModuleSlot>& to = slots[from.get()];
    if (!to) {
      const Tensor copy = from->tensor.defined() ? tensor(from->tensor) : Tensor();
      to = std::make_shared<ModuleSlot>(copy);
    }
    return to;
  }
  Tensor tensor(const Tensor& from) {
    Tensor& to = tensors[from.impl()];
    if (to.defined()) return to;
    to = from.detach().clone();
    to.requires_grad_(from.requires_grad());
    to.impl()->is_parameter = from.impl()->is_parameter;
    return to;
  }
};
thread_local std::optional<Copies> copies;

Copies& copies_or_refuse() {
  if (copies) return *copies;
  throw Error(
      "a module is not copied, for that would not say whether weights are shared: clone(module) "
      "gives one with weights of its own, std::move(module) gives it away");
}

}  // namespace

CloneGuard::CloneGuard() : is_outermost_(!copies) {
  if (is_outermost_) copies.emplace();
}
CloneGuard::~CloneGuard() {
  if (is_outermost_) copies.reset();
}

void CloneGuard::finish() const {
  if (!is_outermost_) return;
  for (const auto& [from, to] : copies->modules) {
    for (const auto& [name, child] : to->children_) {
      if (std::ranges::count(child->parents_, to) > 0) continue;
      throw Error("clone: ", to->type_name(), " does not hold its child '", name,
                  "', which somebody else registered with it");
    }
  }
}

Module::Module(Module& other)
    : children_(other.children_), placement_(other.placement_), training_(other.training_) {
  Copies& all = copies_or_refuse();
  all.modules[&other] = this;
  for (const auto& [name, slot, role] : other.tensors_) {
    if (slot->tensor.defined()) tensors_.push_back({name, all.slot(slot), role});
  }
  // Connects the copy with copies of children and parents that were made earlier.
  for (auto& [name, child] : children_) {
    const auto copy = all.modules.find(child);
    if (copy == all.modules.end()) continue;
    child = copy->second;
    child->parents_.push_back(this);
  }
  for (const Module* parent : other.parents_) {
    const auto copy = all.modules.find(parent);
    if (copy == all.modules.end()) continue;
    std::ranges::find(copy->second->children_, &other, &Named::second)->second = this;
    parents_.push_back(copy->second);
  }
}

std::unique_ptr<Module> Module::copied() {
  throw Error("clone: of a ", type_name(),
              " behind a Module nothing says how it is copied: let it derive from ModuleOf<",
              type_name(), "> or Cloneable<", type_name(), ", its base>");
}

std::unique_ptr<Module> Module::clone() const {
  const CloneGuard scope;
  std::unique_ptr<Module> made = const_cast<Module*>(this)->copied();
  scope.finish();
  return made;
}

void check_whole(const Module& module, const std::type_info& type) {
  if (typeid(module) == type) return;
  throw TypeError("a ", module.type_name(), " was given as a module of its base type, ",
                  short_name(type),
                  ", of which a copy or a move would leave out what it adds: use "
                  "module.clone() or move the std::unique_ptr that owns it");
}

Tensor Module::copy_of(const Tensor& tensor) {
  return tensor.defined() ? copies_or_refuse().tensor(tensor) : tensor;
}

ModuleTensor::ModuleTensor(const ModuleTensor& other)
    : slot_(other.slot_ ? copies_or_refuse().slot(other.slot_) : nullptr) {}

}  // namespace taper::v0
