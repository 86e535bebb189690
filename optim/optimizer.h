// Optimizers (https://pytorch.org/docs/stable/optim.html).
//
//   optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
//   optim::AdamW optimizer(model.named_parameters(), {.lr = 1e-3}, {optim::no_decay()});
//   optim::SGD optimizer(model.named_parameters(), {.lr = 0.1, .momentum = 0.9},
//                        {{"*.bias|norm*", {{"weight_decay", 0}, {"lr", 0.2}}}});
//
// An optimizer holds references to the parameters, so a model may be moved (as a C++ object, or to
// a device) before or after the optimizer is created. State moves to the device of its parameter at
// the next step. An optimizer may also be moved, as in `return optimizer;`. Schedulers and
// StateShards refer to the optimizer object: create them after it was moved.
//
// For an optimizer of your own, write an options struct (optim/group_options.h):
//
//   using Mine = optim::OptimizerOf<MyOptions>;
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "optim/group_options.h"

namespace taper::v0::optim {

class Group;  // optim/group.h

// Parameters with common options.
template <class Options> struct ParamGroup {
  std::vector<Tensor> params;
  Options options;
};

// A rule that puts parameters into a separate group: those whose names match the pattern and that
// have at most max_dim dimensions. In a pattern, `*` matches any text and `|` means "or". Settings
// that are not listed are those of the optimizer.
struct GroupRule {
  std::string pattern;
  std::vector<std::pair<std::string, double>> settings;
  int max_dim = kMaxDims;
};
// Returns the parameters with empty names, for callers that have no names.
std::vector<NamedTensor> unnamed(const std::vector<Tensor>& params);
// Sets weight_decay to 0 for parameters with fewer than two dimensions: biases and the weights of
// norms.
GroupRule no_decay();
const std::vector<GroupRule>& no_rules();

class Optimizer {
 public:
  virtual ~Optimizer();

  // Updates every parameter that has a gradient, with one launch for each device and number of
  // updates in a group. Throws Error while an EMA or AveragedModel has swapped its averages into a
  // parameter, because the update would be lost when they are swapped back. Throws Error, with the
  // parameter's name, if a module held a parameter when it was added and no module holds it any
  // more: net.fc = Linear(512, 5) and net = clone(best) replace parameters, and the optimizer still
  // has the old ones. A replayed CUDA graph does not check either.
  //
  // Does not synchronize. It allocates memory and copies from the host only in the first step of a
  // parameter and after parameters were moved, so that other steps can be captured in a CUDA graph.
  virtual void step();
  // Calls the closure, which computes gradients and returns the loss, then steps. LBFGS calls it
  // several times. Returns the loss of the first call.
  Tensor step(const std::function<Tensor()>& closure) { return step_by(closure); }
  // Releases the gradients of all parameters.
  void zero_grad();

  // Adds the parameters. Each belongs to the group of the first rule that it matches. The
  // parameters that match no rule form a group before those. Groups of an optimizer may have
  // different types of options. Throws ValueError for a rule without a match and for an empty list.
  // Throws ValueError, with the parameter's name, for a parameter that occurs twice, is not a leaf,
  // not dense, or not floating point.
  template <class Options>
  void add_param_group(const std::vector<NamedTensor>& params, const Options& options,
                       const std::vector<GroupRule>& rules = no_rules()) {
    add_groups(params, TypedGroupOptions<Options>(options), rules);
  }

  size_t num_groups() const;
  // Throws IndexError if there is no such group.
  double lr(size_t group = 0) const;
  // Sets the learning rate. It takes effect at the next step, also in a replayed CUDA graph,
  // because the rate is stored in device memory.
  void set_lr(double lr);
  // Throws IndexError if there is no such group.
  void set_lr(size_t group, double lr);
  // Returns the parameters of all groups, in order.
  std::vector<Tensor> parameters() const;
  // Sets a 0-dim float32 tensor. While it is not 0, steps change nothing. A step copies it to each
  // device of the parameters. An undefined tensor removes it.
  void set_found_inf(const Tensor& found_inf) { found_inf_ = found_inf; }
  // Calls step() if found_inf is 0. Synchronizes unless skips_on_device().
  void step_unless(const Tensor& found_inf);
  // Returns whether step() uses found_inf on the device, without reading it on the host. A derived
  // class may return true if its step() changes nothing except by calling Optimizer::step().
  virtual bool skips_on_device() const { return false; }

  // Returns state and settings under PyTorch's names: "state.0.exp_avg", "param_groups.0.lr"
  // (float64), "param_groups.0.params" (int64: the numbers ID in "state.ID"). Steps are 0-dim
  // float32. The masters of half parameters are "master_param". Tensors other than steps and
  // settings share memory with the optimizer.
  virtual std::vector<NamedTensor> state_dict() const;
  // Restores a state, so that training continues with the same bits. If anything does not fit,
  // changes nothing and throws ValueError with the whole list.
  virtual void load_state_dict(const std::vector<NamedTensor>& state);

 protected:
  Optimizer();
  // The optimizer that was moved from may only be destroyed or assigned to. Its step() throws
  // Error.
  Optimizer(Optimizer&& other) noexcept;
  Optimizer& operator=(Optimizer&& other) noexcept;
  virtual Tensor step_by(const std::function<Tensor()>& closure);
  // Call it at the start of each step. Throws Error if the step would be lost or would train
  // tensors that no module has (see step()), or if the optimizer was moved from.
  void check_step() const;

  std::vector<Group> groups_;
  Tensor found_inf_;

 private:
  const Group& group(size_t index) const;
  // Throws Error if a parameter is no longer in its module (see step()).
  void check_modules() const;
  void add_groups(const std::vector<NamedTensor>& params, const GroupOptions& options,
                  const std::vector<GroupRule>& rules);
  void add_group(const std::vector<NamedTensor>& params, std::unique_ptr<GroupOptions> options);

  bool was_moved_ = false;  // whether it was moved from
};

// An optimizer whose groups have options of type Options.
template <class Options> class OptimizerOf : public Optimizer {
 public:
  explicit OptimizerOf(const std::vector<Tensor>& params, const Options& options = {})
      : OptimizerOf(unnamed(params), options) {}
  explicit OptimizerOf(const std::vector<ParamGroup<Options>>& groups) {
    for (const auto& [params, options] : groups) add_param_group(params, options);
  }
  explicit OptimizerOf(const std::vector<NamedTensor>& params, const Options& options = {},
                       const std::vector<GroupRule>& rules = no_rules())
      : defaults_(options) {
    add_param_group(params, options, rules);
  }
  using Optimizer::add_param_group;
  // Adds a group: optimizer.add_param_group(head.parameters(), {.lr = 1e-2}). If no options are
  // given, the group has those of the constructor.
  void add_param_group(const std::vector<Tensor>& params, const Options& options) {
    add_param_group(unnamed(params), options);
  }
  void add_param_group(const std::vector<Tensor>& params) { add_param_group(params, defaults_); }
  void add_param_group(const std::vector<NamedTensor>& params, const Options& options,
                       const std::vector<GroupRule>& rules = no_rules()) {
    Optimizer::add_param_group(params, options, rules);
  }
  bool skips_on_device() const override { return typeid(*this) == typeid(OptimizerOf); }

 private:
  Options defaults_;
};

}  // namespace taper::v0::optim
