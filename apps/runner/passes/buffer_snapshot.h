// Keeps copies that a model's buffers, such as running statistics, had before a step.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/tensor/tensor.h"
#include "modules/module.h"

namespace taper::v0::runner {

// Restores the buffers that a forward pass has changed. Copies only buffers that an earlier step
// has changed, so that a step of a model without running statistics costs nothing. The tensors'
// version counters show which ones have changed. All floating-point buffers are copied in one
// launch, and all counters in another. The model must outlive the snapshot.
class BufferSnapshot {
 public:
  // copies_all: whether every buffer is copied from the first step on, even if it never changes.
  explicit BufferSnapshot(Module& model, bool copies_all = false);

  // Call this after buffers were written by anything other than a step, for example by loading a
  // checkpoint.
  void accept();
  // Call this before a step or an evaluation. Records the versions of all buffers; launches no
  // kernels.
  void begin();
  // Copies the buffers before the forward pass changes them. Does not synchronize, so it can be
  // part of a step that is captured as a CUDA graph.
  void take();
  // Restores the values that take() copied. Returns false, and changes nothing, if that is
  // impossible: a buffer was replaced, or has changed since begin() without having been copied.
  bool restore() const;
  // Restores the copied values if `condition` (0-dim) is not 0. Does not synchronize.
  void restore_where(const Tensor& condition) const;

 private:
  struct Entry {
    Tensor buffer, copy;  // copy: undefined until the buffer is known to change
    uint32_t accepted, begun;
  };

  Module& model_;
  const bool copies_all_;
  bool is_taken_ = false;
  std::vector<Entry> entries_;
  Tensor zero_;  // 0-dim int64 on the device of the buffers
};

}  // namespace taper::v0::runner
