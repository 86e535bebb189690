// Conversion of arrays between dtypes, and access to tensors as one type.
#pragma once

#include <cstdint>

#include "framework/tensor/tensor.h"

namespace taper::v0::kernels::cpu {

// Converts n elements. Strides are in elements. framework/kernels/elementwise/copy.h states how
// values are rounded and saturated.
using ConvertFn = void (*)(const void* src, int64_t src_stride, void* dst, int64_t dst_stride,
                           int64_t n);

ConvertFn converter(DType from, DType to);

// The elements of a dense tensor, converted unless they already have the requested dtype.
struct Elements {
  char* data;
  int64_t element;
  bool in_place;
  ConvertFn convert;

  Elements(const Tensor& x, DType as, ConvertFn by)
      : data(static_cast<char*>(x.data_ptr())),
        element(int64_t(x.element_size())),
        in_place(x.dtype() == as),
        convert(by) {}
};

// Reads elements of x as T: directly from x, or converted into a buffer.
template <class T> struct Reader : Elements {
  Reader(const Tensor& x, DType as) : Elements(x, as, converter(x.dtype(), as)) {}

  const T* read(int64_t at, int64_t n, T* buffer) const {
    const char* source = data + at * element;
    if (in_place) return reinterpret_cast<const T*>(source);
    convert(source, 1, buffer, 1, n);
    return buffer;
  }
};

// Writes results of type T: directly to y, or to a buffer that store() converts.
template <class T> struct Writer : Elements {
  Writer(const Tensor& y, DType as) : Elements(y, as, converter(as, y.dtype())) {}

  T* open(int64_t at, T* buffer) const {
    return in_place ? reinterpret_cast<T*>(data + at * element) : buffer;
  }
  void store(int64_t at, int64_t n, const T* row) const {
    if (!in_place) write(at, n, row);
  }
  void write(int64_t at, int64_t n, const T* row) const {
    convert(row, 1, data + at * element, 1, n);
  }
  void write_one(int64_t at, T value) const {
    *open(at, &value) = value;
    store(at, 1, &value);
  }
};

}  // namespace taper::v0::kernels::cpu
