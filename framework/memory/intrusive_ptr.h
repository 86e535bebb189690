// A reference-counting pointer to an object that contains its own count (`refs`) and defines
// `static void destroy(T*)`. It is one word without a control block. It avoids std::swap and
// std::exchange, for which compilers instantiate a dozen traits for each T.
#pragma once

#include <atomic>

#include "framework/base/namespace.h"

namespace taper::v0 {

// Base class of counted objects that are allocated by `new`.
struct Counted {
  std::atomic<int> refs{1};
  virtual ~Counted() = default;
  static void destroy(Counted* object) noexcept { delete object; }
};

template <class T> class IntrusivePtr {
 public:
  IntrusivePtr() = default;
  // Takes ownership of a new object, which has one reference already.
  static IntrusivePtr adopt(T* p) {
    IntrusivePtr out;
    out.p_ = p;
    return out;
  }
  // Adds a reference to the object and returns a pointer to it.
  static IntrusivePtr share(T* p) {
    if (p) p->refs.fetch_add(1, std::memory_order_relaxed);
    return adopt(p);
  }
  // Like share(), but returns null if the object is being destroyed. Its memory must still exist.
  static IntrusivePtr try_share(T* p) {
    int refs = p->refs.load(std::memory_order_relaxed);
    while (refs > 0) {
      if (p->refs.compare_exchange_weak(refs, refs + 1, std::memory_order_acquire)) return adopt(p);
    }
    return {};
  }
  IntrusivePtr(const IntrusivePtr& other) : p_(other.p_) {
    if (p_) p_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  IntrusivePtr(IntrusivePtr&& other) noexcept : p_(other.release()) {}
  IntrusivePtr& operator=(IntrusivePtr other) noexcept {
    T* p = p_;
    p_ = other.p_;
    other.p_ = p;
    return *this;
  }
  ~IntrusivePtr() { reset(); }

  void reset() {
    T* p = release();
    if (p && p->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) T::destroy(p);
  }
  // Returns the raw pointer and transfers its reference to the caller.
  T* release() {
    T* p = p_;
    p_ = nullptr;
    return p;
  }

  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  bool operator==(const IntrusivePtr& other) const { return p_ == other.p_; }

 private:
  T* p_ = nullptr;
};

}  // namespace taper::v0
