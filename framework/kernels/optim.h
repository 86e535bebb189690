// Optimizer updates: one launch for all parameters of a group. What changes from step to step
// (learning rate, step count) is read from memory of the parameters' device, so that a captured
// graph replays it: `lr` and `step` are 0-dim float64 tensors.
#pragma once

#include <vector>

#include "framework/tensor.h"

namespace taper::kernels {

// One parameter with its gradient and the optimizer's state for it: dense, of one shape, dtype
// (floating) and device. State is float32, or float64 for double parameters.
struct Update {
  Tensor param, grad, state1, state2;
};

// PyTorch's SGD: d = grad + weight_decay * p; buf = momentum * buf + d (first step: d);
// d = nesterov ? d + momentum * buf : buf; p -= lr * d. state1 is the momentum buffer, zero at
// first, undefined without momentum; dampening is 0, so buf = momentum * 0 + d holds at the start.
struct SgdArgs {
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;
};
void sgd(const std::vector<Update>& updates, const Tensor& lr, SgdArgs args);

// Adam (Kingma & Ba, 2015) and AdamW (Loshchilov & Hutter, 2019) as in PyTorch: state1 is exp_avg,
// state2 is exp_avg_sq. `step` (0-dim float64) counts from 1 and has been advanced by the caller.
struct AdamArgs {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;  // AdamW
};
void adam(const std::vector<Update>& updates, const Tensor& lr, const Tensor& step, AdamArgs args);

namespace cpu {
void sgd(const std::vector<Update>& updates, const Tensor& lr, SgdArgs args);
void adam(const std::vector<Update>& updates, const Tensor& lr, const Tensor& step, AdamArgs args);
}  // namespace cpu
namespace cuda {
void sgd(const std::vector<Update>& updates, const Tensor& lr, SgdArgs args);
void adam(const std::vector<Update>& updates, const Tensor& lr, const Tensor& step, AdamArgs args);
}  // namespace cuda

}  // namespace taper::kernels
