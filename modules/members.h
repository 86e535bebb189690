// What a module consists of: parameters, buffers and children, which are registered under their
// names when they are created as members and leave the tree when they are destroyed
// (modules/module.h).
#pragma once

#include <concepts>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "framework/memory/pointers.h"
#include "modules/module.h"

namespace taper::v0 {

// A tensor of a module. Assigning a tensor of the same shape changes the registered one in place.
// Leaves the tree when it is destroyed; moved from, it is undefined.
class ModuleTensor {
 public:
  operator const Tensor&() const { return **this; }
  const Tensor& operator*() const { return slot_ ? slot_->tensor : kUndefined; }
  const Tensor* operator->() const { return &**this; }
  bool defined() const { return slot_ && slot_->tensor.defined(); }
  // Throws Error for another shape, and where there is no tensor.
  ModuleTensor& operator=(const Tensor& value);
  ModuleTensor& operator=(const ModuleTensor& other) { return *this = *other; }
  // Assigns the values of the other tensor. Only where a whole module is assigned to another one,
  // this becomes the other's tensor.
  ModuleTensor& operator=(ModuleTensor&& other);

 protected:
  // Undefined, and not registered.
  ModuleTensor() = default;
  ModuleTensor(ModuleTensor&&) = default;
  ModuleTensor(const ModuleTensor& other);  // as Module's
  ModuleTensor(Module& owner, const std::string& name, const Tensor& value, bool is_buffer);
  ~ModuleTensor();

  // The module has it as well; there, an undefined tensor counts as none.
  Shared<ModuleSlot> slot_;

 private:
  static inline const Tensor kUndefined = {};
};

// Requires grad; optimizers train it.
class Parameter : public ModuleTensor {
 public:
  Parameter(Module& owner, const std::string& name, const Tensor& value);
  // Undefined, and not registered: a layer without its bias.
  Parameter() = default;
  using ModuleTensor::operator=;
  // From now on this is the other parameter, of the same shape, under its own name too: PyTorch's
  // `head.weight = embedding.weight`. Optimizers are made after it.
  void share(const Parameter& other);
};

// Saved and moved with the module, not trained.
class Buffer : public ModuleTensor {
 public:
  Buffer(Module& owner, const std::string& name, const Tensor& value)
      : ModuleTensor(owner, name, value, true) {}
  // Undefined, and not registered.
  Buffer() = default;
  using ModuleTensor::operator=;
};

// Takes a module over that is given away. M: the type that its new object has.
template <class M> Owned<Module> take_module(M&& module) {
  static_assert(!std::is_lvalue_reference_v<M>,
                "a module is given away: std::move(layer), or clone(layer) for a copy");
  static_assert(!std::is_same_v<M, Module>,
                "a Module is given away as a std::unique_ptr<Module>: its own type is not known "
                "here");
  check_whole(module, typeid(M));
  return Owned<Module>(new M(std::move(module)));
}

// Whether an argument of type D is the module that a Child<M> is to hold. It is not for a class M
// that takes modules in its constructor (M::kTakesModules: Sequential).
template <class M>
concept TakesModules = requires {
  M::kTakesModules;
};
template <class M, class D>
concept GivenAs = std::derived_from<D, M> && !TakesModules<M>;

// Creates M(args...), or takes over the M that is given; for a Module, one of any type. A program
// that is wrong gets one sentence from the compiler.
template <class M, class... Args> Owned<Module> make_module(Args&&... args) {
  constexpr bool is_given = sizeof...(Args) == 1 && (GivenAs<M, std::remove_cvref_t<Args>> && ...);
  constexpr bool slices =
      is_given && !std::same_as<M, Module> && !(std::same_as<std::remove_cvref_t<Args>, M> && ...);
  static_assert(!slices,
                "this would slice: name the module's own type, as in Child<Derived>, or Module, "
                "which holds a module of any type");
  if constexpr (slices) {
    return {};
  } else if constexpr (is_given && !(std::is_lvalue_reference_v<Args> && ...)) {
    return (take_module(std::forward<Args>(args)), ...);
  } else {
    constexpr bool can_be_made = std::is_constructible_v<M, Args...>;
    static_assert(can_be_made, "no constructor of this Child's module takes these arguments");
    if constexpr (can_be_made) return Owned<Module>(new M(std::forward<Args>(args)...));
  }
}

// What a Child is, whatever the type of its module: a place in a module's tree (its owner and its
// name there) that keeps to the object, and the module that is in it.
class ChildBase {
 protected:
  // Registers the module with the owner.
  ChildBase(Module& owner, const std::string& name, Owned<Module> module);
  // Takes the module with its place.
  ChildBase(ChildBase&& other) noexcept;
  // A copy as Module's; of the module that was made of the other's.
  ChildBase(const ChildBase& other, Owned<Module> copy);
  ~ChildBase();
  // Puts the other's module into this place, where the one that was here is destroyed. If another
  // Child holds what is registered here, as within std::swap, the two modules change places.
  // Without an owner, which may have been destroyed, the module keeps its place. Throws Error for a
  // module that this one is below.
  ChildBase& operator=(ChildBase&& other);
  // The same for a module that no Child holds.
  void assign(Owned<Module> fresh);
  // Throws Error when this was moved from.
  Module& module() const {
    if (!module_) refuse_moved();
    return *module_;
  }
  bool holds() const { return bool(module_); }

 private:
  friend class Module;
  // Holds a module that is in no tree.
  explicit ChildBase(Owned<Module> module) : module_(std::move(module)) {}
  [[noreturn]] static void refuse_moved();
  // The owner of the module that this holds.
  Module* owner_of_module() const;
  // Enters and leaves the list of the owner, which may be null.
  void enter(Module* owner) noexcept;
  void leave() noexcept;
  // The module that is registered at this place, or null.
  Module* module_here() const;
  // Registers the module of `from` at this place.
  void put(Module& fresh, ChildBase& from);
  void put_in_vacant_place(Module& fresh, ChildBase& from);
  void exchange_with(ChildBase& holder, Module& fresh, ChildBase& from);
  // Takes `fresh` out of the tree.
  void remove(Module& fresh);

  Owned<Module> module_;
  Module* owner_ = nullptr;
  Shared<const std::string> name_;
  ChildBase *previous_ = nullptr, *next_ = nullptr;  // in the owner's list
};

// A child of type M, created in place with M's own arguments, the last of which may be options in
// braces: Child<Conv2d> c{*this, "c", 1, 8, 3, {.padding = 1}}. Child<Module> holds a module of any
// type: Child<Module> act{*this, "act", ReLU()}. Calls are M's, arguments in braces included:
// mha(x, x, x, {.need_weights = false}). Moving a Child takes the module along, which keeps its
// place; what was moved from may be destroyed or assigned to.
template <class M> class Child : public ChildBase, public BracedCalls<Child<M>, M> {
 public:
  Child() = delete;  // say whose it is, and its name: Child<Linear> fc{*this, "fc", 3, 4}
  template <class NotAName, class... Args>
  requires(!std::is_convertible_v<NotAName, std::string>) Child(Module&, NotAName&&, Args&&...) {
    static_assert(!sizeof(NotAName), "a Child has a name: Child<Linear> fc{*this, \"fc\", 3, 4}");
  }
  template <class... Args>
  Child(Module& owner, const std::string& name, Args&&... args)
      : ChildBase(owner, name, make_module<M>(std::forward<Args>(args)...)) {}
  template <class N = M>
  Child(Module& owner, const std::string& name, const typename N::Options& o)
      : ChildBase(owner, name, make_module<M>(o)) {}
  template <class A, class N = M>
  Child(Module& owner, const std::string& name, const A& a, const typename N::Options& o)
      : ChildBase(owner, name, make_module<M>(a, o)) {}
  template <class A, class B, class N = M>
  Child(Module& owner, const std::string& name, const A& a, const B& b,
        const typename N::Options& o)
      : ChildBase(owner, name, make_module<M>(a, b, o)) {}
  template <class A, class B, class C, class N = M>
  Child(Module& owner, const std::string& name, const A& a, const B& b, const C& c,
        const typename N::Options& o)
      : ChildBase(owner, name, make_module<M>(a, b, c, o)) {}
  Child(Child&&) = default;
  Child(const Child& other)  // as Module's
      : ChildBase(other, other.holds() ? Module::copy_of(*other) : Owned<Module>()) {}
  // Puts another module (an M or derived from it) under the same name. It keeps its own mode,
  // device and hooks; the old one is destroyed, and optimizers keep the handles that they had.
  template <std::derived_from<M> N> Child& operator=(N&& fresh) {
    assign(take_module(std::move(fresh)));
    return *this;
  }
  Child& operator=(Child&&) = default;

  using BracedCalls<Child<M>, M>::operator();
  template <class... Args> decltype(auto) operator()(Args&&... args) {
    constexpr bool is_call = std::is_invocable_v<M&, Args...>;
    static_assert(is_call, "no call of this Child's module takes these arguments");
    if constexpr (is_call) return (**this)(std::forward<Args>(args)...);
  }
  M& operator*() const { return static_cast<M&>(module()); }
  M* operator->() const { return &**this; }
};

}  // namespace taper::v0
