// The two smart pointers of public headers, for <memory> brings <ostream> and the locales along:
// they take what a program's std::unique_ptr or std::shared_ptr holds, and give it back.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "framework/memory/intrusive_ptr.h"

namespace taper::v0 {

// True for std::unique_ptr<T, D> where D is the default deleter, and for pointers without one.
template <class P> inline constexpr bool kHasDefaultDeleter = true;
template <template <class...> class Unique, class T, class Delete>
inline constexpr bool kHasDefaultDeleter<Unique<T, Delete>> =
    std::same_as<Unique<T, Delete>, Unique<T>>;

// The only owner of an object, or null: std::unique_ptr<Module> copy = net.clone();
template <class T> class Owned {
 public:
  Owned() = default;
  Owned(std::nullptr_t) {}
  explicit Owned(T* object) : object_(object) {}
  // Takes the object of a std::unique_ptr<U>. One with a deleter of its own does not compile.
  template <template <class...> class Unique, class U, class Delete>
  requires std::convertible_to<U*, T*> Owned(Unique<U, Delete> other) : object_(other.release()) {
    static_assert(kHasDefaultDeleter<Unique<U, Delete>>,
                  "Owned deletes with `delete`: it does not take a pointer that has a deleter of "
                  "its own");
  }
  Owned(Owned&& other) noexcept : object_(other.release()) {}
  Owned& operator=(Owned other) noexcept {
    T* object = object_;
    object_ = other.object_;
    other.object_ = object;
    return *this;
  }
  ~Owned() { delete object_; }
  // Gives the object to a std::unique_ptr or std::shared_ptr. A std::unique_ptr with a deleter of
  // its own does not compile.
  template <class P>
  requires std::same_as<typename P::element_type, T>
  operator P() && {
    static_assert(kHasDefaultDeleter<P>,
                  "Owned deletes with `delete`: its object does not go to a pointer that has a "
                  "deleter of its own");
    return P(release());
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  T* release() {
    T* object = object_;
    object_ = nullptr;
    return object;
  }

 private:
  T* object_ = nullptr;
};

// One of the owners of an object, or null.
template <class T> class Shared {
 public:
  Shared() = default;
  Shared(std::nullptr_t) {}
  template <class... Args> static Shared make(Args&&... args) {
    auto* block = new Held<std::remove_const_t<T>>(std::forward<Args>(args)...);
    return Shared(&block->held, block);
  }
  // An object that is nobody's.
  static Shared unowned(T* object) { return Shared(object, nullptr); }
  // Of any other smart pointer, which is kept.
  template <class P>
  requires requires(const P& p) {
    { p.get() } -> std::convertible_to<T*>;
  }
  Shared(P other) : object_(other.get()) {
    if (object_) block_ = IntrusivePtr<Counted>::adopt(new Held<P>(std::move(other)));
  }
  Shared(const Shared&) = default;
  Shared(Shared&& other) noexcept
      : object_(other.object_), block_(static_cast<IntrusivePtr<Counted>&&>(other.block_)) {
    other.object_ = nullptr;
  }
  Shared& operator=(Shared other) noexcept {
    object_ = other.object_;
    block_ = static_cast<IntrusivePtr<Counted>&&>(other.block_);
    return *this;
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  std::add_lvalue_reference_t<T> operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  template <class H> struct Held final : Counted {
    template <class... Args> explicit Held(Args&&... args) : held(std::forward<Args>(args)...) {}
    H held;
  };
  Shared(T* object, Counted* block)
      : object_(object), block_(IntrusivePtr<Counted>::adopt(block)) {}

  T* object_ = nullptr;
  IntrusivePtr<Counted> block_;
};

}  // namespace taper::v0
