// Clipping of gradients in place, after backward() and before the optimizer's step
// (https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html). Parameters
// without a gradient are passed over; nothing waits for the GPU unless said.
#pragma once

#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0::optim {

// The norm (norm_type > 0, infinity too) of all tensors as one vector, 0-dim on the first one's
// device; float64 where some tensor is, else float32 (for half types too). With error_if_nonfinite
// it waits for the GPU and throws Error when the norm is infinite or nan.
Tensor get_total_norm(const std::vector<Tensor>& tensors, RealArg norm_type = 2,
                      BoolArg error_if_nonfinite = false);
// grad *= min(1, max_norm / (total_norm + 1e-6)). Returns the total norm from before.
Tensor clip_grad_norm_(const std::vector<Tensor>& params, RealArg max_norm, RealArg norm_type = 2,
                       BoolArg error_if_nonfinite = false);
// Gradients into [-clip_value, clip_value].
void clip_grad_value_(const std::vector<Tensor>& params, RealArg clip_value);

}  // namespace taper::v0::optim
