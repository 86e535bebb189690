// Batch normalization over the batches of several ranks
// (https://pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html).
#pragma once

#include "framework/tensor/tensor.h"

namespace taper::v0::distributed {
class Communicator;  // framework/distributed/communicator.h
}

namespace taper::v0 {

// Equals batch_norm with training = true on the concatenated batches of all ranks, which may differ
// in size. The gradients of weight and bias cover this rank's samples only. All ranks must call the
// function and run its backward pass. Differentiable once.
Tensor sync_batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                       const Tensor& weight, const Tensor& bias,
                       const distributed::Communicator& ranks, RealArg momentum = 0.1,
                       RealArg eps = 1e-5);

}  // namespace taper::v0
