// The base class of models and layers, which form a tree
// (https://pytorch.org/docs/stable/generated/torch.nn.Module.html).
//
//   struct Net : Module {
//     Child<Linear> fc1{*this, "fc1", 784, 512};
//     Child<Linear> fc2{*this, "fc2", 512, 10};
//     Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
//   };
//
// Parameters, buffers and children are registered under their names when they are created, so that
// none can be forgotten, and unregistered when they are destroyed. Assigning to a tensor writes
// into the registered tensor. `net.fc2 = Linear(512, 5)` puts another layer in the same place.
//
// Modules can be moved and swapped like values: `return net;`, `best = clone(net);`. The tensor
// objects stay the same, so optimizers keep their handles and tied weights stay tied. The sizes and
// options of a layer are public members that describe it. Changing a size does not change the
// weights.
#pragma once

#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "autograd/module_guard.h"
#include "framework/base/error.h"
#include "framework/io/loaded_tensors.h"
#include "framework/tensor/tensor.h"
#include "modules/braced_calls.h"
#include "modules/module_hooks.h"
#include "modules/module_slot.h"
#include "modules/placement.h"

namespace taper::v0 {

// Options of load_state_dict(): {.strict = false, .prefix = "module."}.
struct LoadOptions {
  bool strict = true;       // missing or unexpected names are errors
  std::string prefix = {};  // prefix of the names in the given state
};
struct IncompatibleKeys {
  std::vector<std::string> missing_keys, unexpected_keys;
};

class ChildBase;

class Module {
 public:
  Module();
  // Removes this module from its parents. The other children of a parent keep their order.
  virtual ~Module();

  // Computes the result. Throws NotImplementedError if the class has no such function because it is
  // called in another way (see `call_with_hooks`).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverloaded-virtual"  // forward of a ModuleOf takes any arguments
  virtual Tensor forward(const Tensor& x);
#pragma GCC diagnostic pop
  // Runs forward() and the hooks. Adds the module's path to errors. Throws Error if a module with
  // trainable parameters runs inside another one's forward() without being in a tree, because its
  // parameters would be forgotten.
  Tensor operator()(const Tensor& x);

  // Returns the class name and the settings in parentheses, as PyTorch prints them: "Linear". By
  // default the name is that of the C++ class without its namespace.
  virtual std::string type_name() const;
  virtual std::string extra_repr() const { return ""; }

  // Returns a copy with its own memory. Use clone(module) below if the type is known. Throws Error
  // if the class of this module or of one below it is neither a Cloneable nor a ModuleOf.
  std::unique_ptr<Module> clone() const;

  // Returns the parameters in depth-first order of registration. A tensor that is registered twice
  // is listed once.
  std::vector<Tensor> parameters() const;
  std::vector<NamedTensor> named_parameters() const;
  // Returns all buffers, also those that are not saved.
  std::vector<NamedTensor> named_buffers() const;
  using Named = std::pair<std::string, Module*>;
  const std::vector<Named>& children() const { return children_; }
  // Returns this module under the name "" and all modules below it by their paths. A shared module
  // is listed once.
  std::vector<Named> named_modules();
  // Calls f on every module below this one, then on this one, and returns *this.
  Module& apply(const std::function<void(Module&)>& f);
  // Freezes (false) or unfreezes (true) all parameters.
  Module& requires_grad_(BoolArg on = true);
  // Returns the number of elements in all parameters.
  int64_t num_parameters() const;

  // Sets the training mode of this module and all modules below it. Returns *this.
  Module& train(BoolArg on = true);
  Module& eval() { return train(false); }
  bool is_training() const { return training_; }

  // Moves every parameter, its gradient and every buffer in place. The tensor objects stay the
  // same, so tied weights stay tied and optimizers keep their handles. Integer buffers are moved
  // but never cast; an integer dtype throws. A call with a device ends the placement of this module
  // and of all modules below it. If memory runs out, throws OutOfMemoryError and changes nothing.
  Module& to(Device device);
  Module& to(DType dtype);
  Module& to(Device device, DType dtype);
  Module& cuda() { return to(Device(DeviceType::kCuda)); }
  Module& cuda(Device device);
  Module& cpu() { return to(Device(DeviceType::kCpu)); }

  // Moves the modules that the patterns name to several devices (modules/placement.h). From then
  // on, calls move their arguments and results. `rest` is the device of everything that no pattern
  // names; without it, these tensors stay where they are. Replaces an earlier placement. A module
  // that is put into the tree later has no placement until place() is called again.
  //
  // Throws ValueError, with the patterns and paths, for a pattern without a match, for two patterns
  // that name a module equally well, and for a tied weight or shared module that would get two
  // devices. Throws AcceleratorError for a device that does not exist. The module is unchanged
  // then, and after an OutOfMemoryError.
  Module& place(const std::vector<PlacementRule>& rules, std::optional<Device> rest = {});
  // Returns all parameters and buffers with the devices on which place() would put them. Throws
  // what place() throws, except that the devices need not exist.
  std::vector<PlacedTensor> plan_placement(const std::vector<PlacementRule>& rules,
                                           std::optional<Device> rest = {});
  // Returns whether this module or one below it was placed.
  bool is_placed() const;
  // Returns how forward() uses the results of its children. kPassesOn saves moves between devices.
  virtual CallStyle call_style() const { return CallStyle::kComputes; }

  // Removes all gradients.
  void zero_grad();

  // Returns parameters and buffers by their paths ("net.0.weight"). A tied tensor is listed under
  // each of its names. The tensors share memory with the module's.
  std::vector<NamedTensor> state_dict() const;
  // Copies values by name, across devices and dtypes. Throws one Error that lists all missing,
  // unexpected and misshapen entries, and gives a hint if a prefix is the reason. After an error no
  // tensor has changed. For a tied tensor one of its names is enough.
  IncompatibleKeys load_state_dict(const std::vector<NamedTensor>& state,
                                   const LoadOptions& options = {});
  // Like load_state_dict() above, for the tensors of a file. Also throws, with the reason, if the
  // file has an unreadable entry that this module needs. Other unreadable entries are ignored.
  IncompatibleKeys load_state_dict(const LoadedTensors& state, const LoadOptions& options = {});

  ModuleHookHandle register_forward_pre_hook(ForwardPreHook hook);
  ModuleHookHandle register_forward_pre_hook(FirstPreHook hook);
  ModuleHookHandle register_forward_hook(ForwardHook hook);
  ModuleHookHandle register_forward_hook(FirstHook hook);
  // Registers a hook that runs in the backward pass when the gradients of the call's inputs have
  // been computed. If no input requires grad, it runs when those of its outputs have been computed.
  ModuleHookHandle register_full_backward_hook(BackwardHook hook);
  bool has_hooks() const { return hooks_ && has_any_hooks(); }

  // Adds a tensor or child to the tree. Throws for a name that is empty, contains a dot or is
  // taken, and if this module is below the child. A child may be destroyed before or after its
  // parents.
  void register_parameter(const std::string& name, const Tensor& tensor);
  void register_buffer(const std::string& name, const Tensor& tensor,
                       const BufferOptions& options = {});
  void register_module(const std::string& name, Module& child);
  // Moves `fresh` from its first place in the tree to this module's first place, with the same name
  // and position. Children and containers call this on assignment.
  void replace_with(Module& fresh);

 protected:
  // Moves parameters, buffers, children and hooks, and the place in a parent unless a Child or a
  // container holds the module there. The moved-from module may be destroyed or assigned to;
  // calling it throws Error.
  Module(Module&& other) noexcept;
  // Moves another module's content into this one. This module drops its previous content and keeps
  // its places in the tree. In `best = clone(net)` the members are then assigned one by one: each
  // Parameter, Buffer and Child takes over what the other module's member has. Throws TypeError if
  // the types differ, and Error if one module is part of the other.
  Module& operator=(Module&& other);
  // May be used only within clone(). Otherwise throws Error, because a copy would not state whether
  // weights are shared.
  Module(Module& other);

  // Runs body(arguments...) as a call of this module, with everything that operator() does for
  // forward(). Use it to write calls with several arguments or results.
  //   Scores operator()(const Tensor& x, const State& state) {
  //     return call_with_hooks([this](const auto&... a) { return score(a...); }, x, state);
  //   }
  template <class F, class... Args> auto call_with_hooks(const F& body, const Args&... arguments) {
    Call call(*this);
    try {
      if (!has_hooks() && !placement_) return body(arguments...);
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

  // Returns a copy of this module that has the same dynamic type.
  virtual std::unique_ptr<Module> copied();
  // Returns the copy of a tensor, for copy constructors of classes that have tensors as plain
  // members. For a registered tensor it is the registered copy.
  static Tensor copy_of(const Tensor& tensor);
  // Returns a copy made by M's copy constructor. M must be the module's dynamic type.
  template <std::derived_from<Module> M> static std::unique_ptr<Module> copy_of(M& module) {
    if constexpr (std::is_constructible_v<M, M&>) {
      if (typeid(module) == typeid(M)) return std::unique_ptr<Module>(new M(module));
    }
    return static_cast<Module&>(module).copied();
  }

 private:
  friend class ModuleTensor;
  friend class ModuleContainer;
  friend class ChildBase;
  friend class CloneGuard;
  friend class FunctionalGuard;
  template <class M> friend class Child;
  template <std::derived_from<Module> M> friend M clone(const M& module);
  struct Entry {
    std::string name;
    std::shared_ptr<ModuleSlot> slot;
    TensorRole role;
  };
  class Placer;  // placement.cpp
  class Call {
   public:
    explicit Call(Module& module);
    ~Call();
    Call& operator=(Call&&) = delete;  // neither copied nor moved
    // Move the tensors of a placed module and run the hooks.
    void before(std::vector<Tensor>& inputs);
    void after(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs);
    void run_hooks_after(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs);
    void replace(std::vector<Tensor>& tensors, std::vector<Tensor> by, const char* whose) const;
    // Call it in a catch block. Adds this module's path, relative to the module that called it, to
    // the exception.
    void locate() const;

   private:
    Module& module_;
    Module* outer_;  // the module that called this one
    ModuleGuard scope_;
    std::shared_ptr<BackwardCall> backward_;  // null unless there are backward hooks
  };

  void register_tensor(const std::string& name, std::shared_ptr<ModuleSlot> slot, TensorRole role);
  void check_name(const char* kind, const std::string& name);
  // Returns whether this is the other module or is below it.
  bool is_in(const Module& other) const;
  // Returns the first of this module's places in that parent, which must have one.
  std::vector<Named>::iterator place_in(Module& parent) const;
  // Takes over the content of the other module, which becomes empty.
  void take_tree(Module& other) noexcept;
  // Replaces the other module in its parents by this one.
  void take_places(Module& other) noexcept;
  ModuleHooks& hooks();
  bool has_any_hooks() const;  // whether any hook was ever registered
  void drop_hooks() noexcept;  // destroys the functions; their handles may remain
  // Returns the path of this module below another one, such as "layers.0", or its name in its first
  // parent if it is not in that tree. Visits only the modules on the way between them and their
  // siblings.
  std::string path_in(const Module* other) const;
  struct Found {
    std::string path;
    std::shared_ptr<ModuleSlot> slot;
    TensorRole role;
    const Tensor& tensor() const { return slot->tensor; }
  };
  // Returns all tensors of the tree. once: lists a tensor with several names only under the first.
  std::vector<Found> collect(bool once) const;
  // Returns the tensors that state_dict() has, with all of their names.
  std::vector<Found> collect_saved() const;
  IncompatibleKeys load(const std::vector<NamedTensor>& state, const LoadedTensors* file,
                        const LoadOptions& options);
  std::vector<NamedTensor> named(bool buffers) const;
  Module& convert(std::optional<Device> device, std::optional<DType> dtype);

  std::vector<Entry> tensors_;
  std::vector<Named> children_;
  std::vector<Module*> parents_;  // one entry per place; the first is the Child's own
  ChildBase* held_ = nullptr;     // linked list of the Child objects whose owner this is
  std::shared_ptr<ModuleHooks> hooks_;
  std::optional<CallPlacement> placement_;
  bool training_ = true;
  bool is_held_ = false;         // held by a Child or a container, which keep it at one address
  bool was_moved_ = false;       // was moved from
  bool has_lost_place_ = false;  // another module was assigned to its place in a parent
};

// While it exists, modules can be copied on this thread. All copies form one operation, so tensors
// and modules that are tied or shared stay so between the copies.
class CloneGuard {
 public:
  CloneGuard();
  ~CloneGuard();
  CloneGuard& operator=(CloneGuard&&) = delete;  // neither copied nor moved
  // Throws Error if a copied module has a child that was not copied, because the child is
  // registered with a module that does not hold it.
  void finish() const;

 private:
  bool is_outermost_;
};

// Throws TypeError if the module's type is not M: moving it as an M would slice off what the
// derived type adds.
void check_whole(const Module& module, const std::type_info& type);

// Returns a copy, like copy.deepcopy: weights and buffers have their own memory, tied ones stay
// tied, and modes are kept. Gradients and hooks are not copied. Plain members of type Tensor or
// pointer are copied as handles. A class that needs more defines a copy constructor, which takes a
// non-const reference, and then also declares its moves:
//   Net(Net& other) : ModuleOf(other), mask(copy_of(other.mask)) {}
//   Net(Net&&) = default;
//   Net& operator=(Net&&) = default;
// Throws TypeError for a module whose type is derived from M; module.clone() copies it completely.
template <std::derived_from<Module> M> M clone(const M& module) {
  static_assert(!std::same_as<M, Module>,
                "clone(module) needs the module's own type: module.clone() copies any Module");
  check_whole(module, typeid(M));
  const CloneGuard scope;
  const std::unique_ptr<Module> made = Module::copy_of(const_cast<M&>(module));
  scope.finish();
  return std::move(static_cast<M&>(*made));
}

// Base class by which a class D can be cloned when only its base Module is known, as in a
// Sequential. Base is the class from which D would otherwise be derived.
template <class D, class Base = Module> class Cloneable : public Base {
 public:
  using Base::Base;

 private:
  std::unique_ptr<Module> copied() override {
    if constexpr (std::is_constructible_v<D, D&>) {
      // A std::unique_ptr<D> for every layer would double the time to compile taper.h.
      if (typeid(*this) == typeid(D)) return std::unique_ptr<Module>(new D(static_cast<D&>(*this)));
    }
    // Module has the message, whatever Base is.
    return Module::copied();  // NOLINT(bugprone-parent-virtual-call)
  }
};

// Base class of a module whose forward() takes any arguments and returns any result. Hooks see the
// tensors among them, and errors have the module's path:
//   struct Gated : ModuleOf<Gated> {
//     Child<Linear> value{*this, "value", 4, 4}, gate{*this, "gate", 4, 4};
//     std::pair<Tensor, Tensor> forward(const Tensor& x, const Tensor& context) {...}
//   };
//   const auto [y, g] = net(x, context);
// Arguments may be in braces: net(x, {h, c}). A forward() of one tensor with another result type
// takes it by value, forward(Tensor x), because forward(const Tensor&) is Module's. An argument
// that forward() changes, such as a cache, is a reference; hooks do not see its tensors.
template <class D> class ModuleOf : public Cloneable<D>, public BracedCalls<ModuleOf<D>, D> {
 public:
  using BracedCalls<ModuleOf<D>, D>::operator();
  template <class... Args> auto operator()(Args&&... arguments) {
    const auto call = [this](const auto&... a) { return this->call_with_hooks(a...); };
    return detail::call_forward<Args...>(static_cast<D&>(*this), call, arguments...);
  }

 private:
  // Declared so that clang does not warn that D hides Module's forward(x).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverloaded-virtual"
  struct Nothing {};
  void forward(Nothing) = delete;
#pragma GCC diagnostic pop
};

// Returns the path of the module whose forward() threw a foreign exception, that is, one that is
// not a taper::Error. (The message of a taper::Error ends in the path itself.) The path is relative
// to the outermost module that was called. Only the last foreign exception on this thread is known,
// and only until the next call of a module on this thread. Returns "" for all others.
std::string module_of(const std::exception& error);

// Returns for example "Sequential(\n  (0): Linear(in_features=784, out_features=512, bias=True)\n
// ...)".
std::string to_string(const Module& module);

// Throws Error with the shapes if the graph of `loss` contains a tensor that requires grad and is
// not a parameter of the module. Such a tensor would be differentiated, but never trained or saved.
void check_all_registered(const Module& module, const Tensor& loss);

}  // namespace taper::v0
