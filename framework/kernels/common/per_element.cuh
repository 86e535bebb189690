// Runs a functor for every index on the GPU: one thread per index, adjacent threads on adjacent
// indices.
#pragma once

#include <algorithm>

#include "framework/base/host_device.h"
#include "framework/cuda/runtime.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/common/kernel_launch.h"

namespace taper::v0::kernels::cuda {

template <class F> __global__ void __launch_bounds__(256) each_kernel(int64_t n, F f) {
  begin_kernel();
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) f(i);
}

struct Backend {
  // Returns whether an index is in [0, bound). Any other index is reported to the next
  // synchronizing call.
  struct Check {
    const char* op;
    taper::cuda::BadIndex* slot;
    TAPER_HD bool operator()([[maybe_unused]] int64_t index, [[maybe_unused]] int64_t bound) const {
#ifdef __CUDA_ARCH__
      if (index >= 0 && index < bound) return true;
      taper::cuda::report_bad_index(slot, op, index, bound);
#endif
      return false;
    }
    // Reports `op`, here a complete sentence, if the condition does not hold.
    TAPER_HD void require([[maybe_unused]] bool holds) const {
#ifdef __CUDA_ARCH__
      if (!holds) taper::cuda::report_broken_rule(slot, op);
#endif
    }
  };
  static Check check(const char* op, const Tensor& x) {
    return {op, taper::cuda::bad_index_slot(x.device().index())};
  }

  // Calls f(i) for every i in [0, n), in any order, on the stream of x's device. x is any operand.
  template <class F>
  static void run(const char* op, const Tensor& x, int64_t n, int64_t /*work*/, const F& f) {
    run(op, x.device().index(), n, f);
  }
  template <class F> static void run(const char* op, int device, int64_t n, const F& f) {
    if (n <= 0) return;
    const taper::cuda::Launch on(device);
    const unsigned blocks = unsigned(std::min<int64_t>((n + 255) / 256, 1 << 20));
    on.run(each_kernel<F>, {blocks, 256}, n, f);
    on.check(op);
  }
};

}  // namespace taper::v0::kernels::cuda
