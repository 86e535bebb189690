// Conversion of runs of elements between dtypes; reading and storing them as one type.
#pragma once

#include <cstdint>

#include "framework/tensor/tensor.h"

namespace taper::v0::kernels::cpu {

// Converts n elements; strides are in elements. Rules are those of copy
// (framework/kernels/elementwise/copy.h).
using ConvertFn = void (*)(const void* src, int64_t src_stride, void* dst, int64_t dst_stride,
                           int64_t n);

ConvertFn converter(DType from, DType to);

// Elements of a dense tensor that are converted unless they are of the dtype already.
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

// Elements of x as T: where they are, or converted into a buffer.
template <class T> struct Reader : Elements {
  Reader(const Tensor& x, DType as) : Elements(x, as, converter(x.dtype(), as)) {}

  const T* read(int64_t at, int64_t n, T* buffer) const {
    const char* source = data + at * element;
    if (in_place) return reinterpret_cast<const T*>(source);
    convert(source, 1, buffer, 1, n);
    return buffer;
  }
};

// Where results of type T go: in place, or into a buffer that store() converts.
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
};

}  // namespace taper::v0::kernels::cpu
