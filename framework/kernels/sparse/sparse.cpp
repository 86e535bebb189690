#include "framework/kernels/sparse/sparse.h"

#include "framework/kernels/elementwise/copy.h"

namespace taper::v0::kernels {

Tensor sparse_mm(const SparseRows& at, const Tensor& values, const Tensor& x) {
  const Tensor y = Tensor::make({at.crow.numel() - 1, x.size(1)}, x.dtype(), x.device());
  if (y.numel() == 0) return y;
  on_device<SparseKernels>(x.device(), [&](auto k) { k.mm(y, at, dense(values), dense(x)); });
  return y;
}

Tensor sampled_mm(const SparseRows& at, const Tensor& a, const Tensor& b) {
  const Tensor y = Tensor::make({at.col.numel()}, a.dtype(), a.device());
  if (y.numel() == 0) return y;
  on_device<SparseKernels>(a.device(), [&](auto k) { k.sampled(y, at, dense(a), dense(b)); });
  return y;
}

}  // namespace taper::v0::kernels
