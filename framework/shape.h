// Sizes and strides: up to eight dimensions kept in the object itself, so that making a tensor
// allocates nothing for its shape.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "framework/error.h"

namespace taper {

inline constexpr int kMaxDims = 8;

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(dims.begin(), dims.end()) {}
  Shape(std::span<const int64_t> dims) : Shape(dims.data(), dims.data() + dims.size()) {}
  template <class It> Shape(It first, It last) {
    for (; first != last; ++first) push_back(*first);
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t operator[](int i) const { return dims_[i]; }
  int64_t& operator[](int i) { return dims_[i]; }
  int64_t back() const { return dims_[size_ - 1]; }
  const int64_t* begin() const { return dims_; }
  const int64_t* end() const { return dims_ + size_; }
  int64_t* begin() { return dims_; }
  int64_t* end() { return dims_ + size_; }
  operator std::span<const int64_t>() const { return {dims_, size_t(size_)}; }

  // Throws ValueError beyond kMaxDims.
  void push_back(int64_t dim) { insert(size_, dim); }
  void insert(int at, int64_t dim);
  void erase(int at);

  // The number of elements of a tensor of this shape: 1 without dimensions.
  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < size_; ++i) n *= dims_[i];
    return n;
  }

  bool operator==(const Shape& other) const;

 private:
  int size_ = 0;
  int64_t dims_[kMaxDims];
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

// The shape of an element-wise result. Throws Error in PyTorch's words when sizes do not match.
Shape broadcast_shapes(const Shape& a, const Shape& b);

// Fills in one -1 so that numel fits. Throws Error in PyTorch's words.
Shape infer_shape(const Shape& wanted, int64_t numel);

}  // namespace taper
