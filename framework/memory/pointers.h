// The two smart pointers of public headers, for <memory> brings <ostream> and the locales along:
// they take what a program's std::unique_ptr or std::shared_ptr holds, and give it back.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "framework/memory/intrusive_ptr.h"

namespace taper::inline v0 {

// The only owner of an object, or null: std::unique_ptr<Module> copy = net.clone();
template <class T> class Owned {
 public:
  Owned() = default;
  Owned(std::nullptr_t) {}
  explicit Owned(T* object) : object_(object) {}
  // Of a std::unique_ptr, or of an Owned of a class derived from T.
  template <class P>
  requires requires(P p) {
    typename P::deleter_type;
    { p.release() } -> std::convertible_to<T*>;
  }
  Owned(P other) : object_(other.release()) {}
  Owned(Owned&& other) noexcept : object_(other.release()) {}
  Owned& operator=(Owned other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() { delete object_; }
  // To a std::unique_ptr or std::shared_ptr.
  template <class P>
  requires std::same_as<typename P::element_type, T>
  operator P() && { return P(release()); }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  T* release() { return std::exchange(object_, nullptr); }

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
    if (object_) block_ = IntrusivePtr<Block>::adopt(new Held<P>(std::move(other)));
  }
  Shared(const Shared&) = default;
  Shared(Shared&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)), block_(std::move(other.block_)) {}
  Shared& operator=(Shared other) noexcept {
    std::swap(object_, other.object_);
    std::swap(block_, other.block_);
    return *this;
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  std::add_lvalue_reference_t<T> operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  struct Block {
    Atomic<int> refs{1};
    virtual ~Block() = default;
    static void destroy(Block* block) noexcept { delete block; }
  };
  template <class H> struct Held final : Block {
    template <class... Args>
    explicit Held(Args&&... args) : held(std::forward<Args>(args)...) {}
    H held;
  };
  Shared(T* object, Block* block) : object_(object), block_(IntrusivePtr<Block>::adopt(block)) {}

  T* object_ = nullptr;
  IntrusivePtr<Block> block_;
};

}  // namespace taper::inline v0
