// The tree that a model is (https://pytorch.org/docs/stable/generated/torch.nn.Module.html).
//
//   struct Net : Module {
//     Child<Linear> fc1{*this, "fc1", 784, 512};
//     Child<Linear> fc2{*this, "fc2", 512, 10};
//     Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
//   };
//
// Parameters, buffers and children are registered under their names when they are made, so none can
// be forgotten, and leave the tree when they go. Assigning to a tensor writes through to the
// registered one; `net.fc2 = Linear(512, 5)` puts another layer in the same place.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <unordered_set>
#include <utility>
#include <vector>

#include "autograd/module_scope.h"
#include "framework/error.h"
#include "framework/tensor.h"

namespace taper::inline v0 {

class Module;

// What load_state_dict takes: {.strict = false, .prefix = "module."}.
struct LoadOptions {
  bool strict = true;       // names that are missing or unexpected are errors
  std::string prefix = {};  // with which names of the given state begin
};
struct IncompatibleKeys {
  std::vector<std::string> missing_keys, unexpected_keys;
};

// Functions that see the calls of a module: the tensors among its arguments and, afterwards, those
// of its result, in order (each_tensor below), undefined where one was not given. One that returns
// tensors, as many, replaces them.
using ForwardPreHook =
    std::function<std::vector<Tensor>(Module&, const std::vector<Tensor>& inputs)>;
using ForwardHook = std::function<std::vector<Tensor>(Module&, const std::vector<Tensor>& inputs,
                                                      const std::vector<Tensor>& outputs)>;
// The same of the first argument and the first result alone; a defined tensor replaces it.
using FirstPreHook = std::function<Tensor(Module&, const Tensor& x)>;
using FirstHook = std::function<Tensor(Module&, const Tensor& x, const Tensor& y)>;
// Sees the gradients of a call: those of its tensors, undefined where there is none. One that
// returns tensors, as many as the inputs, replaces theirs.
using BackwardHook = std::function<std::vector<Tensor>(
    Module&, const std::vector<Tensor>& grad_input, const std::vector<Tensor>& grad_output)>;
struct ModuleHooks {
  std::vector<std::pair<uint64_t, ForwardPreHook>> before;
  std::vector<std::pair<uint64_t, ForwardHook>> after;
  std::vector<std::pair<uint64_t, BackwardHook>> backward;
  Module* module = nullptr;  // whose they are, wherever it moves
  uint64_t next_id = 0;
};
struct BackwardCall;
// Returned by register_forward_hook; the hook stays when the handle goes.
class ModuleHookHandle {
 public:
  ModuleHookHandle() = default;
  ModuleHookHandle(const std::shared_ptr<ModuleHooks>& hooks, uint64_t id)
      : hooks_(hooks), id_(id) {}
  // Does nothing the second time, or when the module is gone.
  void remove();

 private:
  std::weak_ptr<ModuleHooks> hooks_;
  uint64_t id_ = 0;
};

// --- the tensors among the arguments and in the result of a call ---

// Calls f for each tensor of x, in order: of a Tensor, of what is made of them (vector, array,
// tuple, pair, optional), and of a struct that names its own:
//   struct State { Tensor h, c; int64_t steps; auto tensors() { return std::tie(h, c); } };
template <class T, class F> void each_tensor(T& x, const F& f) {
  const auto each = [&](auto&... parts) { (each_tensor(parts, f), ...); };
  if constexpr (std::is_same_v<T, Tensor>) {
    f(x);
  } else if constexpr (requires { x.tensors(); }) {
    std::apply(each, x.tensors());
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply(each, x);
  } else if constexpr (requires { x.has_value(); }) {
    if (x) each(*x);
  } else if constexpr (requires { x.begin(); }) {
    if constexpr (std::is_class_v<typename T::value_type>) {
      for (auto& part : x) each(part);
    }
  } else {
    static_assert(!std::is_aggregate_v<T>,
                  "hooks cannot see the tensors of this struct: give it a member "
                  "auto tensors() { return std::tie(x, y); }, std::tie() where it has none");
  }
}

template <class T> std::vector<Tensor> tensors_of(T& x) {
  std::vector<Tensor> out;
  each_tensor(x, [&](const Tensor& t) { out.push_back(t); });
  return out;
}
// As many as tensors_of gave.
template <class T> void set_tensors(T& x, const std::vector<Tensor>& values) {
  auto value = values.begin();
  each_tensor(x, [&](Tensor& t) { t = *value++; });
}

// How an argument is kept for a call with hooks: as a copy, whose tensors they may replace.
template <class T>
using HeldArgument =
    std::conditional_t<std::is_convertible_v<const T&, const Tensor&>, Tensor,
                       std::conditional_t<std::is_copy_constructible_v<T>, T, const T&>>;

class Module {
 public:
  Module() = default;
  // Moving takes parameters, buffers, children, hooks and the place in a parent along. Copying
  // throws Error, for it would not say whether weights are shared: clone() does.
  Module(Module&& other) noexcept;
  Module(Module& other);
  // A module that goes leaves its parents; the order of the others stays.
  virtual ~Module();

  // Throws NotImplementedError where a module is called in another way (see `within`).
  virtual Tensor forward(const Tensor& x);
  // forward with hooks; errors gain the module's path. Throws when a module with parameters to
  // train runs inside another one's forward without being in a tree: they would be forgotten.
  Tensor operator()(const Tensor& x);

  // PyTorch's class name, "Linear" (the class's own here, without its namespace, where nothing else
  // is said), and what it prints in brackets behind it.
  virtual std::string type_name() const;
  virtual std::string extra_repr() const { return ""; }

  // The module again, with memory of its own, as clone(module) below makes it of a type that is
  // known. Throws Error for a class, here or below, that is neither a Cloneable nor a ModuleOf.
  std::unique_ptr<Module> clone() const;

  // Depth first, in order of registration; a tensor that is registered twice is listed once.
  std::vector<Tensor> parameters() const;
  std::vector<NamedTensor> named_parameters() const;
  std::vector<NamedTensor> named_buffers() const;
  using Named = std::pair<std::string, Module*>;
  const std::vector<Named>& children() const { return children_; }
  // This module under "", and all below it by their paths; one that is shared is listed once.
  std::vector<Named> named_modules();
  // Calls f on every module below this one, then on this, and returns *this.
  Module& apply(const std::function<void(Module&)>& f);
  // Freezes (false) or frees all parameters.
  Module& requires_grad_(bool on = true);
  // The number of elements in all parameters.
  int64_t num_parameters() const;

  // Changes this module and all below it, and returns it.
  Module& train(bool on = true);
  Module& eval() { return train(false); }
  bool is_training() const { return training_; }

  // Moves every parameter, its gradient and every buffer in place: the tensor objects stay the
  // same, so that tied weights stay tied and optimizers keep their handles. Integer buffers move
  // but are never cast; an integer dtype is refused. When memory runs out half-way nothing has
  // changed.
  Module& to(Device device) { return convert(device, {}); }
  Module& to(DType dtype) { return convert({}, dtype); }
  Module& to(Device device, DType dtype) { return convert(device, dtype); }
  Module& cuda() { return to(Device(DeviceType::cuda)); }
  Module& cuda(Device device);
  Module& cpu() { return to(Device(DeviceType::cpu)); }

  // Drops all gradients.
  void zero_grad();

  // Parameters and buffers by their paths ("net.0.weight"), tied ones under each of their names.
  // The tensors share memory with the module's.
  std::vector<NamedTensor> state_dict() const;
  // Copies values by name, across devices and dtypes. Missing, unexpected and misshapen entries are
  // refused together, with a hint where a prefix is the reason, and then nothing was changed. A
  // tied tensor needs one of its names.
  IncompatibleKeys load_state_dict(const std::vector<NamedTensor>& state,
                                   const LoadOptions& options = {});

  ModuleHookHandle register_forward_pre_hook(ForwardPreHook hook);
  ModuleHookHandle register_forward_pre_hook(FirstPreHook hook);
  ModuleHookHandle register_forward_hook(ForwardHook hook);
  ModuleHookHandle register_forward_hook(FirstHook hook);
  // Runs in the backward pass, once the gradients of the call's inputs are there; where none of
  // them requires grad, once those of its outputs are.
  ModuleHookHandle register_full_backward_hook(BackwardHook hook);
  bool has_hooks() const {
    return hooks_ && !(hooks_->before.empty() && hooks_->after.empty() && hooks_->backward.empty());
  }

  // Adds a tensor or child to the tree. Throws for a name that is empty, has a dot, or is taken,
  // and for a child that this module is below. A child may go before or after its parents.
  void register_parameter(const std::string& name, const Tensor& tensor);
  void register_buffer(const std::string& name, const Tensor& tensor);
  void register_module(const std::string& name, Module& child);
  // `fresh` leaves the first place that it has and takes this module's first: its name and its rank
  // there. (Children and containers do this when they are assigned to.)
  void give_place_to(Module& fresh);

 protected:
  // body(arguments...) as a call of this module, with what operator() does for forward: the way to
  // write a call with several arguments or results.
  //   Scores operator()(const Tensor& x, const State& state) {
  //     return within([this](const auto&... a) { return score(a...); }, x, state);
  //   }
  template <class F, class... Args> auto within(const F& body, const Args&... arguments) {
    Call call(*this);
    try {
      if (!has_hooks()) return body(arguments...);
      std::tuple<HeldArgument<Args>...> held(arguments...);
      std::vector<Tensor> inputs = tensors_of(held), outputs;
      call.before(inputs);
      set_tensors(held, inputs);
      if constexpr (std::is_void_v<decltype(body(arguments...))>) {
        std::apply(body, held);
        call.after(inputs, outputs);
      } else {
        auto y = std::apply(body, held);
        outputs = tensors_of(y);
        call.after(inputs, outputs);
        set_tensors(y, outputs);
        return y;
      }
    } catch (Error& error) {
      call.locate(error);
      throw;
    }
  }

  // This module's copy, of all of its type.
  virtual std::unique_ptr<Module> copied();
  // For copy constructors of classes that keep tensors as plain members: the copy of one, which is
  // the registered one's where it is registered too.
  static Tensor copy_of(const Tensor& tensor);
  // A copy of a module with all of its type: of M itself by its copy constructor.
  template <std::derived_from<Module> M> static std::unique_ptr<M> copy_of(M& module) {
    if constexpr (std::is_constructible_v<M, M&>) {
      if (typeid(module) == typeid(M)) return std::make_unique<M>(module);
    }
    return std::unique_ptr<M>(static_cast<M*>(static_cast<Module&>(module).copied().release()));
  }

 private:
  friend class ModuleTensor;
  friend class CloneScope;
  template <class M> friend class Child;
  template <std::derived_from<Module> M> friend M clone(const M& module);
  struct Entry {
    std::string name;
    std::shared_ptr<Tensor> tensor;  // shared with the Parameter or Buffer
    bool is_buffer;
  };
  class Call {
   public:
    explicit Call(Module& module);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    void before(std::vector<Tensor>& inputs);
    void after(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs);
    void replace(std::vector<Tensor>& tensors, std::vector<Tensor> by, const char* whose) const;
    // Adds the module's place in the one that called it.
    void locate(Error& error) const;

   private:
    Module& module_;
    Module* outer_;  // the module that called this one
    ModuleScope scope_;
    std::shared_ptr<BackwardCall> backward_;  // where there are hooks for it
  };

  void register_tensor(const std::string& name, std::shared_ptr<Tensor> tensor, bool is_buffer);
  void check_name(const char* kind, const std::string& name);
  bool is_in(const Module& other) const;
  // The first of this module's places in that parent, which must have it.
  std::vector<Named>::iterator place_in(Module& parent) const;
  ModuleHooks& hooks();
  // "layers.0": the path of this module below another; its name in its parent where it is not in
  // that tree.
  std::string path_in(Module* other) const;
  struct Found {
    std::string path;
    Tensor tensor;
    bool is_buffer;
  };
  std::vector<Found> collect(bool once) const;
  void collect(const std::string& prefix, std::unordered_set<const TensorImpl*>* seen,
               std::vector<Found>& out) const;
  std::vector<NamedTensor> named(bool buffers) const;
  Module& convert(std::optional<Device> device, std::optional<DType> dtype);

  std::vector<Entry> tensors_;
  std::vector<Named> children_;
  std::vector<Module*> parents_;  // one for each place; the first is a Child's own
  std::shared_ptr<ModuleHooks> hooks_;
  bool training_ = true;
};

// While it lives, modules may be copied in this thread: all as one, so that what is tied or shared
// between them is so between the copies.
class CloneScope {
 public:
  CloneScope();
  ~CloneScope();
  CloneScope(const CloneScope&) = delete;
  CloneScope& operator=(const CloneScope&) = delete;
  // Throws Error for a child of a copy that was not copied: a module that is registered with one
  // that does not hold it.
  void finish() const;

 private:
  bool is_outermost_;
};

// The module again, as copy.deepcopy gives it: weights and buffers have memory of their own, tied
// ones stay tied, modes stay; gradients and hooks do not come along. Tensors and pointers that are
// plain members are copied as such: a class that keeps some says how in its copy constructor, which
// takes no constant: Net(Net& other) : ModuleOf(other), mask(copy_of(other.mask)) {}.
template <std::derived_from<Module> M> M clone(const M& module) {
  const CloneScope scope;
  const std::unique_ptr<M> made = Module::copy_of(const_cast<M&>(module));
  scope.finish();
  return std::move(*made);
}

// Says to D how it is cloned where its type is not known, as in a Sequential. Base: what D would
// derive from.
template <class D, class Base = Module> class Cloneable : public Base {
 public:
  using Base::Base;

 private:
  std::unique_ptr<Module> copied() override {
    if constexpr (std::is_constructible_v<D, D&>) {
      if (typeid(*this) == typeid(D)) return std::make_unique<D>(static_cast<D&>(*this));
    }
    return Module::copied();
  }
};

// A module whose forward takes any arguments and gives any result, with hooks on the tensors among
// them and its path in errors:
//   struct Gated : ModuleOf<Gated> {
//     Child<Linear> value{*this, "value", 4, 4}, gate{*this, "gate", 4, 4};
//     std::pair<Tensor, Tensor> forward(const Tensor& x, const Tensor& context) {...}
//   };
//   const auto [y, g] = net(x, context);
// Compilers that warn of hidden virtual functions want `using Module::forward;` in it.
template <class D> class ModuleOf : public Cloneable<D> {
 public:
  template <class... Args> auto operator()(const Args&... arguments) {
    return this->within([this](const auto&... a) { return static_cast<D&>(*this).forward(a...); },
                        arguments...);
  }
};

// "Sequential(\n  (0): Linear(in_features=784, out_features=512, bias=True)\n ...)".
std::string to_string(const Module& module);

// Throws Error, naming shapes, when the graph of `loss` reaches a tensor that requires grad and is
// no parameter of the module: it would be differentiated and never trained or saved.
void check_all_registered(const Module& module, const Tensor& loss);

// A tensor of a module. Assigning a tensor of the same shape changes the registered one in place.
// It leaves the tree when it goes; moved from, it is undefined.
class ModuleTensor {
 public:
  operator const Tensor&() const { return **this; }
  const Tensor& operator*() const { return tensor_ ? *tensor_ : kUndefined; }
  const Tensor* operator->() const { return &**this; }
  bool defined() const { return tensor_ && tensor_->defined(); }

 protected:
  // Undefined, and not registered.
  ModuleTensor() = default;
  ModuleTensor(ModuleTensor&&) = default;
  ModuleTensor(const ModuleTensor& other);  // as Module's
  ModuleTensor(Module& owner, const std::string& name, const Tensor& value, bool is_buffer);
  ~ModuleTensor();
  void assign(const Tensor& value);

  // The module's, too; there, an undefined one counts as none.
  std::shared_ptr<Tensor> tensor_;

 private:
  static inline const Tensor kUndefined = {};
};

// Requires grad; optimizers train it.
class Parameter : public ModuleTensor {
 public:
  Parameter(Module& owner, const std::string& name, const Tensor& value);
  // Undefined, and not registered: a layer without its bias.
  Parameter() = default;
  Parameter& operator=(const Tensor& value) {
    assign(value);
    return *this;
  }
  Parameter(Parameter&&) = default;
  Parameter(const Parameter&) = default;
  Parameter& operator=(const Parameter& other) { return *this = *other; }
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
  Buffer(Buffer&&) = default;
  Buffer(const Buffer&) = default;
  Buffer& operator=(const Buffer& other) { return *this = *other; }
  Buffer& operator=(const Tensor& value) {
    assign(value);
    return *this;
  }
};

[[noreturn]] void refuse_moved_child();

// A child of type M, made in place with M's own arguments, the last of which may be options in
// braces: Child<Conv2d> c{*this, "c", 1, 8, 3, {.padding = 1}}. Moving a Child takes the module
// along, which keeps its place; what is left must not be called.
template <class M> class Child {
 public:
  template <class... Args>
  Child(Module& owner, const std::string& name, Args&&... args)
      : Child(owner, name, std::make_unique<M>(std::forward<Args>(args)...)) {}
  template <class N = M>
  Child(Module& owner, const std::string& name, const typename N::Options& o)
      : Child(owner, name, std::make_unique<M>(o)) {}
  template <class A, class N = M>
  Child(Module& owner, const std::string& name, const A& a, const typename N::Options& o)
      : Child(owner, name, std::make_unique<M>(a, o)) {}
  template <class A, class B, class N = M>
  Child(Module& owner, const std::string& name, const A& a, const B& b,
        const typename N::Options& o)
      : Child(owner, name, std::make_unique<M>(a, b, o)) {}
  template <class A, class B, class C, class N = M>
  Child(Module& owner, const std::string& name, const A& a, const B& b, const C& c,
        const typename N::Options& o)
      : Child(owner, name, std::make_unique<M>(a, b, c, o)) {}
  Child(Child&&) = default;
  Child(const Child& other)  // as Module's
      : module_(other.module_ ? Module::copy_of(*other.module_) : nullptr) {}
  // Another module (an M or derived from it) under the same name. It keeps its own mode, device and
  // hooks; the old one goes, and optimizers keep the handles that they had.
  template <std::derived_from<M> N> Child& operator=(N&& fresh) {
    return replace_by(std::make_unique<N>(std::move(fresh)));
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
    return *module_;
  }
  M* operator->() const { return &**this; }

 private:
  Child(Module& owner, const std::string& name, std::unique_ptr<M> made)
      : module_(std::move(made)) {
    owner.register_module(name, *module_);
  }
  Child& replace_by(std::unique_ptr<M> fresh) {
    (**this).give_place_to(*fresh);
    module_ = std::move(fresh);
    return *this;
  }
  std::unique_ptr<M> module_;
};

}  // namespace taper::inline v0
