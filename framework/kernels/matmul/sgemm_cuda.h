// Own kernels for small float32 products.
#pragma once

#include "framework/kernels/matmul/matmul.h"

namespace taper::kernels::cuda {

// C = activation(op(A) op(B) + bias) where the product is one for which this is faster than
// cuBLASLt: a fixed rule of sizes and layout. Does nothing and returns false elsewhere.
bool small_gemm(const Gemm& g, const void* a, const void* b, void* c, const Epilogue& then);

}  // namespace taper::kernels::cuda
