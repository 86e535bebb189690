#include "framework/kernels/loss/ctc.h"

#include <limits>

#include "framework/kernels/elementwise/copy.h"

namespace taper::v0::kernels {

void ctc(Ctc& c) {
  const Device device = c.log_probs.device();
  c.labels = Tensor::make({c.N(), c.L()}, kInt64, device);
  c.alpha = Tensor::make({c.T(), c.N(), c.L()}, c.log_probs.dtype(), device);
  c.loss = Tensor::make({c.N()}, c.log_probs.dtype(), device);
  on_device<CtcKernels>(device, [&](auto k) { k.forward(c); });
}

Tensor ctc_backward(const Tensor& dloss, const Ctc& c, bool zero_infinity) {
  const Tensor sums = Tensor::make(c.log_probs.shape(), c.log_probs.dtype(), dloss.device());
  const Tensor beta = Tensor::make(c.alpha.shape(), c.alpha.dtype(), dloss.device());
  fill(sums, -std::numeric_limits<double>::infinity());
  on_device<CtcKernels>(dloss.device(),
                        [&](auto k) { k.backward(sums, beta, dense(dloss), c, zero_infinity); });
  return sums;
}

}  // namespace taper::v0::kernels
