// Exchange of tensors with other frameworks of the process, without a copy
// (https://dmlc.github.io/dlpack/latest/). DLManagedTensor is declared in <dlpack/dlpack.h>.
#pragma once

#include "framework/tensor/tensor.h"

struct DLManagedTensor;

namespace taper::v0 {

// Returns a handle to the memory of x. The memory is freed after the consumer has called the
// deleter and the last tensor that uses it was destroyed. Throws Error if x requires grad. Does not
// synchronize: earlier kernels may still be writing on a GPU, so the consumer must work on the same
// stream or call cuda::synchronize().
DLManagedTensor* to_dlpack(const Tensor& x);

// Returns a tensor over the memory of `managed` and takes ownership of it. Its deleter is called
// when the last tensor is destroyed, or immediately if this function throws. Accepts CPU memory
// (page-locked memory too) and CUDA memory of the dtypes that Taper has; CUDA memory is used in the
// order of the current stream. Throws TypeError or ValueError for anything else.
Tensor from_dlpack(DLManagedTensor* managed);

}  // namespace taper::v0
