// Products of float matrices on one thread.
#pragma once

#include "framework/kernels/matmul/matmul.h"

namespace taper::kernels::cpu {

// C (=, or as g.beta says) of one matrix (no batch), plus `bias` [n] on every row where not null.
// k is not 0. An element is a chain of fused multiply-adds in the order of k, in blocks whose size
// depends on k alone: a part of C has the bits that it has within the whole, and AVX2 and AVX-512
// give the same.
void sgemm(const Gemm& g, const float* a, const float* b, float* c, const float* bias = nullptr);

}  // namespace taper::kernels::cpu
