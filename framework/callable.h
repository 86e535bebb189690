// What functions are kept in by public headers, for <functional> costs compilers a tenth of all of
// taper.h.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "framework/memory/pointers.h"

namespace taper::v0 {

namespace detail {
[[noreturn]] void refuse_empty_call();  // throws Error
}

template <class Signature> class Callable;

// A function pointer, lambda, std::function or object that can be called as R(Args...), or none.
// As with a std::function a copy has a copy of the object, made when one is called for.
template <class R, class... Args> class Callable<R(Args...)> {
 public:
  Callable() = default;
  Callable(std::nullptr_t) {}
  template <class F>
  requires(!std::is_base_of_v<Callable, F> && std::is_invocable_r_v<R, F&, Args...>) Callable(F f) {
    if constexpr (std::is_constructible_v<F, std::nullptr_t>) {
      if (!f) return;
    }
    target_ = Owned<Target>(new Held<F>(std::move(f)));
  }
  Callable(const Callable& other) : target_(other ? other.target_->copy() : nullptr) {}
  Callable(Callable&&) noexcept = default;
  Callable& operator=(Callable other) noexcept {
    target_ = std::move(other.target_);
    return *this;
  }

  explicit operator bool() const { return bool(target_); }
  R operator()(Args... args) const {
    if (!target_) detail::refuse_empty_call();
    return target_->call(std::forward<Args>(args)...);
  }

 private:
  struct Target {
    virtual ~Target() = default;
    virtual Target* copy() const = 0;
    virtual R call(Args... args) = 0;
  };
  template <class F> struct Held final : Target {
    explicit Held(F f) : f_(std::move(f)) {}
    Target* copy() const override { return new Held(f_); }
    R call(Args... args) override {
      if constexpr (std::is_void_v<R>) {
        f_(std::forward<Args>(args)...);
      } else {
        return f_(std::forward<Args>(args)...);
      }
    }
    F f_;
  };

  Owned<Target> target_;
};

}  // namespace taper::v0
