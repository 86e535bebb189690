// Making tensors. Names and defaults are PyTorch's
// (https://pytorch.org/docs/stable/torch.html#creation-ops).
#pragma once

#include <initializer_list>
#include <vector>

#include "framework/callable.h"
#include "framework/factory/generator.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

// Nested values for tensor(): numbers or lists of equal length. Numbers that are all integers give
// int64, all bools give bool, any float gives float32.
class TensorData {
 public:
  TensorData(Scalar value);
  template <class T>
  requires std::is_arithmetic_v<T> TensorData(T value) : TensorData(Scalar(value)) {}
  // Throws ValueError when the parts differ in shape.
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
  // kFloat64 stands for "some float".
  DType dtype() const { return values_.empty() ? dtype_ : widest(); }

 private:
  DType widest() const;

  Shape shape_;
  std::vector<Scalar> values_;
  DType dtype_ = kFloat64;
};

Tensor tensor(const TensorData& data, TensorOptions options = {});
// A copy of the elements; the dtype is theirs unless options say otherwise. ValueError: null.
template <class T> Tensor tensor_of(const T* data, const Shape& shape, TensorOptions options = {});

// The caller's memory, not copied: on options.device, of strides counted in elements (else dense).
// It must live until the last tensor on it goes, which calls deleter(data). ValueError for a
// negative size or stride, and for null.
using BlobDeleter = Callable<void(void* data)>;
Tensor from_blob(void* data, const Shape& sizes, TensorOptions options = {});
Tensor from_blob(void* data, const Shape& sizes, BlobDeleter deleter, TensorOptions options = {});
Tensor from_blob(void* data, const Shape& sizes, const Shape& strides, TensorOptions options = {});
Tensor from_blob(void* data, const Shape& sizes, const Shape& strides, BlobDeleter deleter,
                 TensorOptions options = {});

// requires_grad is refused for integers: "Only Tensors of floating point ...".
Tensor empty(const Shape& shape, TensorOptions options = {});
Tensor zeros(const Shape& shape, TensorOptions options = {});
Tensor ones(const Shape& shape, TensorOptions options = {});
// The dtype follows the value: bool, int64 or float32.
Tensor full(const Shape& shape, Scalar value, TensorOptions options = {});
// start, start + step, ... below end; int64 when all are integers, else float32.
Tensor arange(Scalar end, TensorOptions options = {});
Tensor arange(Scalar start, Scalar end, Scalar step = 1, TensorOptions options = {});
// `steps` values from start to end, both included.
Tensor linspace(RealArg start, RealArg end, IntArg steps, TensorOptions options = {});
Tensor eye(IntArg n, TensorOptions options = {});

// Drawn from the generator given, else from default_generator(): equal bits on every device.
Tensor rand(const Shape& shape, TensorOptions options = {}, Generator* generator = nullptr);
Tensor randn(const Shape& shape, TensorOptions options = {}, Generator* generator = nullptr);
Tensor normal(RealArg mean, RealArg std, const Shape& shape, TensorOptions options = {},
              Generator* generator = nullptr);
// Integers in [low, high); int64 unless options say otherwise.
Tensor randint(IntArg low, IntArg high, const Shape& shape, TensorOptions options = {},
               Generator* generator = nullptr);
Tensor randperm(IntArg n, TensorOptions options = {}, Generator* generator = nullptr);

// On x's device and with its dtype.
Tensor empty_like(const Tensor& x);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, Scalar value);
Tensor rand_like(const Tensor& x, Generator* generator = nullptr);
Tensor randn_like(const Tensor& x, Generator* generator = nullptr);

// A number as a 0-dim CPU tensor that promotes like a number.
Tensor wrap_scalar(Scalar value);

// --- definitions ---
Tensor tensor_from_bytes(const void* data, DType dtype, const Shape& shape, TensorOptions options);
template <class T> Tensor tensor_of(const T* data, const Shape& shape, TensorOptions options) {
  return tensor_from_bytes(data, dtype_of<T>, shape, options);
}

}  // namespace taper::v0
