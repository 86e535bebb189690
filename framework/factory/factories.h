// Functions that create tensors. Names and defaults are PyTorch's
// (https://pytorch.org/docs/stable/torch.html#creation-ops).
#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "framework/factory/generator.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

// Nested values for tensor(): numbers, or lists of equal length. All integers give int64, all bools
// give bool, and any floating-point number gives float32.
class TensorData {
 public:
  TensorData(Scalar value);
  template <class T>
  requires std::is_arithmetic_v<T> TensorData(T value) : TensorData(Scalar(value)) {}
  // Throws ValueError if the parts differ in shape.
  TensorData(std::initializer_list<TensorData> parts);
  template <class T>
  requires std::is_arithmetic_v<T> TensorData(const std::vector<T>& values)
      : shape_{int64_t(values.size())},
        values_(values.begin(), values.end()),
        dtype_(std::is_floating_point_v<T> ? kFloat64
               : std::is_same_v<T, bool>   ? kBool
                                           : kInt64) {}

  const Shape& shape() const { return shape_; }
  const std::vector<Scalar>& values() const { return values_; }
  // Returns the kind of the values. kFloat64 represents any floating-point type.
  DType dtype() const { return values_.empty() ? dtype_ : widest(); }

 private:
  DType widest() const;

  Shape shape_;
  std::vector<Scalar> values_;
  DType dtype_ = kFloat64;
};

Tensor tensor(const TensorData& data, TensorOptions options = {});
// Returns a tensor with a copy of the elements. The dtype is that of T unless options set another.
// Throws ValueError for null.
template <class T> Tensor tensor_of(const T* data, const Shape& shape, TensorOptions options = {});

// Returns a tensor over the caller's memory without a copy, on options.device. Strides count
// elements; without them the tensor is contiguous. The memory must remain valid until the last
// tensor that uses it is destroyed, which calls deleter(data). Throws ValueError for null and for a
// negative size or stride.
using BlobDeleter = std::function<void(void* data)>;
Tensor from_blob(void* data, const Shape& sizes, TensorOptions options = {});
Tensor from_blob(void* data, const Shape& sizes, BlobDeleter deleter, TensorOptions options = {});
Tensor from_blob(void* data, const Shape& sizes, const Shape& strides, TensorOptions options = {});
Tensor from_blob(void* data, const Shape& sizes, const Shape& strides, BlobDeleter deleter,
                 TensorOptions options = {});

// Returns an uninitialized tensor. Throws Error for requires_grad with an integer dtype: "Only
// Tensors of floating point ...".
Tensor empty(const Shape& shape, TensorOptions options = {});
Tensor zeros(const Shape& shape, TensorOptions options = {});
Tensor ones(const Shape& shape, TensorOptions options = {});
// Returns a tensor filled with the value. The default dtype follows from the value: bool, int64 or
// float32.
Tensor full(const Shape& shape, Scalar value, TensorOptions options = {});
// Returns start, start + step, ... up to but excluding end. The dtype is int64 if all arguments are
// integers, otherwise float32.
Tensor arange(Scalar end, TensorOptions options = {});
Tensor arange(Scalar start, Scalar end, Scalar step = 1, TensorOptions options = {});
// Returns `steps` values from start to end, including both.
Tensor linspace(RealArg start, RealArg end, IntArg steps, TensorOptions options = {});
// Returns a matrix [n, n] or [n, m] with ones on its main diagonal and zeros elsewhere.
Tensor eye(IntArg n, TensorOptions options = {});
Tensor eye(IntArg n, IntArg m, TensorOptions options = {});
// Return the indices [2, k] of the elements of a matrix [row, col] on and below (tril) or above
// (triu) a diagonal, row by row. The first line has the rows and the second the columns. The dtype
// is int64, or int32 if options say so.
//
//   x.index({triu_indices(3, 3)[0], triu_indices(3, 3)[1]});  // [6]
Tensor tril_indices(IntArg row, IntArg col, IntArg offset = 0, TensorOptions options = {});
Tensor triu_indices(IntArg row, IntArg col, IntArg offset = 0, TensorOptions options = {});

// The following functions draw from the given generator, or from default_generator(). The bits are
// the same on every device.
Tensor rand(const Shape& shape, TensorOptions options = {}, Generator* generator = nullptr);
Tensor randn(const Shape& shape, TensorOptions options = {}, Generator* generator = nullptr);
Tensor normal(RealArg mean, RealArg std, const Shape& shape, TensorOptions options = {},
              Generator* generator = nullptr);
// Returns integers in [low, high), of dtype int64 unless options set another.
Tensor randint(IntArg low, IntArg high, const Shape& shape, TensorOptions options = {},
               Generator* generator = nullptr);
Tensor randperm(IntArg n, TensorOptions options = {}, Generator* generator = nullptr);

// The following functions return a tensor on x's device and with x's dtype.
Tensor empty_like(const Tensor& x);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, Scalar value);
Tensor rand_like(const Tensor& x, Generator* generator = nullptr);
Tensor randn_like(const Tensor& x, Generator* generator = nullptr);

// Returns a number as a CPU tensor without dimensions that takes part in type promotion like a
// number.
Tensor wrap_scalar(Scalar value);

// --- definitions ---
Tensor tensor_from_bytes(const void* data, DType dtype, const Shape& shape, TensorOptions options);
template <class T> Tensor tensor_of(const T* data, const Shape& shape, TensorOptions options) {
  return tensor_from_bytes(data, dtype_of<T>, shape, options);
}

}  // namespace taper::v0
