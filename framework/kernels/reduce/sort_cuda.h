// Stable sorting of (key, number) pairs on the GPU, by CUB's radix sort.
#pragma once

#include <cstdint>

#include "framework/cuda/runtime.h"

namespace taper::kernels::cuda {

// Sorts n pairs by the low `bits` bits of their keys; equal keys keep their order, so the result is
// the same in every run. The input arrays are left as they were; outputs do not overlap them.
void sort_pairs(const taper::cuda::Launch& on, const uint64_t* keys, const int64_t* numbers,
                uint64_t* sorted_keys, int64_t* sorted_numbers, int64_t n, int bits);

}  // namespace taper::kernels::cuda
