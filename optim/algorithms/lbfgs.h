// Limited-memory BFGS (https://pytorch.org/docs/stable/generated/torch.optim.LBFGS.html): steps
// along what the last gradients say of the curvature, each of several evaluations of the loss.
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

#include "optim/optimizer.h"

namespace taper::v0::optim {

enum class LineSearch : int64_t { kNone, kStrongWolfe };

struct LBFGSOptions {
  double lr = 1;
  int64_t max_iter = 20;           // of a step
  int64_t max_eval = 0;            // evaluations of the closure in a step; 0: max_iter * 5 / 4
  double tolerance_grad = 1e-7;    // a step ends where no gradient is larger,
  double tolerance_change = 1e-9;  // or no parameter, or the loss, changes by more
  int64_t history_size = 100;
  LineSearch line_search_fn = LineSearch::kNone;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("max_iter", max_iter, kCount, "iterations of a step");
    v("max_eval", max_eval, kCountOrNone, "evaluations of a step; 0: 5/4 of its iterations");
    v("tolerance_grad", tolerance_grad, kNonNegative, "gradients that are small enough to end");
    v("tolerance_change", tolerance_change, kNonNegative, "changes that are small enough to end");
    v("history_size", history_size, kCount, "gradients that are remembered");
    v("line_search_fn", line_search_fn, {"none", "strong_wolfe"}, "how far a step goes");
  }
  OptimizerTraits traits() const { return {"LBFGS"}; }
  void update(const std::vector<kernels::Update>& updates,
              const kernels::StepScalars& scalars) const;
};

// One group, on one device. It decides on the host, so that a step waits for the GPU.
class LBFGS : public Optimizer {
 public:
  explicit LBFGS(const std::vector<Tensor>& params, LBFGSOptions options = {});
  explicit LBFGS(const std::vector<NamedTensor>& params, LBFGSOptions options = {});

  using Optimizer::step;  // step(closure): the loss before it
  // Throws TypeError: there is no step without a closure.
  void step() override;
  // PyTorch's names; "state.0.old_dirs" and "state.0.old_stps" are [history, numel], "ro"
  // [history].
  std::vector<NamedTensor> state_dict() const override;
  void load_state_dict(const std::vector<NamedTensor>& state) override;

 protected:
  Tensor step_by(const std::function<Tensor()>& closure) override;

 private:
  // What is remembered between steps; tensors hold all parameters, one after the other.
  struct Memory {
    int64_t func_evals = 0, n_iter = 0;
    Tensor d, prev_flat_grad;
    std::vector<Tensor> old_dirs, old_stps;  // differences of gradients and of parameters
    std::vector<double> ro;                  // 1 / their products
    double t = 0, H_diag = 1, prev_loss = 0;
  };

  Tensor flat(bool gradients) const;
  void set_params(const Tensor& flat) const;
  Tensor direction(const Tensor& grad, int64_t history_size);

  Memory memory_;
};

}  // namespace taper::v0::optim
