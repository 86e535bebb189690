// Products of 16-bit matrices by one warp on the tensor cores (PTX's mma.m16n8k16, accumulating in
// float), and loads of their operands. Of an accumulator d, a lane owns the elements (row, column)
// (g, c), (g, c + 1), (g + 8, c) and (g + 8, c + 1), where g = lane / 4 and c = lane % 4 * 2.
// Requires compute capability 8.0; on older GPUs the functions do nothing.
#pragma once

#include <cstdint>
#include <type_traits>

#include "framework/base/half.h"
#include "framework/kernels/common/arithmetic.h"

namespace taper::v0::kernels::cuda {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr bool kTensorCores = false;
#else
inline constexpr bool kTensorCores = true;
#endif

// Packs two adjacent elements into one word, the first in the lower half.
template <class T> __device__ uint32_t pack(float first, float second) {
  uint32_t y = 0;
  if constexpr (!kTensorCores) {
  } else if constexpr (std::is_same_v<T, Half>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(second), "f"(first));
  }
  return y;
}

// Computes d += a * b, for a [16, 16] and the 8 columns of b that b0 and b1 hold.
template <class T>
__device__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (!kTensorCores) {
  } else if constexpr (std::is_same_v<T, Half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// Loads four 8 x 8 matrices of 16-bit elements from shared memory. Lane l passes the address of row
// l % 8 of matrix l / 8 (16 bytes, aligned). It receives the elements (g, c) and (g, c + 1) of each
// matrix, or (c, g) and (c + 1, g) from load_transposed.
__device__ inline void load_matrices(uint32_t (&r)[4], const void* row) {
  if constexpr (kTensorCores)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(uint32_t(__cvta_generic_to_shared(row)))
                 : "memory");
}
__device__ inline void load_transposed(uint32_t (&r)[4], const void* row) {
  if constexpr (kTensorCores)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(uint32_t(__cvta_generic_to_shared(row)))
                 : "memory");
}

// Returns 2 * bits + (word >= limit), where minus = -limit and limit > 0. The sum word + minus
// produces the carry.
__device__ inline uint32_t append_at_least(uint32_t bits, uint32_t word, uint32_t minus) {
  asm("{\n\t.reg .u32 sum;\n\tadd.cc.u32 sum, %1, %2;\n\taddc.u32 %0, %0, %0;\n\t}"
      : "+r"(bits)
      : "r"(word), "r"(minus));
  return bits;
}

// Starts an asynchronous copy to shared memory; copies zeros unless `exists`. Both addresses are
// aligned to kBytes.
template <int kBytes> __device__ void copy_async(void* to, const void* from, bool exists) {
  static_assert(kBytes == 4 || kBytes == 16);
  const uint32_t at = uint32_t(__cvta_generic_to_shared(to)), size = exists ? kBytes : 0;
  if constexpr (!kTensorCores) {
  } else if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(size)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(size)
                 : "memory");
  }
}
// Waits for all copies that this thread has started.
__device__ inline void wait_for_copies() {
  if constexpr (kTensorCores) asm volatile("cp.async.wait_all;" ::: "memory");
}

}  // namespace taper::v0::kernels::cuda
