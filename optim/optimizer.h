// Optimizers (https://pytorch.org/docs/stable/optim.html). They hold handles of the parameters, so
// a model may be moved before or after one is made; state follows its parameter at the next step.
//
//   optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
//   optim::AdamW optimizer(model.named_parameters(), {.lr = 1e-3}, {optim::no_decay()});
//   optim::SGD optimizer(model.named_parameters(), {.lr = 0.1, .momentum = 0.9},
//                        {{"*.bias|norm*", {{"weight_decay", 0}, {"lr", 0.2}}}});
#pragma once

#include <array>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "framework/kernels/optim/optim.h"
#include "framework/tensor.h"

namespace taper::optim {

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
// No weight decay on biases and the weights of norms: on what has less than two dimensions.
GroupRule no_decay();

// A setting of a group: its name in PyTorch and its place in the options.
class Field {
 public:
  Field(const char* n, double& x) : Field(n, kFloat64, {}, &x) {}
  Field(const char* n, bool& x) : Field(n, kBool, {}, &x) {}
  Field(const char* n, int64_t& x) : Field(n, kInt64, {}, &x) {}
  Field(const char* n, kernels::AdjustLr& x) : Field(n, kInt64, {}, &x) {}
  template <size_t N>
  Field(const char* n, std::array<double, N>& x) : Field(n, kFloat64, {int64_t(N)}, x.data()) {}

  const char* name;
  Shape shape;
  Tensor value() const;
  // The value has the setting's shape.
  void assign(const Tensor& value) const;

 private:
  Field(const char* n, DType dtype, Shape s, void* place)
      : name(n), shape(s), dtype_(dtype), place_(place) {}
  DType dtype_;
  void* place_;
};
// In PyTorch's order.
std::vector<Field> fields_of(kernels::UpdateRule& options);

// What the options of a group come to.
struct Recipe {
  const char* optimizer;                 // "SGD"
  std::vector<const char*> states = {};  // PyTorch's names, in the rule's order
  // Whether updates are counted, and whether the count is part of the state dict.
  enum Count { uncounted, counted, saved } count = uncounted;
  // Of the first state, which then is made with the optimizer (Adagrad); states are 0 else.
  std::optional<double> initial = std::nullopt;
  bool only_matrices = false;  // Muon
};
// Throws ValueError, in PyTorch's words, for settings that are out of range.
Recipe recipe_of(const kernels::UpdateRule& options);

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Updates every parameter that has a gradient, with one launch for each group (of one device and
  // count of updates). Never waits for the GPU; unless parameters were moved since, or have their
  // first gradient, it allocates nothing and takes nothing from the host, so that a CUDA graph can
  // replay it.
  virtual void step();
  // Drops the gradients of all parameters.
  void zero_grad();

  size_t num_groups() const { return groups_.size(); }
  double lr(size_t group = 0) const;
  // Takes effect at the next step, a replayed one too: it lies in the parameters' device memory.
  void set_lr(double lr);
  void set_lr(size_t group, double lr);
  // Of all groups, in order.
  std::vector<Tensor> parameters() const;
  // A 0-dim float32 tensor where the parameters are: while it is not 0, batches of a step change
  // nothing. Undefined: there is none.
  void set_found_inf(const Tensor& found_inf) { found_inf_ = found_inf; }
  // step(), or nothing where found_inf is not 0. Waits for the GPU unless skips_on_device().
  void step_unless(const Tensor& found_inf);
  // Whether all that step() does is left undone on the device while found_inf is not 0: Taper's own
  // classes say so. A derived class whose step() changes nothing but by apply() may do so, too.
  virtual bool skips_on_device() const { return false; }

  // State and settings under PyTorch's names: "state.0.exp_avg", "param_groups.0.lr" (float64),
  // "param_groups.0.params" (int64, the numbers behind "state."). Steps are 0-dim float32, masters
  // of half parameters are "master_param". Other tensors share memory with the optimizer's.
  std::vector<NamedTensor> state_dict() const;
  // The saved run goes on with the same bits. Throws ValueError, saying all that does not fit, in
  // PyTorch's words where groups differ; then nothing was changed.
  void load_state_dict(const std::vector<NamedTensor>& state);

 protected:
  // One parameter and what the optimizer remembers of it. Parameters that have always been updated
  // together share `step`, a 0-dim float64 tensor that counts their updates.
  struct Slot {
    Tensor param;
    std::string name;
    Tensor states[3], master, step;
  };
  struct Group {
    std::vector<Slot> slots;
    kernels::UpdateRule options;
    Recipe recipe;
    std::vector<Tensor> device_lrs;  // 0-dim float64, one for each device of the parameters
  };
  // Parameters of one group, device and count of updates, ready for a kernel.
  struct Batch {
    std::vector<kernels::Update> updates;
    kernels::StepScalars scalars;
    std::vector<Tensor> params;  // whose they are, in their order
  };

  // Refuses, naming the parameter: none at all, one twice, one that is no leaf, not dense, or of no
  // floating dtype.
  void add_group(const std::vector<NamedTensor>& params, const kernels::UpdateRule& options);
  // All parameters, each in the group of the first rule that it matches, the others in the first
  // group. A rule that matches none is refused.
  void add_groups(const std::vector<NamedTensor>& params, const kernels::UpdateRule& options,
                  const std::vector<GroupRule>& rules);
  // The batches of a group, with states made or moved where needed.
  std::vector<Batch> batches(Group& group);
  // Runs the kernel, and does what follows from new values.
  static void apply(const Batch& batch, const kernels::UpdateRule& rule);

  std::vector<Group> groups_;
  Tensor found_inf_;

 private:
  class Reader;
  Group read_group(Reader& reader, size_t g) const;
  // State that is missing starts at its initial value; state that was left behind follows.
  static void prepare(Tensor& state, const Tensor& param, double initial);
  // The slots of a group that have gradients, by device and count of updates.
  static std::vector<std::vector<Slot*>> parts_of(Group& group);
  static bool trains_master(const Slot& slot, const kernels::UpdateRule& options);
  static kernels::Update update_of(const Slot& slot);
  static double& lr_of(kernels::UpdateRule& options) {
    return std::visit([](auto& o) -> double& { return o.lr; }, options);
  }
};

// The constructors of an optimizer whose groups have Options.
template <class Options> class OptimizerOf : public Optimizer {
 public:
  OptimizerOf(const std::vector<Tensor>& params, Options options)
      : OptimizerOf(std::vector<ParamGroup<Options>>{{params, std::move(options)}}) {}
  explicit OptimizerOf(const std::vector<ParamGroup<Options>>& groups) {
    for (const auto& [params, options] : groups) {
      std::vector<NamedTensor> unnamed;
      for (const Tensor& p : params) unnamed.push_back({"", p});
      add_group(unnamed, options);
    }
  }
  OptimizerOf(const std::vector<NamedTensor>& params, Options options,
              const std::vector<GroupRule>& rules = {}) {
    add_groups(params, options, rules);
  }
  bool skips_on_device() const override { return typeid(*this) == typeid(OptimizerOf); }
};

}  // namespace taper::optim
