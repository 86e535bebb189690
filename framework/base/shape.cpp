#include "framework/base/shape.h"

#include <algorithm>

namespace taper::v0 {

void refuse_overflow(int64_t a, char op, int64_t b) {
  throw Error("integer ", op == '*' ? "multiplication" : "addition", " overflow: ", a, " ", op, " ",
              b, " is beyond 64 bits");
}

void check_window_numbers(const char* op, std::initializer_list<int64_t> numbers) {
  for (const int64_t n : numbers) {
    if (n == int32_t(n)) continue;
    throw Error("integer out of range (", op, " got ", n, ", beyond 32 bits)");
  }
}

void Shape::refuse_place(int i) const {
  throw IndexError("a shape ", *this, " has no dimension ", i);
}

void Shape::refuse_count() const {
  throw Error("Storage size calculation overflowed with sizes=", *this);
}

std::optional<int64_t> Shape::try_nbytes(size_t item) const {
  int64_t most = int64_t(item);
  bool none = false;
  for (const int64_t n : *this) {
    none = none || n == 0;
    if (n < 0 || __builtin_mul_overflow(most, std::max<int64_t>(n, 1), &most)) return std::nullopt;
  }
  return none ? 0 : most;
}

int64_t Shape::nbytes(size_t item) const {
  if (const auto counted = try_nbytes(item)) return *counted;
  for (const int64_t n : *this) {
    if (n >= 0) continue;
    throw Error("Trying to create tensor with negative dimension ", n, ": ", *this);
  }
  refuse_count();
}

void Shape::insert(int at, int64_t dim) {
  if (size_ == kMaxDims) {
    throw ValueError("a tensor has at most ", kMaxDims, " dimensions, got ", size_ + 1);
  }
  for (int i = size_; i > at; --i) dims_[i] = dims_[i - 1];
  dims_[at] = dim;
  ++size_;
}

void Shape::erase(int at) {
  for (int i = at; i + 1 < size_; ++i) dims_[i] = dims_[i + 1];
  --size_;
}

bool Shape::operator==(const Shape& other) const {
  return size_ == other.size_ && std::equal(begin(), end(), other.begin());
}

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (int i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ", ";
    append_to(out, shape[i]);
  }
  return out + "]";
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  int64_t step = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    strides[i] = step;
    step = checked_mul(step, std::max<int64_t>(shape[i], 1));
  }
  return strides;
}

bool is_contiguous(const Shape& shape, const Shape& strides) {
  if (shape.numel() == 0) return true;
  int64_t step = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    if (shape[i] == 1) continue;
    if (strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

bool is_dense(const Shape& shape, const Shape& strides) {
  if (is_contiguous(shape, strides)) return true;
  // In memory order, each stride must equal the number of elements of the dimensions inside it.
  const int64_t numel = shape.numel();
  int64_t step = 1;
  for (int found = 0; step < numel && found < shape.size(); ++found) {
    int next = -1;
    for (int i = 0; i < shape.size(); ++i) {
      if (shape[i] != 1 && strides[i] == step) next = i;
    }
    if (next < 0) return false;
    step *= shape[next];
  }
  return step == numel;
}

int wrap_dim(int64_t dim, int ndim) {
  const int64_t n = std::max(ndim, 1);
  if (dim < -n || dim >= n) {
    throw IndexError("Dimension out of range (expected to be in range of [", -n, ", ", n - 1,
                     "], but got ", dim, ")");
  }
  return int(dim < 0 ? dim + n : dim);
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op) {
  if (a == b) return a;
  const Shape& longer = a.size() >= b.size() ? a : b;
  Shape out = longer;
  for (int i = 1; i <= longer.size(); ++i) {
    const int64_t m = i <= a.size() ? a[a.size() - i] : 1;
    const int64_t n = i <= b.size() ? b[b.size() - i] : 1;
    if (m != n && m != 1 && n != 1) {
      throw Error("The size of tensor a (", m, ") must match the size of tensor b (", n,
                  ") at non-singleton dimension ", longer.size() - i, " (shapes ", a, " and ", b,
                  op ? ", in " : "", op ? op : "", ")");
    }
    out[out.size() - i] = m == 1 ? n : m;
  }
  return out;
}

Shape infer_shape(const Shape& wanted, int64_t numel) {
  Shape shape = wanted;
  int unknown = -1;
  int64_t known = 1;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      if (unknown >= 0) throw Error("only one dimension can be inferred");
      unknown = i;
    } else if (shape[i] < 0) {
      throw Error("invalid shape dimension ", shape[i]);
    } else {
      known = checked_mul(known, shape[i]);
    }
  }
  require(unknown < 0 || known != 0, "cannot reshape tensor of ", numel, " elements into shape ",
          wanted, " because the unspecified dimension size -1 can be any value and is ambiguous");
  if (unknown >= 0 && numel % known == 0) {
    shape[unknown] = numel / known;
    known = numel;
  }
  require(known == numel, "shape '", wanted, "' is invalid for input of size ", numel);
  return shape;
}

}  // namespace taper::v0
