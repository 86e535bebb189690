// Containers of modules, sequential, by index or by name
// (https://pytorch.org/docs/stable/generated/torch.nn.Sequential.html,
// .../torch.nn.ModuleList.html, .../torch.nn.ModuleDict.html), and of parameters
// (.../torch.nn.ParameterList.html).
#pragma once

#include <concepts>
#include <iterator>
#include <memory>
#include <typeinfo>

#include "modules/members.h"

namespace taper::v0 {

// A layer passed as an rvalue: Linear(3, 4) or std::move(layer). An lvalue is rejected, because it
// would be emptied silently.
template <class M>
concept ModuleRvalue = std::same_as<M, std::remove_cvref_t<M>> && std::derived_from<M, Module>;

// Base class of the containers that own their children. It has no forward(); the class that holds
// it defines the computation. Iterates over {name, module} in order of insertion:
//   for (const auto& [name, layer] : layers) x = (*layer)(x);
class ModuleContainer : public Module {
 public:
  ModuleContainer();
  ModuleContainer(ModuleContainer&&) noexcept = default;
  ModuleContainer& operator=(ModuleContainer&& other);
  ~ModuleContainer() override;
  ModuleContainer(ModuleContainer& other);  // only within clone(), like Module's
  CallStyle call_style() const override { return CallStyle::kNone; }
  int64_t size() const { return std::ssize(children()); }
  auto begin() const { return children().begin(); }
  auto end() const { return children().end(); }

 protected:
  Module& own(const std::string& name, std::unique_ptr<Module> child);
  template <class M, class... Args> M& make(const std::string& name, Args&&... args) {
    return static_cast<M&>(own(name, make_module<M>(std::forward<Args>(args)...)));
  }
  // Replaces an owned module by `fresh`. The old module is destroyed.
  template <ModuleRvalue M> M& exchange(Module& old, M&& fresh) {
    return static_cast<M&>(exchange(old, take_module(std::move(fresh))));
  }
  Module& exchange(Module& old, std::unique_ptr<Module> fresh);
  // Returns the child of that index, where a negative index counts from the end. Throws IndexError
  // if it is out of range.
  Module& child_at(int64_t index) const;
  // Throws ValueError if the number of modules is negative.
  void check_count(int64_t count) const;
  // Throws TypeError with both types if the child is not an M.
  template <class M> M& as(Module& child) const {
    if (M* found = dynamic_cast<M*>(&child)) return *found;
    const char* name = nullptr;
    if constexpr (requires { M::kTypeName; }) name = M::kTypeName;
    refuse_type(child, typeid(M), name);
  }

 private:
  // `name` is the name of the requested type; null: the C++ name.
  [[noreturn]] void refuse_type(const Module& child, const std::type_info& wanted,
                                const char* name) const;

  std::vector<std::unique_ptr<Module>> owned_;
};

// A list of modules named "0", "1", and so on. When it is printed, equal neighbors are printed
// once.
class ModuleList : public Cloneable<ModuleList, ModuleContainer> {
 public:
  std::string type_name() const override { return "ModuleList"; }

  void append(std::unique_ptr<Module> child) {
    (void)own(concat_to_string(size()), std::move(child));
  }
  // Appends a module and returns it. layers.add<Linear>(3, 4) constructs it in place;
  // layers.add<Module>(module) accepts a module of any type.
  template <class M, class... Args> M& add(Args&&... args) {
    return make<M>(concat_to_string(size()), std::forward<Args>(args)...);
  }
  template <ModuleRvalue M> M& add(M&& module) {
    return static_cast<M&>(own(concat_to_string(size()), take_module(std::move(module))));
  }
  // A negative index counts from the end. Throws IndexError if it is out of range.
  Module& operator[](int64_t index) const { return child_at(index); }
  template <class M> M& at(int64_t index) const { return as<M>((*this)[index]); }
  // Replaces a module and returns the new one: net.replace(-1, Linear(512, 5)) is PyTorch's net[-1]
  // = nn.Linear(512, 5).
  template <ModuleRvalue M> M& replace(int64_t index, M&& fresh) {
    return exchange((*this)[index], std::move(fresh));
  }
};

// A list of modules that are all of type M or derived from it, and are named "0", "1", and so on. A
// loop gives the modules themselves, without a cast:
//   Child<ListOf<Block>> blocks{*this, "blocks", 12, width};  // twelve times Block(width)
//   for (Block& block : blocks) x = block(x);
// It is printed, saved and cloned like a ModuleList.
template <class M> class ListOf : public Cloneable<ListOf<M>, ModuleContainer> {
 public:
  // A forward iterator over the modules. Adding or replacing modules invalidates it.
  class Iterator {
   public:
    using value_type = M;
    using reference = M&;
    using pointer = M*;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::forward_iterator_tag;
    Iterator() = default;
    explicit Iterator(const Module::Named* place) : place_(place) {}
    M& operator*() const { return static_cast<M&>(*place_->second); }
    M* operator->() const { return &**this; }
    Iterator& operator++() {
      ++place_;
      return *this;
    }
    Iterator operator++(int) { return Iterator(place_++); }
    bool operator==(const Iterator&) const = default;

   private:
    const Module::Named* place_ = nullptr;
  };

  ListOf() = default;
  // Constructs `count` modules, each from the same arguments. Throws ValueError if count is
  // negative.
  template <class... Args>
  requires std::constructible_from<M, const Args&...>
  explicit ListOf(IntArg count, const Args&... args) {
    this->check_count(count);
    for (int64_t i = 0; i < count; ++i) (void)add(args...);
  }
  // Appends make(0), make(1), ... make(count - 1), which return an M.
  template <std::invocable<int64_t> F>
  requires std::same_as<std::invoke_result_t<F&, int64_t>, M> ListOf(IntArg count, F&& make) {
    this->check_count(count);
    for (int64_t i = 0; i < count; ++i) append(std::unique_ptr<M>(new M(make(i))));
  }

  Iterator begin() const { return Iterator(this->children().data()); }
  Iterator end() const { return Iterator(this->children().data() + this->size()); }
  // A negative index counts from the end. Throws IndexError if it is out of range.
  M& operator[](int64_t index) const { return static_cast<M&>(this->child_at(index)); }

  // Appends a module and returns it.
  M& append(std::unique_ptr<M> module) {
    return static_cast<M&>(this->own(concat_to_string(this->size()), std::move(module)));
  }
  // Constructs a module in place from the arguments, or takes over one that is passed as an rvalue,
  // and returns it.
  template <class... Args>
  requires std::constructible_from<M, Args...> M& add(Args&&... args) {
    return this->template make<M>(concat_to_string(this->size()), std::forward<Args>(args)...);
  }
  template <ModuleRvalue N>
  requires(std::derived_from<N, M> && !std::same_as<N, M>) N& add(N&& module) {
    return static_cast<N&>(
        this->own(concat_to_string(this->size()), take_module(std::move(module))));
  }
  // Replaces a module and returns the new one. The old one is destroyed.
  template <ModuleRvalue N>
  requires std::derived_from<N, M> N& replace(int64_t index, N&& fresh) {
    return this->exchange((*this)[index], std::move(fresh));
  }
  std::string type_name() const override { return "ModuleList"; }
};

// A function or lambda as a layer.
template <class F> class Lambda : public Cloneable<Lambda<F>> {
 public:
  explicit Lambda(F f) : function_(std::move(f)) {}
  Tensor forward(const Tensor& x) override { return function_(x); }
  std::string type_name() const override { return "Lambda"; }

 private:
  F function_;
};
template <class F>
concept LayerFunction = !std::derived_from<std::remove_cvref_t<F>, Module> &&
                        std::is_invocable_r_v<Tensor, std::decay_t<F>&, const Tensor&>;

// Calls its modules in order. Functions of one tensor may be among them:
//   Sequential net(Linear(784, 512), ReLU(), [](const Tensor& x) { return x * 2; });
class Sequential : public Cloneable<Sequential, ModuleList> {
 public:
  template <class... Layers>
  requires((ModuleRvalue<Layers> ||
            LayerFunction<Layers>)&&...) explicit Sequential(Layers&&... layers) {
    (add(std::forward<Layers>(layers)), ...);
  }
  template <class... Layers>
  requires((std::derived_from<std::remove_cvref_t<Layers>, Module> && ...) &&
           !(ModuleRvalue<Layers> && ...)) Sequential(Layers&&...)
  = delete;  // an lvalue: use std::move(layer) or clone(layer)
  Sequential(Sequential&&) = default;
  Sequential& operator=(Sequential&&) = default;
  Sequential(Sequential&) = default;           // only within clone(), like Module's
  static constexpr bool kTakesModules = true;  // a Child<Sequential> may consist of one layer

  using ModuleList::add;
  // Appends a module under the next number and returns *this.
  Sequential& add(std::unique_ptr<Module> module) {
    append(std::move(module));
    return *this;
  }
  template <ModuleRvalue M> Sequential& add(M&& module) {
    return add(take_module(std::move(module)));
  }
  template <LayerFunction F> Sequential& add(F&& function) {
    return add(std::unique_ptr<Module>(new Lambda<std::decay_t<F>>(std::forward<F>(function))));
  }

  Tensor forward(const Tensor& x) override;
  CallStyle call_style() const override {
    return typeid(*this) == typeid(Sequential) ? CallStyle::kPassesOn : CallStyle::kComputes;
  }
  std::string type_name() const override { return "Sequential"; }
};

// Returns activation(layer(x) + residual), where the residual may be undefined. Without hooks,
// these pairs need only one pass over the result: a Linear, Conv2d or Conv3d without a residual and
// a ReLU or GELU, and a BatchNorm and a ReLU. Sequential computes such pairs with this function.
Tensor activated(Module& layer, Module& activation, const Tensor& x, const Tensor& residual = {});

class ModuleDict : public Cloneable<ModuleDict, ModuleContainer> {
 public:
  std::string type_name() const override { return "ModuleDict"; }

  void insert(const std::string& key, std::unique_ptr<Module> child) {
    (void)own(key, std::move(child));
  }
  // Adds a module constructed in place: heads.add<Linear>("left", 3, 4).
  template <class M, class... Args> M& add(const std::string& key, Args&&... args) {
    return make<M>(key, std::forward<Args>(args)...);
  }
  std::vector<std::string> keys() const;
  // Throws IndexError with the existing keys if the key is missing.
  Module& operator[](const std::string& key) const;
  template <class M> M& at(const std::string& key) const { return as<M>((*this)[key]); }
  template <ModuleRvalue M> M& replace(const std::string& key, M&& fresh) {
    return exchange((*this)[key], std::move(fresh));
  }
};

// Parameters named "0", "1", and so on: Child<ParameterList> scales{*this, "scales"}.
class ParameterList : public Cloneable<ParameterList> {
 public:
  explicit ParameterList(const std::vector<Tensor>& values = {});
  void append(const Tensor& value);
  int64_t size() const { return std::ssize(parameters_); }
  auto begin() const { return parameters_.begin(); }
  auto end() const { return parameters_.end(); }
  // A negative index counts from the end. Throws IndexError if it is out of range.
  Parameter& operator[](int64_t index);
  std::string type_name() const override { return "ParameterList"; }
  std::string extra_repr() const override;

 private:
  std::vector<Parameter> parameters_;
};

}  // namespace taper::v0
