// What an optimizer is made of: an options struct that describes itself
// (framework/base/describe.h), names its state in recipe(), and says how parameters are updated, in
// one of three ways:
//
//   void update(const ParamStep& s) const;   one parameter at a time, by tensor ops
//   prepare<C>(options, lr, step)            a formula for one element, compiled for both devices:
//                                            framework/kernels/optim/update.h
//   void update(const std::vector<kernels::Update>&, const kernels::StepScalars&) const;
//                                            all parameters at once, in calls of kernels::update
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "framework/base/describe.h"
#include "framework/kernels/optim/update.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::optim {

// A setting of a group: its name in PyTorch and its place in the options.
struct Setting {
  const char* name;
  Shape shape;  // [n] of an array, else 0-dim
  DType dtype;
  void* place;
  Range range;

  Tensor value() const;
  // The value has the setting's shape.
  void assign(const Tensor& value) const;
};

// The settings that options describe, but for master_weights, which says how to compute.
struct SettingList {
  std::vector<Setting> all;

  SettingList();  // in rule.cpp, as all that handles the list
  ~SettingList();
  void add(const char* name, const Shape& shape, DType dtype, void* place, Range range);
  std::vector<Setting> take();

  template <class T> void operator()(const char* name, T& x, Range range, const char*) {
    using Number = std::conditional_t<std::is_enum_v<T>, std::underlying_type<T>, std::decay<T>>;
    if (std::string_view(name) == "master_weights") return;
    add(name, {}, dtype_of<typename Number::type>, &x, range);
  }
  template <class T, size_t N>
  void operator()(const char* name, std::array<T, N>& x, Range range, const char*) {
    add(name, int64_t(N), dtype_of<T>, x.data(), range);
  }
  template <class T> void operator()(const char* name, T& x, const char* text) {
    (*this)(name, x, kAny, text);
  }
  template <class T>
  void operator()(const char* name, T& x, std::initializer_list<const char*>, const char* text) {
    (*this)(name, x, kAny, text);
  }
};

// What most options end with.
template <class V, class Options>
void describe_rest(V& v, Options& o, const char* decay = "L2 penalty, added to the gradient") {
  v("weight_decay", o.weight_decay, kNonNegative, decay);
  v("maximize", o.maximize, "maximize the objective instead of minimizing it");
  v("master_weights", o.master_weights, "keep float32 copies of half-precision weights");
}

// What the options of a group come to. A recipe() throws ValueError for settings that do not fit.
struct Recipe {
  const char* optimizer;                 // "SGD"
  std::vector<const char*> states = {};  // PyTorch's names, in the rule's order
  // Whether updates are counted: to know the first, or as a part of the state dict.
  enum Count { uncounted, counted, saved } count = uncounted;
  // Of the first state, which then is made with the optimizer (Adagrad); states are 0 else.
  std::optional<double> initial = std::nullopt;
  bool only_matrices = false;  // Muon
  // A number that PyTorch keeps beside the states and that follows from the count (NAdam).
  struct Derived {
    const char* name = nullptr;
    std::function<double(double step)> of = {};
  } derived = {};
};

// A step of one parameter, for rules written with tensor ops, which change `param` and `states` in
// place. All are of float32, or float64 for double parameters, outside the tape; half parameters
// are rounded, loss scales and masters seen to, by the caller.
struct ParamStep {
  Tensor param, grad;
  std::vector<Tensor> states;  // in the recipe's order
  Tensor lr, step;             // 0-dim float64; `step` counts from 1 where the recipe counts
};

// The options of a group, whatever their type.
class Rule {
 public:
  virtual ~Rule() = default;
  virtual std::unique_ptr<Rule> clone() const = 0;
  // In the order of the description.
  virtual std::vector<Setting> settings() = 0;
  virtual double& lr() = 0;
  virtual bool trains_masters() const = 0;
  // Throws ValueError, in PyTorch's words, for settings that do not fit or are out of range.
  virtual Recipe recipe() const = 0;
  // One step of parameters with a common count of updates, on one device; never waits for the GPU.
  virtual void update(const std::vector<kernels::Update>& updates,
                      const kernels::StepScalars& scalars) const = 0;
};

void check_ranges(const std::vector<Setting>& settings);
void update_by_ops(const std::vector<kernels::Update>& updates, const kernels::StepScalars& scalars,
                   const std::function<void(const ParamStep&)>& update);

template <class Options> class RuleOf : public Rule {
 public:
  explicit RuleOf(Options options) : options_(std::move(options)) {}
  std::unique_ptr<Rule> clone() const override { return std::unique_ptr<Rule>(new RuleOf(*this)); }
  std::vector<Setting> settings() override {
    SettingList list;
    options_.describe(list);
    return list.take();
  }
  double& lr() override { return options_.lr; }
  const Options& options() const { return options_; }
  bool trains_masters() const override {
    if constexpr (requires { options_.master_weights; }) return options_.master_weights;
    return false;
  }
  Recipe recipe() const override {
    Recipe recipe = options_.recipe();
    check_ranges(RuleOf(*this).settings());
    return recipe;
  }
  void update(const std::vector<kernels::Update>& updates,
              const kernels::StepScalars& scalars) const override {
    if constexpr (requires(const ParamStep& s) { options_.update(s); }) {
      update_by_ops(updates, scalars, [this](const ParamStep& s) { options_.update(s); });
    } else if constexpr (requires { options_.update(updates, scalars); }) {
      options_.update(updates, scalars);
    } else {
      kernels::update(updates, scalars, options_);
    }
  }

 private:
  Options options_;
};

// --- memory of what lies beside a parameter ---

inline DType state_dtype(const Tensor& param) {
  return param.dtype() == kFloat64 ? kFloat64 : kFloat32;
}
// x itself where it already is what a kernel needs beside param, else a copy there.
Tensor beside(const Tensor& param, const Tensor& x, DType dtype);

}  // namespace taper::v0::optim
