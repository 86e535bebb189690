// The members of a module: parameters, buffers and children. They are registered under their names
// when they are created, and unregistered when they are destroyed (modules/module.h).
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "modules/make_module.h"
#include "modules/module.h"
#include "modules/refused_members.h"

namespace taper::v0 {

// A tensor of a module. Assigning a tensor of the same shape writes into the registered tensor. The
// destructor unregisters it. After a move it is undefined.
class ModuleTensor {
 public:
  operator const Tensor&() const { return **this; }
  const Tensor& operator*() const { return slot_ ? slot_->tensor : kUndefined; }
  const Tensor* operator->() const { return &**this; }
  bool defined() const { return slot_ && slot_->tensor.defined(); }
  // Throws Error if the shapes differ, or if this tensor is undefined.
  ModuleTensor& operator=(const Tensor& value);
  // NOLINTNEXTLINE(bugprone-unhandled-self-assignment): the assignment of the tensor handles it
  ModuleTensor& operator=(const ModuleTensor& other) { return *this = *other; }
  // Copies the values of the other tensor. If whole modules are being assigned, takes over the
  // other tensor itself instead.
  ModuleTensor& operator=(ModuleTensor&& other);

 protected:
  // Creates an undefined, unregistered tensor.
  ModuleTensor() = default;
  ModuleTensor(ModuleTensor&&) = default;
  ModuleTensor(const ModuleTensor& other);  // only within clone(), like Module's
  ModuleTensor(Module& owner, const std::string& name, const Tensor& value, TensorRole role);
  ~ModuleTensor();

  // The tensor, which this object and the module share. If it is undefined, the module does not
  // list it.
  std::shared_ptr<ModuleSlot> slot_;

 private:
  static inline const Tensor kUndefined = {};
};

// A tensor that requires grad and that optimizers train.
class Parameter : public ModuleTensor {
 public:
  Parameter(Module& owner, const std::string& name, const Tensor& value);
  template <detail::IsText Name> Parameter(Name&&, const Tensor&) {
    detail::refuse_unowned<Name>();
  }
  // Creates an undefined, unregistered parameter, as for a layer without a bias.
  Parameter() = default;
  using ModuleTensor::operator=;
  // Makes this parameter the same tensor as `other`, which must have the same shape. The
  // module then registers that tensor under this parameter's name: PyTorch's `head.weight =
  // embedding.weight`. Create optimizers afterwards.
  void share(const Parameter& other);
};

// A tensor that is saved and moved with the module but not trained. If the constructor computes it,
// it need not be saved: Buffer rope{*this, "rope", table, {.persistent = false}}.
class Buffer : public ModuleTensor {
 public:
  Buffer(Module& owner, const std::string& name, const Tensor& value,
         const BufferOptions& options = {});
  template <detail::IsText Name> Buffer(Name&&, const Tensor&, const BufferOptions& = {}) {
    detail::refuse_unowned<Name>();
  }
  // Creates an undefined, unregistered buffer.
  Buffer() = default;
  using ModuleTensor::operator=;
};

// The part of Child that does not depend on the module's type. It consists of a place in a module
// tree, given by an owner and a name, and the module in that place.
class ChildBase {
 protected:
  explicit ChildBase(detail::Refused);  // not defined
  // Registers the module with the owner.
  ChildBase(Module& owner, const std::string& name, std::unique_ptr<Module> module);
  // Takes over the module and its place.
  ChildBase(ChildBase&& other) noexcept;
  // Copies `other` as Module is copied. `copy` is the copy of the other's module.
  ChildBase(const ChildBase& other, std::unique_ptr<Module> copy);
  ~ChildBase();
  // Moves the module of the other object to this object, and destroys the previous module of this
  // object. If another Child holds the module that is registered here, as within std::swap, the two
  // modules are exchanged. If this object no longer has an owner, the module keeps its position in
  // the tree. Throws Error if this object is below that module.
  ChildBase& operator=(ChildBase&& other);
  // Like the assignment, but for a module that no Child holds.
  void assign(std::unique_ptr<Module> fresh);
  // Throws Error if this was moved from.
  Module& module() const {
    if (!module_) refuse_moved();
    return *module_;
  }
  bool holds() const { return bool(module_); }

 private:
  friend class Module;
  // Holds a module that is in no tree.
  explicit ChildBase(std::unique_ptr<Module> module) : module_(std::move(module)) {}
  [[noreturn]] static void refuse_moved();
  // Returns the owner of the module.
  Module* owner_of_module() const;
  // Add this object to the owner's list, and remove it from there. The owner may be null.
  void enter(Module* owner) noexcept;
  void leave() noexcept;
  // Returns the module that is registered under this object's name in its owner, or null.
  Module* module_here() const;
  // Registers `fresh`, the module of `from`, under this object's name in its owner.
  void put(Module& fresh, ChildBase& from);
  void put_in_vacant_place(Module& fresh, ChildBase& from);
  void exchange_with(ChildBase& holder, Module& fresh, ChildBase& from);
  // Removes `fresh` from the tree.
  void remove(Module& fresh);

  std::unique_ptr<Module> module_;
  Module* owner_ = nullptr;
  std::shared_ptr<const std::string> name_;
  ChildBase *previous_ = nullptr, *next_ = nullptr;  // links of the owner's list
};

// A child module of type M, constructed in place from M's arguments. The last argument may be
// options in braces: Child<Conv2d> c{*this, "c", 1, 8, 3, {.padding = 1}}. A Child<Module> holds a
// module of any type: Child<Module> act{*this, "act", ReLU()}. It is called like M, also with
// arguments in braces: mha(x, x, x, {.need_weights = false}). Moving a Child moves the module,
// which keeps its place. A moved-from Child may be destroyed or assigned to.
template <class M> class Child : public ChildBase, public BracedCalls<Child<M>, M> {
 public:
  Child() = delete;  // give the owner and the name: Child<Linear> fc{*this, "fc", 3, 4}
  template <class NotAName, class... Args>
  requires(!detail::IsText<NotAName>) Child(Module&, NotAName&&, Args&&...)
      : ChildBase(detail::refuse_without_name<NotAName>()) {}
  // The owner is missing, without or with options in braces.
  template <detail::IsText Name, class... Args>
  explicit Child(Name&&, Args&&...) : ChildBase(detail::refuse_without_owner<Name>()) {}
  template <detail::IsText Name, class N = M>
  Child(Name&&, const typename N::Options&) : ChildBase(detail::refuse_without_owner<Name>()) {}
  template <detail::IsText Name, class A, class N = M>
  Child(Name&&, const A&, const typename N::Options&)
      : ChildBase(detail::refuse_without_owner<Name>()) {}
  template <detail::IsText Name, class A, class B, class N = M>
  Child(Name&&, const A&, const B&, const typename N::Options&)
      : ChildBase(detail::refuse_without_owner<Name>()) {}
  template <detail::IsText Name, class A, class B, class C, class N = M>
  Child(Name&&, const A&, const B&, const C&, const typename N::Options&)
      : ChildBase(detail::refuse_without_owner<Name>()) {}
  // The braces hold an option that the module does not have.
  template <class N = M>
  Child(detail::AnyOwner, const std::string&, detail::AnyBraces)
      : ChildBase(detail::refuse_options<N>()) {}
  template <class A>
  Child(detail::AnyOwner, const std::string&, const A&, detail::AnyBraces)
      : ChildBase(detail::refuse_options<A>()) {}
  template <class A, class B>
  Child(detail::AnyOwner, const std::string&, const A&, const B&, detail::AnyBraces)
      : ChildBase(detail::refuse_options<A>()) {}
  template <class A, class B, class C>
  Child(detail::AnyOwner, const std::string&, const A&, const B&, const C&, detail::AnyBraces)
      : ChildBase(detail::refuse_options<A>()) {}
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
  Child(const Child& other)  // only within clone(), like Module's
      : ChildBase(other, other.holds() ? Module::copy_of(*other) : std::unique_ptr<Module>()) {}
  // Replaces the module under the same name by another one, an M or derived from it, which keeps
  // its own mode, device and hooks. The old module is destroyed. Optimizers still refer to the old
  // module's parameters.
  template <std::derived_from<M> N> Child& operator=(N&& fresh) {
    // NOLINTNEXTLINE(bugprone-move-forwarding-reference): take_module() refuses lvalues
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
  // A Child of a container is iterated and indexed like the container itself:
  //   for (Block& block : blocks) x = block(x);
  template <class N = M> auto begin() const requires requires(N& m) { m.begin(); }
  { return (**this).begin(); }
  template <class N = M> auto end() const requires requires(N& m) { m.end(); }
  { return (**this).end(); }
  template <class Index, class N = M>
  decltype(auto) operator[](const Index& index) const requires requires(N& m) {
    m[index];
  }
  { return (**this)[index]; }
};

}  // namespace taper::v0
