// Sizes and strides. Up to eight dimensions are stored in the object itself, so that a new tensor
// allocates no memory for its shape.
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

// Compute a * b and a + b for counts, strides, offsets and bytes that depend on the caller's
// numbers. Throw Error on 64-bit overflow. Sizes and strides of an existing tensor need no check.
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
// Throws Error if a kernel size, stride, padding or dilation exceeds 32 bits, because window
// computations multiply two of them.
void check_window_numbers(const char* op, std::initializer_list<int64_t> numbers);

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<IntArg> dims) : Shape(dims.begin(), dims.end()) {}
  // Converts a single dimension: zeros(3), sum(x, 1).
  template <std::convertible_to<IntArg> T> Shape(T dim) : size_(1), dims_{IntArg(dim)} {}
  Shape(std::span<const int64_t> dims) : Shape(dims.data(), dims.data() + dims.size()) {}
  template <class It> Shape(It first, It last) {
    for (; first != last; ++first) push_back(*first);
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Returns a size. A negative index counts from the end. Throws IndexError if there is no such
  // dimension.
  int64_t operator[](int i) const { return dims_[place(i)]; }
  int64_t& operator[](int i) { return dims_[place(i)]; }
  int64_t back() const { return (*this)[-1]; }
  const int64_t* begin() const { return dims_; }
  const int64_t* end() const { return dims_ + size_; }
  int64_t* begin() { return dims_; }
  int64_t* end() { return dims_ + size_; }
  operator std::span<const int64_t>() const { return {dims_, size_t(size_)}; }

  // Throws ValueError beyond kMaxDims dimensions.
  void push_back(int64_t dim) { insert(size_, dim); }
  void insert(int at, int64_t dim);
  void erase(int at);

  // Returns the number of elements of a tensor of this shape: 1 for no dimensions. Throws Error on
  // 64-bit overflow.
  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < size_; ++i) {
      if (__builtin_mul_overflow(n, dims_[i], &n)) [[unlikely]]
        refuse_count();
    }
    return n;
  }
  // Returns the number of bytes of a contiguous tensor. Throws Error for negative sizes and on
  // overflow. Sizes of 0 count as 1 in this check, so strides cannot overflow either.
  int64_t nbytes(size_t item) const;
  // Like nbytes(), but returns std::nullopt instead of throwing.
  std::optional<int64_t> try_nbytes(size_t item) const;

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

// One number for each of two spatial dimensions (kernel sizes, strides, paddings), written 3 or {3,
// 5}. The height comes first.
struct Pair {
  int64_t h = 0, w = 0;
  constexpr Pair() = default;
  template <std::convertible_to<IntArg> T> constexpr Pair(T both) : h(IntArg(both)), w(h) {}
  constexpr Pair(IntArg height, IntArg width) : h(height), w(width) {}
  constexpr bool operator==(const Pair& other) const { return h == other.h && w == other.w; }
};

// One number for each of three spatial dimensions, written 3 or {3, 5, 7}. The depth comes first.
struct Triple {
  int64_t d = 0, h = 0, w = 0;
  constexpr Triple() = default;
  template <std::convertible_to<IntArg> T> constexpr Triple(T all) : d(IntArg(all)), h(d), w(d) {}
  constexpr Triple(IntArg depth, IntArg height, IntArg width) : d(depth), h(height), w(width) {}
  constexpr bool operator==(const Triple&) const = default;
};

// Returns "[2, 3]", PyTorch's form of sizes in messages.
std::string to_string(const Shape& shape);

// Returns the strides of a contiguous (row-major) tensor.
Shape contiguous_strides(const Shape& shape);
bool is_contiguous(const Shape& shape, const Shape& strides);
// Returns true if the elements fill one block without gaps or overlap, in any order of dimensions.
bool is_dense(const Shape& shape, const Shape& strides);

// Counts a negative dimension from the end. Throws IndexError with PyTorch's message if it is
// outside of [-ndim, ndim - 1]. A tensor without dimensions accepts -1 and 0.
int wrap_dim(int64_t dim, int ndim);

// Returns the shape of an element-wise result. Throws Error with PyTorch's message, and the op's
// name if it is given, if the sizes do not match.
Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op = nullptr);

// Replaces one -1 so that the number of elements is numel. Throws Error with PyTorch's message if
// that is impossible.
Shape infer_shape(const Shape& wanted, int64_t numel);

}  // namespace taper::v0
