// Tensors that other frameworks of the process share, without a copy
// (https://dmlc.github.io/dlpack/latest/): DLManagedTensor is in <dlpack/dlpack.h>.
#pragma once

#include "framework/tensor/tensor.h"

struct DLManagedTensor;

namespace taper::v0 {

// The same memory; it lives until the taker calls the deleter, or the last tensor on it goes,
// whichever is later. Refuses a tensor that requires grad. Kernels that were queued before may
// still be writing on a GPU: the taker works on the same stream, or waits (cuda::synchronize).
DLManagedTensor* to_dlpack(const Tensor& x);

// The same memory, which `managed` gives up: its deleter is called when the last tensor goes, or at
// once where an error is thrown. Takes CPU (page-locked too) and CUDA memory of the dtypes that
// Taper has, on the GPU in the order of the current stream. TypeError, ValueError for others.
Tensor from_dlpack(DLManagedTensor* managed);

}  // namespace taper::v0
