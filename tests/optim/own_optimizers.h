// Optimizers as a user writes them, with tensor operators.
#pragma once

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/unary_ops.h"
#include "optim/optimizer.h"

namespace taper::v0::test {

// Steps by the sign of the smoothed gradient.
struct SignSGDOptions {
  double lr = 1e-3, momentum = 0.9, weight_decay = 0;
  bool master_weights = false;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("momentum", momentum, kBelowOne, "decay of the running mean");
    v("weight_decay", weight_decay, kNonNegative, "decay of the weight, times lr");
    v("master_weights", master_weights, "train float32 copies of half weights");
  }
  optim::OptimizerTraits traits() const { return {"SignSGD", {"momentum_buffer"}}; }
  void update(const optim::ParamStep& s) const {
    const Tensor &p = s.param, &mean = s.states[0];
    mean.mul_(momentum).add_(s.grad, 1 - momentum);
    p.sub_((sign(mean) + p * weight_decay) * s.lr);
  }
};
using SignSGD = optim::OptimizerOf<SignSGDOptions>;

// The Lookahead optimizer (Zhang et al., 2019) around SGD. Every k steps the slow weights move a
// fraction alpha of the way to the fast weights, which restart from there. The branches are
// evaluated on the device.
struct LookaheadOptions {
  double lr = 0.1, alpha = 0.5;
  int64_t k = 3;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("alpha", alpha, kUnit, "step of the slow weights toward the fast ones");
    v("k", k, kCount, "steps between updates of the slow weights");
  }
  optim::OptimizerTraits traits() const {
    return {"Lookahead", {"slow_param"}, optim::OptimizerTraits::kSaved};
  }
  void update(const optim::ParamStep& s) const {
    const Tensor &fast = s.param, &slow = s.states[0];
    slow.copy_(where(eq(s.step, 1), fast, slow));
    fast.sub_(s.grad * s.lr);
    const Tensor moves = eq(remainder(s.step, double(k)), 0);
    slow.copy_(where(moves, slow + (fast - slow) * alpha, slow));
    fast.copy_(where(moves, slow, fast));
  }
};
using Lookahead = optim::OptimizerOf<LookaheadOptions>;

}  // namespace taper::v0::test
