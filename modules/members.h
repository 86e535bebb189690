// What a module is made of: parameters, buffers and children, which are registered under their
// names when they are made as members and leave the tree when they go (modules/module.h).
#pragma once

#include <concepts>
#include <string>
#include <type_traits>
#include <utility>

#include "framework/memory/pointers.h"
#include "modules/module.h"

namespace taper::v0 {

// A tensor of a module. Assigning a tensor of the same shape changes the registered one in place.
// It leaves the tree when it goes; moved from, it is undefined.
class ModuleTensor {
 public:
  operator const Tensor&() const { return **this; }
  const Tensor& operator*() const { return tensor_ ? *tensor_ : kUndefined; }
  const Tensor* operator->() const { return &**this; }
  bool defined() const { return tensor_ && tensor_->defined(); }
  // Throws Error for another shape, and where there is no tensor.
  ModuleTensor& operator=(const Tensor& value);
  ModuleTensor& operator=(const ModuleTensor& other) { return *this = *other; }

 protected:
  // Undefined, and not registered.
  ModuleTensor() = default;
  ModuleTensor(ModuleTensor&&) = default;
  ModuleTensor(const ModuleTensor& other);  // as Module's
  ModuleTensor(Module& owner, const std::string& name, const Tensor& value, bool is_buffer);
  ~ModuleTensor();

  // The module's, too; there, an undefined one counts as none.
  Shared<Tensor> tensor_;

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

[[noreturn]] void refuse_moved_child();

// M(args...), and where there is none such one sentence from the compiler.
template <class M, class... Args> M* make_child(Args&&... args) {
  constexpr bool can_be_made = std::is_constructible_v<M, Args...>;
  static_assert(can_be_made, "no constructor of this Child's module takes these arguments");
  if constexpr (can_be_made) return new M(std::forward<Args>(args)...);
}

// A child of type M, made in place with M's own arguments, the last of which may be options in
// braces: Child<Conv2d> c{*this, "c", 1, 8, 3, {.padding = 1}}. Moving a Child takes the module
// along, which keeps its place; what is left must not be called.
template <class M> class Child {
 public:
  Child() = delete;  // say whose it is, and its name: Child<Linear> fc{*this, "fc", 3, 4}
  template <class NotAName, class... Args>
  requires(!std::is_convertible_v<NotAName, std::string>) Child(Module&, NotAName&&, Args&&...) {
    static_assert(!sizeof(NotAName), "a Child has a name: Child<Linear> fc{*this, \"fc\", 3, 4}");
  }
  template <class... Args>
  Child(Module& owner, const std::string& name, Args&&... args)
      : Child(owner, name, make_child<M>(std::forward<Args>(args)...)) {}
  template <class N = M>
  Child(Module& owner, const std::string& name, const typename N::Options& o)
      : Child(owner, name, make_child<M>(o)) {}
  template <class A, class N = M>
  Child(Module& owner, const std::string& name, const A& a, const typename N::Options& o)
      : Child(owner, name, make_child<M>(a, o)) {}
  template <class A, class B, class N = M>
  Child(Module& owner, const std::string& name, const A& a, const B& b,
        const typename N::Options& o)
      : Child(owner, name, make_child<M>(a, b, o)) {}
  template <class A, class B, class C, class N = M>
  Child(Module& owner, const std::string& name, const A& a, const B& b, const C& c,
        const typename N::Options& o)
      : Child(owner, name, make_child<M>(a, b, c, o)) {}
  Child(Child&&) = default;
  Child(const Child& other)  // as Module's
      : module_(other.module_ ? Module::copy_of(*other) : nullptr) {}
  // Another module (an M or derived from it) under the same name. It keeps its own mode, device and
  // hooks; the old one goes, and optimizers keep the handles that they had.
  template <std::derived_from<M> N> Child& operator=(N&& fresh) {
    return replace_by(Owned<Module>(new N(std::move(fresh))));
  }
  Child& operator=(Child&& other) {
    if (this == &other) return *this;
    if (module_ && other.module_) return replace_by(std::move(other.module_));
    module_ = std::move(other.module_);
    return *this;
  }
  template <class... Args> decltype(auto) operator()(Args&&... args) {
    return (**this)(std::forward<Args>(args)...);
  }
  M& operator*() const {
    if (!module_) refuse_moved_child();
    return static_cast<M&>(*module_);
  }
  M* operator->() const { return &**this; }

 private:
  Child(Module& owner, const std::string& name, M* made) : module_(made) {
    owner.register_module(name, *module_);
  }
  Child& replace_by(Owned<Module> fresh) {
    (**this).give_place_to(*fresh);
    module_ = std::move(fresh);
    return *this;
  }
  // An M; not as one, for compilers would make another Owned of each layer.
  Owned<Module> module_;
};

}  // namespace taper::v0
