// Launches of kernels: the device, the stream, error checks and scratch memory. Only CUDA sources
// include this header.
//
// On GPUs of compute capability 9.0 and later, a kernel may start while the kernel before it in the
// stream is still running ("programmatic dependent launch", section 4.5 of NVIDIA's CUDA
// Programming Guide), which hides the time of a launch. Every kernel therefore begins with
// begin_kernel() or begin_long_kernel(), which wait for the kernel before it, and is launched by
// Launch::run().
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

#include <cuda_runtime.h>

#include "framework/cuda/runtime.h"
#include "framework/memory/cuda_allocator.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::cuda {

// The numbers of blocks and threads of a launch, its bytes of dynamic shared memory, and how many
// blocks along x form a cluster.
struct Blocks {
  dim3 grid, block;
  size_t shared = 0;
  unsigned cluster = 1;
  // Whether the kernel starts only when the one before has ended. Blocks that start early crowd on
  // the multiprocessors that become free first, which slows down a kernel of few long blocks: a
  // convolution by a quarter.
  bool in_order = false;
};

// One of these is the first statement of a kernel, in all its threads. It waits until the kernel
// before has ended and its results are visible. begin_kernel() also lets the next kernel start at
// once; it waits in the same way, so it does nothing before this one has ended. After
// begin_long_kernel() the next kernel starts when blocks of this one end. It is for kernels whose
// blocks run for long, where waiting blocks of the next kernel would be in the way.
#ifdef __CUDACC__
__device__ inline void begin_long_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}
__device__ inline void begin_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
  begin_long_kernel();
}
#endif

// The compute capabilities for which the kernels were compiled, times 100.
#ifdef __CUDA_ARCH_LIST__
inline constexpr int kCapabilities[] = {__CUDA_ARCH_LIST__};
#else
inline constexpr int kCapabilities[] = {0};
#endif
// Returns whether kernels wait for the one before in the code that runs on the device: the newest
// that it can run.
inline bool kernels_wait(int device) {
  const int own = compute_capability(device);
  int newest = 0;
  for (const int built : kCapabilities) {
    if (built <= own && built > newest) newest = built;
  }
  return newest >= 900;
}

// Everything that a launch on a tensor's device needs:
//   Launch on(x);
//   on.run(kernel, {grid, block}, ...);
//   on.check("softmax");
struct Launch {
  explicit Launch(const Tensor& x) : Launch(x.device().index()) {}
  explicit Launch(int device_index)
      : device(device_index), scope(device_index), stream(current_stream(device_index)) {}

  int device;
  DeviceGuard scope;
  cudaStream_t stream;

  // Launches a kernel that begins with begin_kernel() or begin_long_kernel(). An error is left to
  // check().
  template <class... Params>
  void run(void (*kernel)(Params...), const Blocks& blocks,
           const std::type_identity_t<Params>&... args) const {
    void* pointers[] = {
        const_cast<void*>(static_cast<const volatile void*>(std::addressof(args)))...};
    enqueue(reinterpret_cast<const void*>(kernel), blocks, pointers, kernels_wait(device));
  }
  // The same, for a kernel whose type is not known and pointers to its arguments. overlaps:
  // kernels_wait().
  void enqueue(const void* kernel, const Blocks& blocks, void** args, bool overlaps) const;

  // Throws if the launch was refused. Waits for the kernel if CUDA_LAUNCH_BLOCKING=1.
  void check(const char* op) const;
};

// Scratch memory on the current stream: freed at the end of the scope and reused in stream order.
class Scratch {
 public:
  Scratch(size_t nbytes, int device) : storage_(allocate(nbytes, device)) {}
  void* data() const { return storage_->data; }
  template <class T> T* as() const { return static_cast<T*>(storage_->data); }

 private:
  StoragePtr storage_;
};

}  // namespace taper::v0::cuda

namespace taper::v0::kernels::cuda {
#ifdef __CUDACC__
using taper::cuda::begin_kernel;
using taper::cuda::begin_long_kernel;
#endif
}  // namespace taper::v0::kernels::cuda
