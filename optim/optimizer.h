// Optimizers (https://pytorch.org/docs/stable/optim.html). They hold handles of the parameters, so
// that a model may be moved (in C++, or to a device) before or after one is created; state follows
// its parameter at the next step. An optimizer may be moved, too: `return optimizer;`. Schedulers
// and StateShards refer to the optimizer object that they were given: create them after that.
//
//   optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
//   optim::AdamW optimizer(model.named_parameters(), {.lr = 1e-3}, {optim::no_decay()});
//   optim::SGD optimizer(model.named_parameters(), {.lr = 0.1, .momentum = 0.9},
//                        {{"*.bias|norm*", {{"weight_decay", 0}, {"lr", 0.2}}}});
//
// To write an optimizer, write an options struct (optim/group_options.h) and name the type:
// using MyOptimizer = OptimizerOf<MyOptions>.
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

// Parameters that share their settings.
template <class Options> struct ParamGroup {
  std::vector<Tensor> params;
  Options options;
};

// A group of its own for the parameters whose names match one of the patterns, written with `*`
// (any text) and `|` (or), and that have at most max_dim dimensions. Settings that are not named
// are those of all.
struct GroupRule {
  std::string pattern;
  std::vector<std::pair<std::string, double>> settings;
  int max_dim = kMaxDims;
};
// Parameters whose names nobody asks for.
std::vector<NamedTensor> unnamed(const std::vector<Tensor>& params);
// No weight decay on biases and the weights of norms: on what has less than two dimensions.
GroupRule no_decay();
const std::vector<GroupRule>& no_rules();

class Optimizer {
 public:
  virtual ~Optimizer();

  // Updates every parameter that has a gradient, with one launch for each group (of one device and
  // count of updates). Never waits for the GPU; unless parameters were moved since, or have their
  // first gradient, it allocates nothing and takes nothing from the host, so that a CUDA graph can
  // replay it. Throws Error while an EMA or AveragedModel has put its averages into a parameter:
  // the step would be lost when they are swapped back. (A replay of a CUDA graph does not check
  // that.)
  virtual void step();
  // The loss, from which the closure has computed the gradients; then steps by them. LBFGS calls it
  // several times.
  Tensor step(const std::function<Tensor()>& closure) { return step_by(closure); }
  // Drops the gradients of all parameters.
  void zero_grad();

  // All parameters, each in the group of the first rule that it matches, the others in a group of
  // their own, before those. Refuses a rule that matches none; and, naming the parameter, none at
  // all, one twice, one that is no leaf, not dense, or of no floating dtype. Groups of one
  // optimizer may have options of several types.
  template <class Options>
  void add_param_group(const std::vector<NamedTensor>& params, const Options& options,
                       const std::vector<GroupRule>& rules = no_rules()) {
    add_groups(params, TypedGroupOptions<Options>(options), rules);
  }

  size_t num_groups() const;
  // Throws IndexError for a group that there is not.
  double lr(size_t group = 0) const;
  // Takes effect at the next step, a replayed one too: the rate is in the parameters' device
  // memory.
  void set_lr(double lr);
  // Throws IndexError for a group that there is not.
  void set_lr(size_t group, double lr);
  // Of all groups, in order.
  std::vector<Tensor> parameters() const;
  // A 0-dim float32 tensor where the parameters are: while it is not 0, a step changes nothing.
  // Undefined: there is none.
  void set_found_inf(const Tensor& found_inf) { found_inf_ = found_inf; }
  // step(), or nothing where found_inf is not 0. Waits for the GPU unless skips_on_device().
  void step_unless(const Tensor& found_inf);
  // Whether all that step() does is left undone on the device while found_inf is not 0. A derived
  // class whose step() changes nothing but by Optimizer::step() may say so.
  virtual bool skips_on_device() const { return false; }

  // State and settings under PyTorch's names: "state.0.exp_avg", "param_groups.0.lr" (float64),
  // "param_groups.0.params" (int64, the numbers behind "state."). Steps are 0-dim float32, masters
  // of half parameters are "master_param". Other tensors share memory with the optimizer's.
  virtual std::vector<NamedTensor> state_dict() const;
  // The saved run goes on with the same bits. Throws ValueError, saying all that does not fit, in
  // PyTorch's words where groups differ; then nothing was changed.
  virtual void load_state_dict(const std::vector<NamedTensor>& state);

 protected:
  Optimizer();
  // What was moved from may be destroyed or assigned to; a step of it throws Error.
  Optimizer(Optimizer&& other) noexcept;
  Optimizer& operator=(Optimizer&& other) noexcept;
  virtual Tensor step_by(const std::function<Tensor()>& closure);
  // What every step begins with. Throws Error where a step would be lost (see step()), and for an
  // optimizer that was moved from.
  void check_step() const;

  std::vector<Group> groups_;
  Tensor found_inf_;

 private:
  const Group& group(size_t index) const;
  void add_groups(const std::vector<NamedTensor>& params, const GroupOptions& options,
                  const std::vector<GroupRule>& rules);
  void add_group(const std::vector<NamedTensor>& params, std::unique_ptr<GroupOptions> options);

  bool was_moved_ = false;  // from
};

// The optimizer whose groups have Options.
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
  // optimizer.add_param_group(head.parameters(), {.lr = 1e-2}); without options: those of the
  // constructor.
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
