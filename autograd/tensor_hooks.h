// Gradient hooks: functions that run when a gradient is computed
// (https://pytorch.org/docs/stable/notes/autograd.html#backward-hooks-execution).
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

// A hook of a tensor. It is a function Tensor(const Tensor& dy), whose result replaces the
// gradient, or void(const Tensor& dy), which only observes it.
struct TensorHook : std::function<Tensor(const Tensor&)> {
  template <std::invocable<const Tensor&> F>
  TensorHook(F f)
      : function([f = std::move(f)](const Tensor& x) mutable {
          if constexpr (std::is_void_v<std::invoke_result_t<F&, const Tensor&>>) {
            f(x);
            return Tensor();
          } else {
            return Tensor(f(x));
          }
        }) {}
};

// The hooks of all outputs of a node. A leaf's hooks belong to its accumulator node. The list
// itself is private to tensor_hooks.cpp.
struct Hooks : Counted {
  static constexpr uint32_t kAfterAccumulation = UINT32_MAX;

  // Destroys the functions. Called when the node is destroyed; handles to the hooks may live
  // longer.
  static void let_go(Hooks* hooks) noexcept;
};

// A handle returned by register_hook, which can remove the hook. Destroying the handle does not
// remove the hook.
class HookHandle {
 public:
  HookHandle() = default;
  HookHandle(IntrusivePtr<Hooks> hooks, uint64_t id) : hooks_(std::move(hooks)), id_(id) {}
  // Does nothing if the hook was removed before or its tensor no longer exists.
  void remove();

 private:
  IntrusivePtr<Hooks> hooks_;
  uint64_t id_ = 0;
};

// Calls the hooks of `output` with dy, in the order of registration. Each may replace dy. Throws
// Error, with PyTorch's message, if a replacement differs from dy in shape, dtype or device.
void run_hooks(Hooks& hooks, uint32_t output, Tensor& dy);

}  // namespace taper::v0
