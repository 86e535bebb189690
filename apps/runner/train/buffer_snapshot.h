// Copies of a model's buffers, such as running statistics, from before a step.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/tensor/tensor.h"
#include "modules/module.h"

namespace taper::v0::runner {

// Undoes what a forward pass has done to buffers. Only buffers that some earlier step has changed
// are copied, floating-point ones and counters in one launch each, so that a step of a model
// without running statistics costs nothing. The tensors' version counters show which ones have
// changed. The model must outlive the snapshot.
class BufferSnapshot {
 public:
  // copies_all: copies every buffer from the first step on, even if it never changes.
  explicit BufferSnapshot(Module& model, bool copies_all = false);

  // Call it after anything but a step has written to buffers, such as loading a checkpoint.
  void accept();
  // Call it before a step or an evaluation. Notes the versions of all buffers; launches nothing.
  void begin();
  // Copies the buffers before the forward pass changes them. Does not synchronize, so that a step
  // with this call can be captured in a CUDA graph.
  void take();
  // Puts back the values that take() copied. Returns false, and changes nothing, if a buffer was
  // replaced, or was changed since begin() without having been copied.
  bool restore() const;
  // Puts back the copied values where `condition` (0-dim) is not 0. Does not synchronize.
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
