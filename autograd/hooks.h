// Functions that run when a gradient is computed
// (https://pytorch.org/docs/stable/notes/autograd.html#backward-hooks-execution).
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "framework/callable.h"
#include "framework/memory/atomic.h"
#include "framework/tensor.h"

namespace taper::v0 {

// Any Tensor(const Tensor& dy), or void(const Tensor& dy) for one that only looks.
struct TensorHook : Callable<Tensor(const Tensor&)> {
  template <std::invocable<const Tensor&> F>
  TensorHook(F f)
      : Callable([f = std::move(f)](const Tensor& x) mutable {
          if constexpr (std::is_void_v<std::invoke_result_t<F&, const Tensor&>>) {
            f(x);
            return Tensor();
          } else {
            return Tensor(f(x));
          }
        }) {}
};

// The hooks of all outputs of a node; a leaf's are in its accumulator. The list is in hooks.cpp.
struct Hooks : Counted {
  static constexpr uint32_t kAfterAccumulation = UINT32_MAX;

  // The node's end: handles may stay, the functions go.
  static void let_go(Hooks* hooks) noexcept;
};

// Returned by register_hook; the hook stays when the handle goes.
class HookHandle {
 public:
  HookHandle() = default;
  HookHandle(IntrusivePtr<Hooks> hooks, uint64_t id) : hooks_(std::move(hooks)), id_(id) {}
  // Does nothing the second time, or when the tensor is gone.
  void remove();

 private:
  IntrusivePtr<Hooks> hooks_;
  uint64_t id_ = 0;
};

// Calls the hooks of `output` with dy, in order; each may replace it. Throws, in PyTorch's words,
// when a replacement differs in shape, dtype or device.
void run_hooks(Hooks& hooks, uint32_t output, Tensor& dy);

}  // namespace taper::v0
