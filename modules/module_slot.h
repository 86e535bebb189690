// A parameter or buffer as a module stores it.
#pragma once

#include <cstdint>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

// Options of a buffer: {.persistent = false}.
struct BufferOptions {
  // Whether the buffer is part of state_dict(). One that is not is still moved and cloned with its
  // module, but it is neither saved nor expected by load_state_dict().
  bool persistent = true;
};

enum class TensorRole : uint8_t { kParameter, kBuffer, kUnsavedBuffer };

// A tensor of a module, shared by the module and its Parameter or Buffer.
struct ModuleSlot {
  explicit ModuleSlot(const Tensor& value) { hold(value); }
  ~ModuleSlot() { hold({}); }
  ModuleSlot& operator=(ModuleSlot&&) = delete;  // neither copied nor moved
  // Replaces the tensor of the module, and updates TensorImpl::module_places of both tensors.
  void hold(const Tensor& value);

  Tensor tensor;  // the module's tensor, or its substitute within a FunctionalGuard
  enum class State : uint8_t {
    kRegistered,
    kArriving,  // the module was assigned to another one; its Parameter or Buffer follows
    kDropped,   // another module was assigned to this module
  } state = State::kRegistered;

 private:
  Tensor held_;
};

}  // namespace taper::v0
