// Optimizer updates: one launch for all parameters of a call. What changes from step to step
// (learning rate, step count, whether gradients overflowed) is read from memory of the parameters'
// device, so that a captured graph replays it. The formulas stand in
// framework/kernels/optim/optim_rules.h.
#pragma once

#include <array>
#include <variant>
#include <vector>

#include "framework/describe.h"
#include "framework/tensor.h"

namespace taper::kernels {

// One parameter with its gradient and the optimizer's state for it: of one size and memory order,
// on one device. State is float32, or float64 for double parameters; what a rule does not keep is
// undefined. Half parameters are computed in float and rounded once.
struct Update {
  Tensor param, grad;
  Tensor states[3];
  // A half tensor that receives the new values rounded, or undefined. Where the gradient has its
  // dtype, `param` is the float32 master of this half parameter: elements of `low` that are not
  // their master's rounding were set by somebody, and the master takes them over first.
  Tensor low;
};

// 0-dim tensors on the parameters' device.
struct StepScalars {
  Tensor lr;         // float64
  Tensor step;       // float64, counts from 1; undefined for rules that do not read it
  Tensor found_inf;  // float32: the step does nothing where it is not 0; undefined: 0
  // `step`, of make_step, was not counted yet: this step has the next number and stores it.
  bool advances = false;
};
// A step of 0; the kernels' own counter lies behind it.
Tensor make_step(Device device);

// --- rules: settings and defaults are PyTorch's; lr is read from StepScalars; states stand in the
// --- order said. master_weights: float32 copies of half parameters are trained (Update::low).

struct SGDOptions {  // momentum_buffer, none without momentum
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;  // needs momentum and no dampening
  bool maximize = false, master_weights = false;
  static constexpr int kMinStates = 0, kMaxStates = 1;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("momentum", momentum, kBelowOne, "part of the last step that is kept");
    v("nesterov", nesterov, "look ahead along the momentum");
    v("dampening", dampening, kBelowOne, "part of a gradient that the momentum leaves out");
    v("weight_decay", weight_decay, kNonNegative, "L2 penalty, added to the gradient");
    v("maximize", maximize, "climb, do not descend");
    v("master_weights", master_weights, "train float32 copies of half weights");
  }
};
struct AdamOptions {  // exp_avg, exp_avg_sq, with amsgrad max_exp_avg_sq
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
  bool amsgrad = false, maximize = false, master_weights = false;
  bool decoupled_weight_decay = false;  // AdamW
  static constexpr int kMinStates = 2, kMaxStates = 3;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("betas", betas, kBelowOne, "decay of the two running means");
    v("eps", eps, kPositive, "keeps the division finite");
    v("weight_decay", weight_decay, kNonNegative, "L2 penalty, added to the gradient");
    v("amsgrad", amsgrad, "divide by the largest mean of squares so far");
    v("maximize", maximize, "climb, do not descend");
    v("master_weights", master_weights, "train float32 copies of half weights");
  }
};
struct AdagradOptions {  // sum, initial_accumulator_value at first
  double lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10;
  bool maximize = false, master_weights = false;
  static constexpr int kMinStates = 1, kMaxStates = 1;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("lr_decay", lr_decay, kNonNegative, "the rate is lr / (1 + step * lr_decay)");
    v("initial_accumulator_value", initial_accumulator_value, kNonNegative,
      "what the sum of squares begins with");
    v("eps", eps, kPositive, "keeps the division finite");
    v("weight_decay", weight_decay, kNonNegative, "L2 penalty, added to the gradient");
    v("maximize", maximize, "climb, do not descend");
    v("master_weights", master_weights, "train float32 copies of half weights");
  }
};
struct AdadeltaOptions {  // square_avg, acc_delta
  double lr = 1.0, rho = 0.9, eps = 1e-6, weight_decay = 0;
  bool maximize = false, master_weights = false;
  static constexpr int kMinStates = 2, kMaxStates = 2;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("rho", rho, kBelowOne, "decay of running means");
    v("eps", eps, kPositive, "keeps the division finite");
    v("weight_decay", weight_decay, kNonNegative, "L2 penalty, added to the gradient");
    v("maximize", maximize, "climb, do not descend");
    v("master_weights", master_weights, "train float32 copies of half weights");
  }
};
struct RMSpropOptions {  // square_avg, when centered grad_avg, with momentum momentum_buffer
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false, maximize = false, master_weights = false;
  static constexpr int kMinStates = 1, kMaxStates = 3;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("momentum", momentum, kBelowOne, "part of the last step that is kept");
    v("alpha", alpha, kBelowOne, "decay of the mean of squared gradients");
    v("centered", centered, "divide by the deviation instead of the root mean square");
    v("eps", eps, kPositive, "keeps the division finite");
    v("weight_decay", weight_decay, kNonNegative, "L2 penalty, added to the gradient");
    v("maximize", maximize, "climb, do not descend");
    v("master_weights", master_weights, "train float32 copies of half weights");
  }
};
struct LionOptions {  // exp_avg
  double lr = 1e-4;
  std::array<double, 2> betas = {0.9, 0.99};
  double weight_decay = 0;  // shrinks the weight itself
  bool maximize = false, master_weights = false;
  static constexpr int kMinStates = 1, kMaxStates = 1;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("betas", betas, kBelowOne, "decay of the two running means");
    v("weight_decay", weight_decay, kNonNegative, "part of the weight that is taken off, times lr");
    v("maximize", maximize, "climb, do not descend");
    v("master_weights", master_weights, "train float32 copies of half weights");
  }
};
// How Muon's lr follows a matrix [A, B]: times sqrt(max(1, A / B)), or 0.2 sqrt(max(A, B)).
enum class AdjustLr : int64_t { original, match_rms_adamw };
// The rule is a Muon step's first half: `param` receives the matrix to be made orthogonal.
struct MuonOptions {  // momentum_buffer
  double lr = 1e-3;
  double weight_decay = 0.1;  // shrinks the weight itself
  double momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients = {3.4445, -4.7750, 2.0315};
  double eps = 1e-7;
  int64_t ns_steps = 5;
  AdjustLr adjust_lr_fn = AdjustLr::original;
  bool master_weights = false;
  static constexpr int kMinStates = 1, kMaxStates = 1;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("momentum", momentum, kBelowOne, "part of the last step that is kept");
    v("nesterov", nesterov, "look ahead along the momentum");
    v("eps", eps, kPositive, "keeps the division finite");
    v("weight_decay", weight_decay, kNonNegative, "part of the weight that is taken off, times lr");
    v("ns_coefficients", ns_coefficients, "of the Newton-Schulz polynomial");
    v("ns_steps", ns_steps, Range{1, 100}, "Newton-Schulz iterations");
    v("adjust_lr_fn", adjust_lr_fn, {"original", "match_rms_adamw"},
      "how lr follows a matrix's shape");
    v("master_weights", master_weights, "train float32 copies of half weights");
  }
};
using UpdateRule = std::variant<SGDOptions, AdamOptions, AdagradOptions, AdadeltaOptions,
                                RMSpropOptions, LionOptions, MuonOptions>;

void update(const std::vector<Update>& updates, const StepScalars& scalars, const UpdateRule& rule);

namespace cpu {
void update(const std::vector<Update>& updates, const StepScalars& scalars, const UpdateRule& rule);
}  // namespace cpu
namespace cuda {
void update(const std::vector<Update>& updates, const StepScalars& scalars, const UpdateRule& rule);
}  // namespace cuda

}  // namespace taper::kernels
