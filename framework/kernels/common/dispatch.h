// Selects the device of a kernel call. Builds without CUDA do not reference the CUDA functions.
#pragma once

#include "framework/cuda/cuda.h"
#include "framework/profiler/profiler.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

#ifdef TAPER_WITH_CUDNN
inline constexpr bool kHasCudnn = true;
#else
inline constexpr bool kHasCudnn = false;
#endif

// Returns nullptr if x is undefined.
template <class T> T* pointer(const Tensor& x) {
  return x.defined() ? static_cast<T*>(x.data_ptr()) : nullptr;
}

// Calls the function for the device. `op` names the call in traces. It defaults to the name of the
// calling function.
template <class OnCpu, class OnCuda>
void dispatch(Device device, OnCpu on_cpu, [[maybe_unused]] OnCuda on_cuda,
              const char* op = __builtin_FUNCTION()) {
  const RecordFunction range(op, RecordFunction::RangeKind::kOp, device);
  if constexpr (kHasCuda) {
    if (device.is_cuda()) return on_cuda();
  }
  on_cpu();
}

// The device of an op and its name in traces, which defaults to the name of the calling function.
struct OpPlace {
  OpPlace(Device at, const char* name = __builtin_FUNCTION()) : device(at), op(name) {}
  Device device;
  const char* op;
};
// Calls one of two functions with the same parameters: dispatch<cpu::fill, cuda::fill>(device,
// iter, 0).
template <auto kOnCpu, auto kOnCuda, class... Args>
void dispatch(const OpPlace& at, const Args&... args) {
  dispatch(
      at.device, [&] { kOnCpu(args...); }, [&] { kOnCuda(args...); }, at.op);
}

// A family of kernels that compute each element independently has one formula for both backends: a
// host-device functor of an index. `Backend` runs it on the CPU's threads or on the GPU.
//
//   index.h          template <class Backend> struct IndexKernels { static void search(...); };
//   index.cpp        on_device<IndexKernels>(x.device(), [&](auto k) { k.search(y, x, ...); });
//   index_kernels.h  the functors, and the members, which call Backend::run(op, y, n, work, f)
//   index_cpu.cpp    template struct IndexKernels<cpu::Backend>;
//   index.cu         template struct IndexKernels<cuda::Backend>;
//
// Some families share only the functors, because their member functions differ between the
// backends. Then the source of each backend defines its own member functions (pool_cpu.cpp,
// pool.cu).
namespace cpu {
struct Backend;  // framework/kernels/common/per_element_cpu.h
}
namespace cuda {
struct Backend;  // framework/kernels/common/per_element.cuh
}

template <template <class> class Kernels, class F>
void on_device(Device device, F f, const char* op = __builtin_FUNCTION()) {
  dispatch(
      device, [&] { f(Kernels<cpu::Backend>()); }, [&] { f(Kernels<cuda::Backend>()); }, op);
}

}  // namespace taper::v0::kernels
