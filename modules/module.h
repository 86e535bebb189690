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

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/tensor.h"

namespace taper {

class Module {
 public:
  Module() = default;
  // Moving keeps parameters, buffers and children; copying would not say whether weights are
  // shared.
  Module(Module&&) = default;
  virtual ~Module() = default;

  virtual Tensor forward(const Tensor& x) = 0;
  // forward; errors gain the module's path.
  Tensor operator()(const Tensor& x);

  // PyTorch's class name, "Linear", and what it prints in brackets behind it.
  virtual std::string type_name() const = 0;
  virtual std::string extra_repr() const { return ""; }

  // Depth first, in order of registration; a tensor that is registered twice is listed once.
  std::vector<Tensor> parameters() const;
  std::vector<NamedTensor> named_parameters() const;
  std::vector<NamedTensor> named_buffers() const;
  const std::vector<std::pair<std::string, Module*>>& children() const { return children_; }
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
  // refused together, and then nothing was changed.
  void load_state_dict(const std::vector<NamedTensor>& state);

  // Adds a tensor or child to the tree. Throws for a name that is empty, has a dot, or is taken.
  void register_parameter(const std::string& name, const Tensor& tensor);
  void register_buffer(const std::string& name, const Tensor& tensor);
  void register_module(const std::string& name, Module& child);

 private:
  struct Entry {
    std::string name;
    Tensor tensor;
    bool is_buffer;
  };

  void check_name(const char* kind, const std::string& name) const;
  void collect(const std::string& prefix, bool once,
               std::vector<std::pair<std::string, Entry>>& out) const;
  std::vector<NamedTensor> named(bool buffers) const;
  void convert(const Device* device, const DType* dtype);

  std::vector<Entry> tensors_;
  std::vector<std::pair<std::string, Module*>> children_;
  std::string name_;  // in the parent
  bool training_ = true;
};

// "Sequential(\n  (0): Linear(in_features=784, out_features=512, bias=True)\n ...)".
std::string to_string(const Module& module);

// A tensor of a module. Assigning a tensor of the same shape changes the registered one in place.
class ModuleTensor {
 public:
  operator const Tensor&() const { return tensor_; }
  const Tensor& operator*() const { return tensor_; }
  const Tensor* operator->() const { return &tensor_; }

 protected:
  explicit ModuleTensor(Tensor tensor) : tensor_(std::move(tensor)) {}
  void assign(const Tensor& value);

  Tensor tensor_;
};

// Requires grad; optimizers train it.
class Parameter : public ModuleTensor {
 public:
  Parameter(Module& owner, const std::string& name, const Tensor& value);
  // Undefined, and not registered: a layer without its bias.
  Parameter() : ModuleTensor(Tensor()) {}
  Parameter& operator=(const Tensor& value) {
    assign(value);
    return *this;
  }
  Parameter(Parameter&&) = default;
  Parameter& operator=(const Parameter& other) {
    assign(other);
    return *this;
  }
  bool defined() const { return tensor_.defined(); }
};

// Saved and moved with the module, not trained.
class Buffer : public ModuleTensor {
 public:
  Buffer(Module& owner, const std::string& name, const Tensor& value);
  // Undefined, and not registered.
  Buffer() : ModuleTensor(Tensor()) {}
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
