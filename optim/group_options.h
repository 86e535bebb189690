// An optimizer is an options struct that describes its fields (framework/base/describe.h), names
// its state in traits(), and updates parameters in one of three ways:
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
#include "framework/base/text_enum.h"
#include "framework/kernels/optim/update.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::optim {

// A setting of a group: its name in PyTorch, and the address of its field in the options struct.
struct Setting {
  const char* name;
  Shape shape;  // [n] for an array, otherwise 0-dim
  DType dtype;
  void* place;
  Range range;

  Tensor value() const;
  // Writes the value, which has the setting's shape, into the field.
  void assign(const Tensor& value) const;
};

// Collects the settings that options describe, except for master_weights, which is not saved
// because it only controls how updates are computed.
struct SettingList {
  std::vector<Setting> all;

  SettingList();  // defined in group_options.cpp, with everything else that handles the list
  ~SettingList();
  void add(const char* name, const Shape& shape, DType dtype, void* place, Range range);
  std::vector<Setting> take();

  template <class T> void operator()(const char* name, T& x, Range range, const char*) {
    if (std::string_view(name) == "master_weights") return;
    if constexpr (kIsTextEnum<T>) {
      add(name, {}, dtype_of<std::underlying_type_t<typename T::Value>>, &x, range);
    } else {
      add(name, {}, dtype_of<T>, &x, range);
    }
  }
  template <class T, size_t N>
  void operator()(const char* name, std::array<T, N>& x, Range range, const char*) {
    add(name, int64_t(N), dtype_of<T>, x.data(), range);
  }
  template <class T> void operator()(const char* name, T& x, const char* text) {
    (*this)(name, x, kAny, text);
  }
};

// Describes the fields with which most options structs end.
template <class V, class Options>
void describe_common_options(V& v, Options& o,
                             const char* decay = "L2 penalty, added to the gradient") {
  v("weight_decay", o.weight_decay, kNonNegative, decay);
  v("maximize", o.maximize, "maximize the objective instead of minimizing it");
  v("master_weights", o.master_weights, "keep float32 copies of half-precision weights");
}

// What an optimizer stores for each parameter, depending on its options. traits() of an options
// struct throws ValueError for settings that contradict each other.
struct OptimizerTraits {
  const char* optimizer;                 // "SGD"
  std::vector<const char*> states = {};  // PyTorch's names, in the order of update()
  // kUncounted: updates are not counted. kCounted: updates are counted, to recognize the first one.
  // kSaved: the count is also saved in the state dict.
  enum Count { kUncounted, kCounted, kSaved } count = kUncounted;
  // Initial value of the first state. If it is set, that state is created with the optimizer
  // (Adagrad). Other states start at 0.
  std::optional<double> initial = std::nullopt;
  bool only_matrices = false;  // Muon
  // A number that PyTorch saves with the states and that follows from the count (NAdam).
  struct Derived {
    const char* name = nullptr;
    std::function<double(double step)> of = {};
  } derived = {};
};

// A step of one parameter, for optimizers written with tensor ops. They change `param` and `states`
// in place. All tensors are float32, or float64 for double parameters, and are not on the tape. The
// caller rounds half parameters and handles loss scales and master weights.
struct ParamStep {
  Tensor param, grad;
  std::vector<Tensor> states;  // in the order of OptimizerTraits::states
  Tensor lr, step;             // 0-dim float64; `step` counts from 1 if the traits ask for a count
};

// The options of a parameter group, with their type erased.
class GroupOptions {
 public:
  virtual ~GroupOptions() = default;
  virtual std::unique_ptr<GroupOptions> clone() const = 0;
  // Returns the settings in the order of the description.
  virtual std::vector<Setting> settings() = 0;
  virtual double& lr() = 0;
  virtual bool trains_masters() const = 0;
  // Returns the traits. Throws ValueError, in PyTorch's words, for settings that contradict each
  // other or are out of range.
  virtual OptimizerTraits traits() const = 0;
  // Updates parameters that are on one device and have been updated the same number of times. Does
  // not synchronize.
  virtual void update(const std::vector<kernels::Update>& updates,
                      const kernels::StepScalars& scalars) const = 0;
};

void check_ranges(const std::vector<Setting>& settings);
void update_by_ops(const std::vector<kernels::Update>& updates, const kernels::StepScalars& scalars,
                   const std::function<void(const ParamStep&)>& update);

template <class Options> class TypedGroupOptions : public GroupOptions {
 public:
  explicit TypedGroupOptions(Options options) : options_(std::move(options)) {}
  std::unique_ptr<GroupOptions> clone() const override {
    return std::unique_ptr<GroupOptions>(new TypedGroupOptions(*this));
  }
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
  OptimizerTraits traits() const override {
    OptimizerTraits traits = options_.traits();
    check_ranges(TypedGroupOptions(*this).settings());
    return traits;
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

// --- dtype and layout of states, gradients and copies that a kernel reads with a parameter ---

inline DType state_dtype(const Tensor& param) {
  return param.dtype() == kFloat64 ? kFloat64 : kFloat32;
}
// Returns x if it already has `dtype` and param's device and layout; otherwise a converted copy.
Tensor matching_layout(const Tensor& param, const Tensor& x, DType dtype);

}  // namespace taper::v0::optim
