// std::atomic for members of public classes: <atomic> brings <mutex> and <system_error> along.
#pragma once

#include "framework/base/namespace.h"

namespace taper::v0 {

// An integer, pointer or bool with std::atomic's functions. Orders are std::memory_order's or the
// compiler's own, which are the same numbers; without one: sequentially consistent.
template <class T> class Atomic {
  static constexpr int kStrict = __ATOMIC_SEQ_CST;

 public:
  constexpr Atomic(T value) : value_(value) {}
  Atomic& operator=(Atomic&&) = delete;  // neither copied nor moved

  template <class Order = int> T load(Order order = Order(kStrict)) const {
    return __atomic_load_n(&value_, int(order));
  }
  template <class Order = int> void store(T value, Order order = Order(kStrict)) {
    __atomic_store_n(&value_, value, int(order));
  }
  template <class Order = int> T exchange(T value, Order order = Order(kStrict)) {
    return __atomic_exchange_n(&value_, value, int(order));
  }
  template <class Order = int> T fetch_add(T value, Order order = Order(kStrict)) {
    return __atomic_fetch_add(&value_, value, int(order));
  }
  template <class Order = int> T fetch_sub(T value, Order order = Order(kStrict)) {
    return __atomic_fetch_sub(&value_, value, int(order));
  }
  template <class Order = int>
  bool compare_exchange_strong(T& expected, T value, Order order = Order(kStrict)) {
    return __atomic_compare_exchange_n(&value_, &expected, value, false, int(order),
                                       on_failure(int(order)));
  }
  template <class Order = int>
  bool compare_exchange_weak(T& expected, T value, Order order = Order(kStrict)) {
    return __atomic_compare_exchange_n(&value_, &expected, value, true, int(order),
                                       on_failure(int(order)));
  }
  operator T() const { return load(); }
  T operator=(T value) {
    store(value);
    return value;
  }
  T operator++() { return T(fetch_add(1) + 1); }
  T operator|=(T bits) { return __atomic_or_fetch(&value_, bits, kStrict); }
  T operator&=(T bits) { return __atomic_and_fetch(&value_, bits, kStrict); }

 private:
  // Nothing was stored then.
  static constexpr int on_failure(int order) {
    if (order == __ATOMIC_ACQ_REL) return __ATOMIC_ACQUIRE;
    return order == __ATOMIC_RELEASE ? __ATOMIC_RELAXED : order;
  }

  T value_;
};

}  // namespace taper::v0
