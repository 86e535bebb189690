// Sizes and strides: up to eight dimensions kept in the object itself, so that making a tensor
// allocates nothing for its shape.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "framework/base/arguments.h"
#include "framework/base/error.h"

namespace taper::v0 {

inline constexpr int kMaxDims = 8;

// a * b and a + b for counts, strides, offsets and bytes that follow from what a caller wrote.
// Throw Error where 64 bits do not hold them. The sizes and strides of a tensor need no check.
[[noreturn]] void refuse_overflow(int64_t a, char op, int64_t b);
inline int64_t checked_mul(int64_t a, int64_t b) {
  int64_t out;
  if (__builtin_mul_overflow(a, b, &out)) [[unlikely]]
    refuse_overflow(a, '*', b);
  return out;
}
inline int64_t checked_add(int64_t a, int64_t b) {
  int64_t out;
  if (__builtin_add_overflow(a, b, &out)) [[unlikely]]
    refuse_overflow(a, '+', b);
  return out;
}
// For kernel sizes, strides, paddings and dilations, of which windows multiply two: throws Error
// beyond 32 bits.
void check_window_numbers(const char* op, std::initializer_list<int64_t> numbers);

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<IntArg> dims) : Shape(dims.begin(), dims.end()) {}
  // One dimension: zeros(3), sum(x, 1).
  template <std::convertible_to<IntArg> T> Shape(T dim) : size_(1), dims_{IntArg(dim)} {}
  Shape(std::span<const int64_t> dims) : Shape(dims.data(), dims.data() + dims.size()) {}
  template <class It> Shape(It first, It last) {
    for (; first != last; ++first) push_back(*first);
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // A negative place counts from the end. Throws IndexError where there is none.
  int64_t operator[](int i) const { return dims_[place(i)]; }
  int64_t& operator[](int i) { return dims_[place(i)]; }
  int64_t back() const { return (*this)[-1]; }
  const int64_t* begin() const { return dims_; }
  const int64_t* end() const { return dims_ + size_; }
  int64_t* begin() { return dims_; }
  int64_t* end() { return dims_ + size_; }
  operator std::span<const int64_t>() const { return {dims_, size_t(size_)}; }

  // Throws ValueError beyond kMaxDims.
  void push_back(int64_t dim) { insert(size_, dim); }
  void insert(int at, int64_t dim);
  void erase(int at);

  // The number of elements of a tensor of this shape: 1 without dimensions. Throws Error
  // beyond 64 bits.
  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < size_; ++i) {
      if (__builtin_mul_overflow(n, dims_[i], &n)) [[unlikely]]
        refuse_count();
    }
    return n;
  }
  // What a dense tensor of such elements takes. Throws Error for a negative size, and where this or
  // a stride could not be counted even if a size of 0 were 1: then no part of it needs a check.
  int64_t nbytes(size_t item) const;
  // The same, and none in place of an error.
  std::optional<int64_t> counted_bytes(size_t item) const;

  bool operator==(const Shape& other) const;

 private:
  int place(int i) const {
    const int at = i < 0 ? i + size_ : i;
    if (unsigned(at) >= unsigned(size_)) [[unlikely]]
      refuse_place(i);
    return at;
  }
  [[noreturn]] void refuse_place(int i) const;
  [[noreturn]] void refuse_count() const;

  int size_ = 0;
  int64_t dims_[kMaxDims];
};

// One number for each of two spatial dimensions (kernel sizes, strides, paddings), written 3 or
// {3, 5}: height first.
struct Pair {
  int64_t h = 0, w = 0;
  constexpr Pair() = default;
  template <std::convertible_to<IntArg> T> constexpr Pair(T both) : h(IntArg(both)), w(h) {}
  constexpr Pair(IntArg height, IntArg width) : h(height), w(width) {}
  constexpr bool operator==(const Pair& other) const { return h == other.h && w == other.w; }
};

// "[2, 3]", as PyTorch prints sizes in messages.
std::string to_string(const Shape& shape);

// Strides of a dense row-major tensor.
Shape contiguous_strides(const Shape& shape);
bool is_contiguous(const Shape& shape, const Shape& strides);
// True when the elements fill one block without holes or overlap, in whatever order of dimensions.
bool is_dense(const Shape& shape, const Shape& strides);

// Counts a negative dimension from the end. Throws IndexError in PyTorch's words when it is out of
// [-ndim, ndim - 1]; a 0-dim tensor accepts -1 and 0.
int wrap_dim(int64_t dim, int ndim);

// Returns the shape of an element-wise result. Throws Error in PyTorch's words, with the name of
// the op where one is given, when the sizes do not match.
Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op = nullptr);

// Fills in one -1 so that numel fits. Throws Error in PyTorch's words.
Shape infer_shape(const Shape& wanted, int64_t numel);

}  // namespace taper::v0
