#include "modules/members.h"

#include <algorithm>
#include <memory>

#include "framework/kernels/elementwise/copy.h"

namespace taper::v0 {

void ModuleSlot::hold(const Tensor& value) {
  if (value.defined()) ++value.impl()->module_places;
  if (held_.defined()) --held_.impl()->module_places;
  tensor = held_ = value;
}

ModuleTensor::ModuleTensor(Module& owner, const std::string& name, const Tensor& value,
                           TensorRole role)
    : slot_(std::make_shared<ModuleSlot>(value.detach())) {
  owner.register_tensor(name, slot_, role);
}

ModuleTensor::~ModuleTensor() {
  if (slot_) slot_->hold({});
}

ModuleTensor& ModuleTensor::operator=(ModuleTensor&& other) {
  using enum ModuleSlot::State;
  // True if whole modules are being assigned. In that case one of the two may lack this tensor.
  const bool follows =
      slot_ ? slot_->state == kDropped : !other.slot_ || other.slot_->state == kArriving;
  if (!follows) return *this = *other;
  if (slot_) slot_->hold({});
  slot_ = std::move(other.slot_);
  if (slot_) slot_->state = kRegistered;
  return *this;
}

ModuleTensor& ModuleTensor::operator=(const Tensor& value) {
  if (!defined()) throw Error("cannot assign to a parameter that the module does not have");
  require(value.shape() == (*this)->shape(), "cannot assign a tensor of shape ", value.shape(),
          " to one of shape ", (*this)->shape());
  kernels::copy_into(slot_->tensor, value);
  slot_->tensor.storage()->version.fetch_add(1);
  return *this;
}

Parameter::Parameter(Module& owner, const std::string& name, const Tensor& value)
    : ModuleTensor(owner, name, value, TensorRole::kParameter) {
  slot_->tensor.requires_grad_();
  slot_->tensor.impl()->is_parameter = true;
}

void Parameter::share(const Parameter& other) {
  if (!defined() || !other.defined() || (*this)->shape() != other->shape()) {
    const auto shape = [](const Parameter& p) {
      return p.defined() ? to_string(p->shape()) : "none";
    };
    throw Error("cannot share a parameter of shape ", shape(other), " as one of shape ",
                shape(*this));
  }
  slot_->hold(other.slot_->tensor);
}

Buffer::Buffer(Module& owner, const std::string& name, const Tensor& value,
               const BufferOptions& options)
    : ModuleTensor(owner, name, value,
                   options.persistent ? TensorRole::kBuffer : TensorRole::kUnsavedBuffer) {}

// --- children ---

ChildBase::ChildBase(Module& owner, const std::string& name, std::unique_ptr<Module> module)
    : module_(std::move(module)), name_(std::make_shared<const std::string>(name)) {
  owner.register_module(name, *module_);
  module_->is_held_ = true;
  enter(&owner);
}

// NOLINTNEXTLINE(performance-move-constructor-init): the name stays with the moved-from member, too
ChildBase::ChildBase(ChildBase&& other) noexcept : name_(other.name_) {
  enter(other.owner_of_module());
  module_ = std::move(other.module_);
}

ChildBase::ChildBase(const ChildBase& other, std::unique_ptr<Module> copy)
    : module_(std::move(copy)), name_(other.name_) {
  if (!module_) return;
  module_->is_held_ = true;
  enter(other.owner_ && !module_->parents_.empty() ? module_->parents_[0] : nullptr);
}

ChildBase::~ChildBase() { leave(); }

Module* ChildBase::owner_of_module() const {
  if (!module_ || !owner_ || std::ranges::count(module_->parents_, owner_)) return owner_;
  // The whole owner is being moved. Its base class was moved before its members, and has taken the
  // children along.
  return module_->parents_.empty() ? nullptr : module_->parents_[0];
}

void ChildBase::enter(Module* owner) noexcept {
  leave();
  owner_ = owner;
  if (!owner) return;
  next_ = owner->held_;
  if (next_) next_->previous_ = this;
  owner->held_ = this;
}

void ChildBase::leave() noexcept {
  if (!owner_) return;
  (previous_ ? previous_->next_ : owner_->held_) = next_;
  if (next_) next_->previous_ = previous_;
  owner_ = nullptr;
  previous_ = next_ = nullptr;
}

Module* ChildBase::module_here() const {
  if (!owner_) return nullptr;
  const auto place = std::ranges::find(owner_->children_, *name_, &Module::Named::first);
  return place == owner_->children_.end() ? nullptr : place->second;
}

ChildBase& ChildBase::operator=(ChildBase&& other) {
  if (this == &other) return *this;
  if (owner_ && other.module_) put(*other.module_, other);
  if (!owner_) {
    name_ = other.name_;
    enter(other.owner_of_module());
  }
  const std::unique_ptr<Module> old =
      std::move(module_);  // may own `other`, so it is destroyed last
  module_ = std::move(other.module_);
  if (module_) module_->is_held_ = true;
  return *this;
}

void ChildBase::assign(std::unique_ptr<Module> fresh) {
  ChildBase from(std::move(fresh));
  *this = std::move(from);
}

void ChildBase::put(Module& fresh, ChildBase& from) {
  Module* const old = module_here();
  if (old == &fresh) return;  // it was moved here when its owner was assigned to this one's owner
  if (owner_->is_in(fresh)) {
    throw Error("a ", fresh.type_name(), " cannot be put into itself");
  }
  if (!old) return put_in_vacant_place(fresh, from);
  if (old == module_.get()) return module_->replace_with(fresh);
  for (ChildBase* holder = owner_->held_; holder; holder = holder->next_) {
    if (holder->module_.get() == old) return exchange_with(*holder, fresh, from);
  }
  // throws if another module was registered under this name
  owner_->check_name("Submodule", *name_);
}

void ChildBase::put_in_vacant_place(Module& fresh, ChildBase& from) {
  owner_->check_name("Submodule", *name_);
  if (from.owner_ == owner_ && from.module_here() == &fresh) {
    std::ranges::find(owner_->children_, *from.name_, &Module::Named::first)->first = *name_;
    return;
  }
  owner_->children_.push_back({*name_, &fresh});
  if (from.module_here() == &fresh) from.remove(fresh);
  fresh.parents_.insert(fresh.parents_.begin(), owner_);
}

// Moves the module of `holder`, which is registered here, to the place of `fresh`. If `fresh` has
// no place, or one below that module, removes that module from the tree.
void ChildBase::exchange_with(ChildBase& holder, Module& fresh, ChildBase& from) {
  Module& old = *holder.module_;
  const bool has_place = from.module_here() == &fresh;
  const bool takes_place = has_place && !from.owner_->is_in(old);
  if (takes_place) {
    const auto there =
        std::ranges::find(from.owner_->children_, *from.name_, &Module::Named::first);
    there->second = &old;
    *std::ranges::find(fresh.parents_, from.owner_) = owner_;
  } else {
    if (has_place) from.remove(fresh);
    fresh.parents_.insert(fresh.parents_.begin(), owner_);
  }
  const auto here = std::ranges::find(owner_->children_, *name_, &Module::Named::first);
  here->second = &fresh;
  const auto old_parent = std::ranges::find(old.parents_, owner_);
  if (!takes_place) {
    old.parents_.erase(old_parent);
    return holder.leave();
  }
  *old_parent = from.owner_;
  holder.name_ = from.name_;
  holder.enter(from.owner_);
}

void ChildBase::remove(Module& fresh) {
  owner_->children_.erase(std::ranges::find(owner_->children_, *name_, &Module::Named::first));
  fresh.parents_.erase(std::ranges::find(fresh.parents_, owner_));
}

void ChildBase::refuse_moved() {
  throw Error(
      "this Child was moved from: its module is where it was moved to. Assign a module to it "
      "before "
      "it is used");
}

}  // namespace taper::v0
