// A set of positions in streams that must be reached before memory is reused.
#pragma once

#include <vector>

#include <cuda_runtime.h>

#include "framework/base/namespace.h"

namespace taper::v0::cuda {

class Fence {
 public:
  // Adds a stream to wait for. Adding it again has no effect.
  void add(int device, cudaStream_t stream);
  bool empty() const { return marks_.empty(); }
  // Marks the current end of each stream's queue, replacing earlier marks. If this fails because
  // the driver is shutting down, the fence never passes and the memory is never reused.
  void record() noexcept;
  // Returns true if all marks have been reached; the fence is empty afterwards.
  bool passed() noexcept;
  // Waits until passed() is true, or until it is certain that it never will be.
  void wait() noexcept;

 private:
  struct Mark {
    int device;
    cudaStream_t stream;
    cudaEvent_t event;
  };
  void clear() noexcept;

  std::vector<Mark> marks_;
};

}  // namespace taper::v0::cuda
