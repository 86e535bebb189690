// Picks the device of a kernel call; the CUDA side is not even referred to in a build without it.
#pragma once

#include "framework/cuda.h"
#include "framework/profiler.h"

namespace taper::kernels {

#ifdef TAPER_WITH_CUDNN
inline constexpr bool kHasCudnn = true;
#else
inline constexpr bool kHasCudnn = false;
#endif

// `op` is what traces call it: the function that dispatches, where nothing is said.
template <class OnCpu, class OnCuda>
void dispatch(Device device, OnCpu on_cpu, [[maybe_unused]] OnCuda on_cuda,
              const char* op = __builtin_FUNCTION()) {
  const RecordFunction range(op, RecordFunction::Kind::op, device);
  if constexpr (kHasCuda) {
    if (device.is_cuda()) return on_cuda();
  }
  on_cpu();
}

}  // namespace taper::kernels
