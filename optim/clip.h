// Clips gradients in place. Call these functions after backward() and before the optimizer's step
// (https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html).
//
// Parameters without a gradient are skipped. No function synchronizes, except with
// error_if_nonfinite.
#pragma once

#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0::optim {

// Returns the norm of all tensors as one vector: 0-dim, on the device of the first tensor, float64
// if a tensor is float64, otherwise float32 (also for half types). norm_type: the order of the
// norm, above 0; infinity is allowed. With error_if_nonfinite it synchronizes, and throws Error if
// the norm is infinite or NaN.
Tensor get_total_norm(const std::vector<Tensor>& tensors, RealArg norm_type = 2,
                      BoolArg error_if_nonfinite = false);
// Multiplies all gradients by min(1, max_norm / (total_norm + 1e-6)). Returns the total norm before
// clipping.
Tensor clip_grad_norm_(const std::vector<Tensor>& params, RealArg max_norm, RealArg norm_type = 2,
                       BoolArg error_if_nonfinite = false);
// Clamps the elements of all gradients to [-clip_value, clip_value].
void clip_grad_value_(const std::vector<Tensor>& params, RealArg clip_value);

}  // namespace taper::v0::optim
