// Names from PyTorch's first years that its tutorials still use: FloatTensor(2), cuda.LongTensor,
// Variable (https://pytorch.org/docs/stable/tensors.html#data-types). New code uses empty() and
// tensor().
#pragma once

#include <concepts>
#include <initializer_list>

#include "framework/factory/factories.h"

namespace taper::v0 {

// Creates tensors of one dtype on one device, with the syntax of a constructor.
struct TensorType {
  DType dtype;
  DeviceType device = DeviceType::kCpu;

  // Returns an uninitialized tensor: FloatTensor(2, 3) has the shape [2, 3], FloatTensor() the
  // shape [0]. Throws for a negative size like empty().
  template <std::convertible_to<IntArg>... Sizes> Tensor operator()(Sizes... sizes) const {
    if constexpr (sizeof...(sizes) == 0) return operator()(Shape{0});
    return operator()(Shape{IntArg(sizes)...});
  }
  Tensor operator()(const Shape& shape) const {
    return empty(shape, {.dtype = dtype, .device = device});
  }
  // Returns a tensor of the given values: FloatTensor({2, 3}) is [2., 3.].
  Tensor operator()(std::initializer_list<TensorData> values) const {
    return tensor(TensorData(values), {.dtype = dtype, .device = device});
  }
};

inline constexpr TensorType FloatTensor{kFloat32}, DoubleTensor{kFloat64}, HalfTensor{kFloat16},
    BFloat16Tensor{kBFloat16}, LongTensor{kInt64}, IntTensor{kInt32}, ShortTensor{kInt16},
    CharTensor{kInt8}, ByteTensor{kUInt8}, BoolTensor{kBool};

namespace cuda {

inline constexpr TensorType FloatTensor{kFloat32, DeviceType::kCuda},
    DoubleTensor{kFloat64, DeviceType::kCuda}, HalfTensor{kFloat16, DeviceType::kCuda},
    BFloat16Tensor{kBFloat16, DeviceType::kCuda}, LongTensor{kInt64, DeviceType::kCuda},
    IntTensor{kInt32, DeviceType::kCuda}, ShortTensor{kInt16, DeviceType::kCuda},
    CharTensor{kInt8, DeviceType::kCuda}, ByteTensor{kUInt8, DeviceType::kCuda},
    BoolTensor{kBool, DeviceType::kCuda};

}  // namespace cuda

// Tensors have been Variables since PyTorch 0.4.
using Variable = Tensor;

}  // namespace taper::v0
