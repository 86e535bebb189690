// The tree that a model is (https://pytorch.org/docs/stable/generated/torch.nn.Module.html).
//
//   struct Net : Module {
//     Child<Linear> fc1{*this, "fc1", 784, 512};
//     Child<Linear> fc2{*this, "fc2", 512, 10};
//     Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
//   };
//
// Parameters, buffers and children are registered under their names when they are made, so none can
// be forgotten; assigning to one writes through to the registered tensor.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "autograd/module_scope.h"
#include "framework/error.h"
#include "framework/tensor.h"

namespace taper {

class Module;

// What load_state_dict takes: {.strict = false, .prefix = "module."}.
struct LoadOptions {
  bool strict = true;       // names that are missing or unexpected are errors
  std::string prefix = {};  // with which names of the given state begin
};
struct IncompatibleKeys {
  std::vector<std::string> missing_keys, unexpected_keys;
};

// Functions that see the calls of a module: its first argument and, afterwards, its result where
// that is a tensor. One that returns a defined tensor replaces it.
using ForwardPreHook = std::function<Tensor(Module&, const Tensor& x)>;
using ForwardHook = std::function<Tensor(Module&, const Tensor& x, const Tensor& y)>;
struct ModuleHooks {
  std::vector<std::pair<uint64_t, ForwardPreHook>> before;
  std::vector<std::pair<uint64_t, ForwardHook>> after;
  uint64_t next_id = 0;
};
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

class Module {
 public:
  Module() = default;
  // Moving keeps parameters, buffers and children; copying would not say whether weights are
  // shared.
  Module(Module&&) = default;
  virtual ~Module() = default;

  virtual Tensor forward(const Tensor& x) = 0;
  // forward with hooks; errors gain the module's path. Throws when a module with parameters to
  // train runs inside another one's forward without being in a tree: they would be forgotten.
  Tensor operator()(const Tensor& x);

  // PyTorch's class name, "Linear", and what it prints in brackets behind it.
  virtual std::string type_name() const = 0;
  virtual std::string extra_repr() const { return ""; }

  // Depth first, in order of registration; a tensor that is registered twice is listed once.
  std::vector<Tensor> parameters() const;
  std::vector<NamedTensor> named_parameters() const;
  std::vector<NamedTensor> named_buffers() const;
  const std::vector<std::pair<std::string, Module*>>& children() const { return children_; }
  // This module under "", and all below it by their paths; one that is shared is listed once.
  std::vector<std::pair<std::string, Module*>> named_modules();
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

  ModuleHookHandle register_forward_pre_hook(ForwardPreHook hook);
  ModuleHookHandle register_forward_hook(ForwardHook hook);
  bool has_hooks() const { return hooks_ && !(hooks_->before.empty() && hooks_->after.empty()); }

  // Adds a tensor or child to the tree. Throws for a name that is empty, has a dot, or is taken.
  void register_parameter(const std::string& name, const Tensor& tensor);
  void register_buffer(const std::string& name, const Tensor& tensor);
  void register_module(const std::string& name, Module& child);

 protected:
  // For calls with several arguments or results: body(x) as a call of this module, with what
  // operator() does for forward. x is the first argument.
  template <class F> auto within(const Tensor& x, F&& body) {
    const Call call(*this);
    try {
      const Tensor input = call.before(x);
      auto y = body(input);
      if constexpr (std::is_same_v<decltype(y), Tensor>) return call.after(input, std::move(y));
      return y;
    } catch (Error& error) {
      call.locate(error);
      throw;
    }
  }

 private:
  friend class ModuleTensor;
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
    Tensor before(const Tensor& x) const;
    Tensor after(const Tensor& x, Tensor y) const;
    // Adds the module's place in the one that called it.
    void locate(Error& error) const;

   private:
    Module& module_;
    Module* outer_;  // the module that called this one
    ModuleScope scope_;
  };

  void register_tensor(const std::string& name, std::shared_ptr<Tensor> tensor, bool is_buffer);
  void check_name(const char* kind, const std::string& name) const;
  ModuleHooks& hooks();
  // "layers.0": the path of this module below another; its own name where it is not in that tree.
  std::string path_in(const Module* other) const;
  struct Found {
    std::string path;
    Tensor tensor;
    bool is_buffer;
  };
  std::vector<Found> collect(bool once) const;
  void collect(const std::string& prefix, std::unordered_set<const TensorImpl*>* seen,
               std::vector<Found>& out) const;
  std::vector<NamedTensor> named(bool buffers) const;
  void convert(const Device* device, const DType* dtype);

  std::vector<Entry> tensors_;
  std::vector<std::pair<std::string, Module*>> children_;
  std::string name_;  // in the parent
  std::shared_ptr<ModuleHooks> hooks_;
  bool training_ = true;
};

// "Sequential(\n  (0): Linear(in_features=784, out_features=512, bias=True)\n ...)".
std::string to_string(const Module& module);

// Throws Error, naming shapes, when the graph of `loss` reaches a tensor that requires grad and is
// no parameter of the module: it would be differentiated and never trained or saved.
void check_all_registered(const Module& module, const Tensor& loss);

// A tensor of a module. Assigning a tensor of the same shape changes the registered one in place.
class ModuleTensor {
 public:
  operator const Tensor&() const { return *tensor_; }
  const Tensor& operator*() const { return *tensor_; }
  const Tensor* operator->() const { return tensor_.get(); }
  bool defined() const { return tensor_->defined(); }

 protected:
  // Undefined, and not registered.
  ModuleTensor() : tensor_(std::make_shared<Tensor>()) {}
  ModuleTensor(Module& owner, const std::string& name, const Tensor& value, bool is_buffer);
  void assign(const Tensor& value);

  std::shared_ptr<Tensor> tensor_;
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
  Parameter& operator=(const Parameter& other) {
    assign(other);
    return *this;
  }
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
  Buffer& operator=(const Tensor& value) {
    assign(value);
    return *this;
  }
};

// A child of type M, made in place with M's own arguments.
template <class M> class Child {
 public:
  template <class... Args>
  Child(Module& owner, const std::string& name, Args&&... args)
      : module_(std::make_unique<M>(std::forward<Args>(args)...)) {
    owner.register_module(name, *module_);
  }
  template <class... Args> decltype(auto) operator()(Args&&... args) {
    return (*module_)(std::forward<Args>(args)...);
  }
  M& operator*() const { return *module_; }
  M* operator->() const { return module_.get(); }

 private:
  std::unique_ptr<M> module_;
};

}  // namespace taper
