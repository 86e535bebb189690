// Limited-memory BFGS (https://pytorch.org/docs/stable/generated/torch.optim.LBFGS.html), which
// estimates the curvature from the last gradients. A step evaluates the loss several times.
//
//   optim::LBFGS optimizer(net.parameters(), {.line_search_fn = optim::LineSearch::kStrongWolfe});
//   const Tensor loss = optimizer.step([&] {
//     optimizer.zero_grad();
//     const Tensor loss = criterion(net(x), y);
//     loss.backward();
//     return loss;
//   });
#pragma once

#include <functional>

#include "framework/base/text_enum.h"
#include "optim/optimizer.h"

namespace taper::v0::optim {

struct LineSearchValues {
  enum class Value : int64_t { kNone, kStrongWolfe };
  static constexpr Value kNone = Value::kNone, kStrongWolfe = Value::kStrongWolfe;
  static constexpr const char* kOption = "line_search_fn";
  static constexpr const char* kWords[] = {"none", "strong_wolfe"};
};
using LineSearch = TextEnum<LineSearchValues>;

struct LBFGSOptions {
  double lr = 1;
  int64_t max_iter = 20;           // iterations of a step
  int64_t max_eval = 0;            // evaluations of the closure in a step; 0: max_iter * 5 / 4
  double tolerance_grad = 1e-7;    // a step ends if no element of the gradient is larger,
  double tolerance_change = 1e-9;  // or if all parameters or the loss change by less
  int64_t history_size = 100;
  LineSearch line_search_fn = LineSearch::kNone;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("max_iter", max_iter, kCount, "iterations of a step");
    v("max_eval", max_eval, kCountOrNone, "evaluations of a step; 0: 5/4 of its iterations");
    v("tolerance_grad", tolerance_grad, kNonNegative, "end a step if no gradient is larger");
    v("tolerance_change", tolerance_change, kNonNegative,
      "end a step if parameters or loss change by less");
    v("history_size", history_size, kCount, "number of gradients that are kept");
    v("line_search_fn", line_search_fn, "line search");
  }
  OptimizerTraits traits() const { return {"LBFGS"}; }
  void update(const std::vector<kernels::Update>& updates,
              const kernels::StepScalars& scalars) const;
};

// The optimizer. It has one group, on one device. A step synchronizes, because it makes decisions
// on the host.
class LBFGS : public Optimizer {
 public:
  explicit LBFGS(const std::vector<Tensor>& params, LBFGSOptions options = {});
  explicit LBFGS(const std::vector<NamedTensor>& params, LBFGSOptions options = {});

  using Optimizer::step;  // step(closure) returns the loss before the step
  // Throws TypeError, because a step needs a closure.
  void step() override;
  // Returns the state under PyTorch's names. "state.0.old_dirs" and "state.0.old_stps" are
  // [history, numel], "ro" is [history].
  std::vector<NamedTensor> state_dict() const override;
  void load_state_dict(const std::vector<NamedTensor>& state) override;

 protected:
  Tensor step_by(const std::function<Tensor()>& closure) override;

 private:
  // The state between steps. Each tensor holds all parameters one after another.
  struct Memory {
    int64_t func_evals = 0, n_iter = 0;
    Tensor d, prev_flat_grad;
    std::vector<Tensor> old_dirs, old_stps;  // differences of gradients, and of parameters
    std::vector<double> ro;                  // 1 / (dot products of these pairs)
    double t = 0, H_diag = 1, prev_loss = 0;
  };

  Tensor flat(bool gradients) const;
  void set_params(const Tensor& flat) const;
  Tensor direction(const Tensor& grad, int64_t history_size);

  Memory memory_;
};

}  // namespace taper::v0::optim
