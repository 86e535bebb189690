// Conversion of runs of elements between dtypes.
#pragma once

#include <cstdint>

#include "framework/dtype.h"

namespace taper::kernels::cpu {

// Converts n elements; strides are in elements. Rules are those of copy (framework/kernels/elementwise/copy.h).
using ConvertFn = void (*)(const void* src, int64_t src_stride, void* dst, int64_t dst_stride,
                           int64_t n);

ConvertFn converter(DType from, DType to);

}  // namespace taper::kernels::cpu
