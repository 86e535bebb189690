// Reduction of element-wise losses to one number.
#pragma once

#include "autograd/ops/reduce_ops.h"
#include "framework/base/error.h"
#include "framework/kernels/loss/softmax.h"

namespace taper::v0 {

inline void refuse_batchmean(Reduction reduction) {
  if (reduction != Reduction::kBatchmean) return;
  throw ValueError("batchmean is not a valid value for reduction (it is kl_div's)");
}

inline Tensor reduced(const Tensor& loss, Reduction reduction) {
  refuse_batchmean(reduction);
  if (reduction == Reduction::kNone) return loss;
  return reduction == Reduction::kSum ? sum(loss) : mean(loss);
}

}  // namespace taper::v0
