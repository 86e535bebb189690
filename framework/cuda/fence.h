// Points in the order of streams that must pass before memory is used again.
#pragma once

#include <vector>

#include <cuda_runtime.h>

#include "framework/base/namespace.h"

namespace taper::v0::cuda {

class Fence {
 public:
  // Names a stream to wait for; once is enough.
  void add(int device, cudaStream_t stream);
  bool empty() const { return marks_.empty(); }
  // Marks what each named stream has been given so far (again, where it was marked before). When
  // that fails (the driver is going), the fence never passes and the memory is never used again.
  void record() noexcept;
  // True when all marks are passed; the fence is empty then.
  bool passed() noexcept;
  // Waits until passed() or until it is clear that it never will be.
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
