// Products that are written into a given tensor, for sums of many products.
#pragma once

#include <cstdint>

#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// Writes a [m, k] times b [k, n] to `out` [m, n], which is dense, or adds it to the elements of
// `out`. `out` has the dtype of the operands. For half operands it can also be float32, so that a
// sum of several products is not rounded in between. Throws the errors of matmul().
enum class Into : bool { kReplace, kAdd };
void matmul_into(const Tensor& out, const Tensor& a, const Tensor& b, Into into);

namespace cuda {
// Returns the number of rows with which a large product of half types, in tiles of 128 x 256, uses
// every multiprocessor once. Returns 0 if the columns alone need more.
int64_t rows_of_full_wave(int64_t columns, int device);
}  // namespace cuda

}  // namespace taper::v0::kernels
