// Storing rows of results in whatever dtype a tensor has; Reader in reduce/reduce_runs_cpu.h is its twin.
#pragma once

#include <cstdint>

#include "framework/kernels/elementwise/convert_cpu.h"
#include "framework/tensor.h"

namespace taper::kernels::cpu {

// Where results of type T go: in place, or into a buffer that store() converts.
template <class T> struct Writer {
  char* data;
  int64_t element;
  bool in_place;
  ConvertFn convert;

  Writer(const Tensor& y, DType as)
      : data(static_cast<char*>(y.data_ptr())),
        element(int64_t(y.element_size())),
        in_place(y.dtype() == as),
        convert(converter(as, y.dtype())) {}

  T* open(int64_t at, T* buffer) const {
    return in_place ? reinterpret_cast<T*>(data + at * element) : buffer;
  }
  void store(int64_t at, int64_t n, const T* row) const {
    if (!in_place) convert(row, 1, data + at * element, 1, n);
  }
};

}  // namespace taper::kernels::cpu
