// Batch norm over the batches of several ranks together
// (https://pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html).
#pragma once

#include "framework/distributed/communicator.h"
#include "framework/tensor.h"

namespace taper::v0 {

// batch_norm(..., training = true) of what all ranks give, whose batches may differ in size. The
// gradients of weight and bias are of this rank's part. All ranks call it, and its backward pass;
// it differentiates once.
Tensor sync_batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                       const Tensor& weight, const Tensor& bias,
                       const distributed::Communicator& ranks, RealArg momentum = 0.1,
                       RealArg eps = 1e-5);

}  // namespace taper::v0
