// The tree that a model is (https://pytorch.org/docs/stable/generated/torch.nn.Module.html).
//
//   struct Net : Module {
//     Child<Linear> fc1{*this, "fc1", 784, 512};
//     Child<Linear> fc2{*this, "fc2", 512, 10};
//     Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
//   };
//
// Parameters, buffers and children are registered under their names when they are created, so that
// none can be forgotten, and leave the tree when they are destroyed. Assigning to a tensor writes
// through to the registered one; `net.fc2 = Linear(512, 5)` puts another layer in the same place.
//
// Modules are moved and swapped as values are: `return net;`, `best = clone(net);`. Tensors stay
// the same objects, so that optimizers keep their handles and tied weights stay tied. Sizes and
// options of a layer are public members that describe it: changing a size does not change its
// weights.
#pragma once

#include <concepts>
#include <exception>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "autograd/module_scope.h"
#include "framework/base/error.h"
#include "framework/callable.h"
#include "framework/io/loaded_tensors.h"
#include "framework/memory/pointers.h"
#include "framework/tensor/tensor.h"
#include "modules/braced_calls.h"
#include "modules/module_hooks.h"

namespace taper::v0 {

// What load_state_dict takes: {.strict = false, .prefix = "module."}.
struct LoadOptions {
  bool strict = true;       // names that are missing or unexpected are errors
  std::string prefix = {};  // with which names of the given state begin
};
struct IncompatibleKeys {
  std::vector<std::string> missing_keys, unexpected_keys;
};

// A tensor of a module, which the module shares with its Parameter or Buffer.
struct ModuleSlot {
  Tensor tensor;
  enum class State : uint8_t {
    kRegistered,
    kArriving,  // its module was assigned to another one, its Parameter or Buffer follows
    kDropped,   // another module was assigned to its module
  } state = State::kRegistered;
};

class ChildBase;

class Module {
 public:
  Module();
  // Leaves its parents, in which the order of the other children stays.
  virtual ~Module();

  // Throws NotImplementedError where a module is called in another way (see `within`).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverloaded-virtual"  // a ModuleOf's forward takes what it likes
  virtual Tensor forward(const Tensor& x);
#pragma GCC diagnostic pop
  // forward with hooks; errors gain the module's path. Throws when a module with parameters to
  // train runs inside another one's forward without being in a tree: they would be forgotten.
  Tensor operator()(const Tensor& x);

  // PyTorch's class name, "Linear" (the class's own here, without its namespace, where nothing else
  // is said), and what it prints in brackets behind it.
  virtual std::string type_name() const;
  virtual std::string extra_repr() const { return ""; }

  // Returns a copy with memory of its own, as clone(module) below does for a type that is known.
  // Throws Error for a class, here or below, that is neither a Cloneable nor a ModuleOf.
  Owned<Module> clone() const;

  // Depth first, in order of registration; a tensor that is registered twice is listed once.
  std::vector<Tensor> parameters() const;
  std::vector<NamedTensor> named_parameters() const;
  std::vector<NamedTensor> named_buffers() const;
  using Named = std::pair<std::string, Module*>;
  const std::vector<Named>& children() const { return children_; }
  // This module under "", and all below it by their paths; one that is shared is listed once.
  std::vector<Named> named_modules();
  // Calls f on every module below this one, then on this, and returns *this.
  Module& apply(const Callable<void(Module&)>& f);
  // Freezes (false) or frees all parameters.
  Module& requires_grad_(BoolArg on = true);
  // The number of elements in all parameters.
  int64_t num_parameters() const;

  // Changes this module and all below it, and returns it.
  Module& train(BoolArg on = true);
  Module& eval() { return train(false); }
  bool is_training() const { return training_; }

  // Moves every parameter, its gradient and every buffer in place: the tensor objects stay the
  // same, so that tied weights stay tied and optimizers keep their handles. Integer buffers move
  // but are never cast; an integer dtype is refused. When memory runs out half-way nothing has
  // changed.
  Module& to(Device device);
  Module& to(DType dtype);
  Module& to(Device device, DType dtype);
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
  // Does the same with the tensors of a file. Also throws, with the reason, when this module has an
  // entry that the file could not give; other unreadable entries do not matter.
  IncompatibleKeys load_state_dict(const LoadedTensors& state, const LoadOptions& options = {});

  ModuleHookHandle register_forward_pre_hook(ForwardPreHook hook);
  ModuleHookHandle register_forward_pre_hook(FirstPreHook hook);
  ModuleHookHandle register_forward_hook(ForwardHook hook);
  ModuleHookHandle register_forward_hook(FirstHook hook);
  // Runs in the backward pass, once the gradients of the call's inputs are there; where none of
  // them requires grad, once those of its outputs are.
  ModuleHookHandle register_full_backward_hook(BackwardHook hook);
  bool has_hooks() const { return hooks_ && has_any_hooks(); }

  // Adds a tensor or child to the tree. Throws for a name that is empty, has a dot, or is taken,
  // and for a child that this module is below. A child may be destroyed before or after its
  // parents.
  void register_parameter(const std::string& name, const Tensor& tensor);
  void register_buffer(const std::string& name, const Tensor& tensor);
  void register_module(const std::string& name, Module& child);
  // Removes `fresh` from the first place that it has and puts it into this module's first: its name
  // and its rank there. (Children and containers do this when they are assigned to.)
  void give_place_to(Module& fresh);

 protected:
  // Moving takes parameters, buffers, children and hooks along, and with them the place in a parent
  // unless a Child or a container holds the module there. What was moved from may be destroyed or
  // assigned to; calls of it throw Error.
  Module(Module&& other) noexcept;
  // The same into a module that exists: it drops what it had, and keeps the places that it has. In
  // `best = clone(net)` members follow one by one, each Parameter, Buffer and Child taking over
  // what the other module's has. Throws TypeError for a module of another type, Error for one that
  // this is a part of, or that is a part of this.
  Module& operator=(Module&& other);
  // Throws Error outside of clone(): a copy would not say whether weights are shared.
  Module(Module& other);

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
    } catch (...) {
      call.locate();
      throw;
    }
  }

  // This module's copy, of all of its type.
  virtual Owned<Module> copied();
  // For copy constructors of classes that keep tensors as plain members: the copy of one, which is
  // the registered one's where it is registered too.
  static Tensor copy_of(const Tensor& tensor);
  // A copy of a module with all of its type: of M itself by its copy constructor.
  template <std::derived_from<Module> M> static Owned<Module> copy_of(M& module) {
    if constexpr (std::is_constructible_v<M, M&>) {
      if (typeid(module) == typeid(M)) return Owned<Module>(new M(module));
    }
    return static_cast<Module&>(module).copied();
  }

 private:
  friend class ModuleTensor;
  friend class ModuleContainer;
  friend class ChildBase;
  friend class CloneScope;
  template <class M> friend class Child;
  template <std::derived_from<Module> M> friend M clone(const M& module);
  struct Entry {
    std::string name;
    Shared<ModuleSlot> slot;
    bool is_buffer;
  };
  class Call {
   public:
    explicit Call(Module& module);
    ~Call();
    Call& operator=(Call&&) = delete;  // neither copied nor moved
    void before(std::vector<Tensor>& inputs);
    void after(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs);
    void replace(std::vector<Tensor>& tensors, std::vector<Tensor> by, const char* whose) const;
    // Within a handler: adds the module's place in the one that called it to the exception.
    void locate() const;

   private:
    Module& module_;
    Module* outer_;  // the module that called this one
    ModuleScope scope_;
    Shared<BackwardCall> backward_;  // where there are hooks for it
  };

  void register_tensor(const std::string& name, Shared<ModuleSlot> slot, bool is_buffer);
  void check_name(const char* kind, const std::string& name);
  // Whether this is the other module or is below it.
  bool is_in(const Module& other) const;
  // The first of this module's places in that parent, which must have it.
  std::vector<Named>::iterator place_in(Module& parent) const;
  // Takes over what the other module holds, which is left empty.
  void take_tree(Module& other) noexcept;
  // Takes over the other module's places in its parents.
  void take_places(Module& other) noexcept;
  ModuleHooks& hooks();
  bool has_any_hooks() const;  // of those that there were
  void drop_hooks() noexcept;  // destroys the functions; handles of them may stay
  // "layers.0": the path of this module below another; its name in its first parent where it is not
  // in that tree. Visits only the modules on the way between them, and their siblings.
  std::string path_in(const Module* other) const;
  struct Found {
    std::string path;
    Tensor tensor;
    bool is_buffer;
  };
  std::vector<Found> collect(bool once) const;
  IncompatibleKeys load(const std::vector<NamedTensor>& state, const LoadedTensors* file,
                        const LoadOptions& options);
  std::vector<NamedTensor> named(bool buffers) const;
  Module& convert(std::optional<Device> device, std::optional<DType> dtype);

  std::vector<Entry> tensors_;
  std::vector<Named> children_;
  std::vector<Module*> parents_;  // one for each place; the first is a Child's own
  ChildBase* held_ = nullptr;     // the Child objects whose owner this is, as a linked list
  Shared<ModuleHooks> hooks_;
  bool training_ = true;
  bool is_held_ = false;         // by a Child or a container, which keep it at one address
  bool was_moved_ = false;       // from
  bool has_lost_place_ = false;  // in a parent that another module was assigned to
};

// While it lives, modules may be copied in this thread: all as one, so that what is tied or shared
// between them is so between the copies.
class CloneScope {
 public:
  CloneScope();
  ~CloneScope();
  CloneScope& operator=(CloneScope&&) = delete;  // neither copied nor moved
  // Throws Error for a child of a copy that was not copied: a module that is registered with one
  // that does not hold it.
  void finish() const;

 private:
  bool is_outermost_;
};

// Throws TypeError for a module of another type than M: to move it as an M would slice it, which
// leaves out what its own type adds.
void check_whole(const Module& module, const std::type_info& type);

// Returns a copy, as copy.deepcopy does: weights and buffers have memory of their own, tied ones
// stay tied, modes stay; gradients and hooks are not copied. Tensors and pointers that are plain
// members are copied as such: a class that has some says how in its copy constructor, which takes
// no constant, and then declares its moves as well:
//   Net(Net& other) : ModuleOf(other), mask(copy_of(other.mask)) {}
//   Net(Net&&) = default;
//   Net& operator=(Net&&) = default;
// Throws TypeError for a module whose own type is derived from M: module.clone() copies it whole.
template <std::derived_from<Module> M> M clone(const M& module) {
  static_assert(!std::same_as<M, Module>,
                "clone(module) needs the module's own type: module.clone() copies any Module");
  check_whole(module, typeid(M));
  const CloneScope scope;
  const Owned<Module> made = Module::copy_of(const_cast<M&>(module));
  scope.finish();
  return std::move(static_cast<M&>(*made));
}

// Says to D how it is cloned where its type is not known, as in a Sequential. Base: what D would
// derive from.
template <class D, class Base = Module> class Cloneable : public Base {
 public:
  using Base::Base;

 private:
  Owned<Module> copied() override {
    if constexpr (std::is_constructible_v<D, D&>) {
      if (typeid(*this) == typeid(D)) {
        return Owned<Module>(new D(static_cast<D&>(*this)));
      }
    }
    return Module::copied();
  }
};

// A module whose forward takes any arguments and returns any result, with hooks on the tensors
// among them and its path in errors:
//   struct Gated : ModuleOf<Gated> {
//     Child<Linear> value{*this, "value", 4, 4}, gate{*this, "gate", 4, 4};
//     std::pair<Tensor, Tensor> forward(const Tensor& x, const Tensor& context) {...}
//   };
//   const auto [y, g] = net(x, context);
// Arguments may be in braces: net(x, {h, c}).
// Of one tensor, with another result: forward(Tensor x), by value, for forward(const Tensor&) is
// Module's.
template <class D> class ModuleOf : public Cloneable<D>, public BracedCalls<ModuleOf<D>, D> {
 public:
  using BracedCalls<ModuleOf<D>, D>::operator();
  template <class... Args> auto operator()(const Args&... arguments) {
    return this->within([this](const auto&... a) { return static_cast<D&>(*this).forward(a...); },
                        arguments...);
  }

 private:
  // Stands before Module's forward(x), so that clang does not warn of a D that hides it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverloaded-virtual"
  struct Nothing {};
  void forward(Nothing) = delete;
#pragma GCC diagnostic pop
};

// Returns the path, below the outermost module that was called, of the module in whose forward a
// foreign exception was thrown. (An Error of Taper's ends in that path itself.) "" for any
// exception but the last foreign one that left a module's forward in this thread, which is kept
// until the next call of a module there.
std::string module_of(const std::exception& error);

// "Sequential(\n  (0): Linear(in_features=784, out_features=512, bias=True)\n ...)".
std::string to_string(const Module& module);

// Throws Error, naming shapes, when the graph of `loss` reaches a tensor that requires grad and is
// no parameter of the module: it would be differentiated and never trained or saved.
void check_all_registered(const Module& module, const Tensor& loss);

}  // namespace taper::v0
