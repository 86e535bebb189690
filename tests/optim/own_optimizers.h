// Optimizers as a user writes them, by tensor operators.
#pragma once

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/unary_ops.h"
#include "optim/optimizer.h"

namespace taper::v0::test {

// The sign of the smoothed gradient: the whole optimizer.
struct SignSGDOptions {
  double lr = 1e-3, momentum = 0.9, weight_decay = 0;
  bool master_weights = false;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("momentum", momentum, kBelowOne, "part of the mean that is kept");
    v("weight_decay", weight_decay, kNonNegative, "part of the weight that is taken off, times lr");
    v("master_weights", master_weights, "train float32 copies of half weights");
  }
  optim::Recipe recipe() const { return {"SignSGD", {"momentum_buffer"}}; }
  void update(const optim::ParamStep& s) const {
    const Tensor &p = s.param, &mean = s.states[0];
    mean.mul_(momentum).add_(s.grad, 1 - momentum);
    p.sub_((sign(mean) + p * weight_decay) * s.lr);
  }
};
using SignSGD = optim::OptimizerOf<SignSGDOptions>;

// Zhang et al., 2019, "Lookahead Optimizer", around SGD: each k steps back to slow weights, which
// move by a part of the way. Its branches are taken on the device.
struct LookaheadOptions {
  double lr = 0.1, alpha = 0.5;
  int64_t k = 3;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("alpha", alpha, kUnit, "part of the way that the slow weights go");
    v("k", k, kCount, "steps from one move to the next");
  }
  optim::Recipe recipe() const { return {"Lookahead", {"slow_param"}, optim::Recipe::saved}; }
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
