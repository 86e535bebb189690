// What a kernel launch needs on the host: the device, the stream, error checks and scratch memory.
// Only CUDA sources include this header.
#pragma once

#include <cstddef>

#include <cuda_runtime.h>

#include "framework/cuda/runtime.h"
#include "framework/memory/cuda_allocator.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::cuda {

// Everything that a launch on a tensor's device needs:
//   Launch on(x);
//   kernel<<<grid, block, 0, on.stream>>>(...);
//   on.check("softmax");
struct Launch {
  explicit Launch(const Tensor& x) : Launch(x.device().index()) {}
  explicit Launch(int device_index)
      : device(device_index), scope(device_index), stream(current_stream(device_index)) {}

  int device;
  DeviceGuard scope;
  cudaStream_t stream;

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
