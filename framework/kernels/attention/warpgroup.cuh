// Products of 16-bit matrices by a warpgroup of four warps on the tensor cores of compute
// capability 9.0 (PTX's wgmma, accumulating in float). Operands are tiles in shared memory, or
// registers for the first one. Products run asynchronously: begin_products() precedes them,
// commit_products() closes a group, and wait_for_products<n>() waits until at most n groups are
// unfinished. The accumulators and register operands may not be touched before that. Use all of
// this only in code that kHasWarpgroups guards.
#pragma once

#include <cstdint>
#include <type_traits>

#include "framework/kernels/attention/flash_parts.cuh"

namespace taper::v0::kernels::cuda::warpgroup {

// Whether the code is being compiled for sm_90a.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
inline constexpr bool kHasWarpgroups = true;
#else
inline constexpr bool kHasWarpgroups = false;
#endif

using flash::Part;

constexpr int kThreads = 128, kRows = 64;  // of a warpgroup, and of its first operands

// Rows of kD 16-bit elements in shared memory, in panels of 64 columns. The eight 16-byte pieces of
// a row of a panel are exchanged depending on the row ("128-byte swizzle"), so that eight rows of a
// column use different banks.
template <class T, int kD, int kTileRows> struct Tile {
  static constexpr int kPanels = kD / 64;
  static constexpr uint32_t kPanelBytes = kTileRows * 128;
  static_assert(sizeof(T) == 2 && kD % 64 == 0 && kTileRows % 8 == 0);
  alignas(1024) T at[kPanels][kTileRows][64];

  // Returns eight elements from a column on that is a multiple of 8.
  __device__ T* piece(int row, int column) {
    return at[column / 64][row] + ((column / 8 ^ row) % 8) * 8;
  }
};

// Returns the descriptor of an operand in a Tile, whose first piece is at `from`. panel: the bytes
// of a panel, for second operands whose rows are multiplied by columns of the first
// (start_applied()). Source: "Matrix Descriptor Format" of wgmma in NVIDIA's PTX ISA.
__device__ inline uint64_t descriptor(const void* from, uint32_t panel = 16) {
  constexpr uint64_t kStride = 1024;  // bytes from eight rows to the next eight
  constexpr uint64_t kSwizzle128 = uint64_t(1) << 62;
  const uint64_t address = uint32_t(__cvta_generic_to_shared(from));
  return (address & 0x3FFFF) >> 4 | uint64_t(panel >> 4) << 16 | (kStride >> 4) << 32 | kSwizzle128;
}

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Keeps the compiler from moving accesses of the accumulators across this place.
template <int kTiles> __device__ void hold(Part<kTiles>& d) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    asm volatile(""
                 : "+f"(d.at[n][0]), "+f"(d.at[n][1]), "+f"(d.at[n][2]),
                   "+f"(d.at[n][3])::"memory");
  }
}
template <int kUnfinished, class... Parts> __device__ void wait_for_products(Parts&... done) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kUnfinished) : "memory");
  (hold(done), ...);
}
// Makes shared memory as this thread sees it visible to the products that follow.
__device__ inline void publish_to_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Gives up or takes registers, so that each thread of this warpgroup has kCount, a multiple of 8.
template <int kCount> __device__ void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount> __device__ void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
// Synchronizes the threads of a warpgroup. Barrier 0 is that of the block.
__device__ inline void synchronize(int warpgroup) {
  asm volatile("bar.sync %0, %1;" ::"r"(warpgroup + 1), "n"(kThreads) : "memory");
}

// A barrier in shared memory. Its phases have numbers from 0, and end when all have arrived.
class Barrier {
 public:
  __device__ void start(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at()), "r"(arrivals) : "memory");
  }
  // Everything that the warp did before is visible to those who waited for the phase.
  __device__ void arrive() {
    __syncwarp();
    if (flash::lane() == 0) {
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at()) : "memory");
    }
  }
  // Lets this thread arrive when the copies that it has started are over. Counts like a warp.
  __device__ void arrive_after_copies() {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at()) : "memory");
  }
  __device__ void wait(uint32_t phase) {
    uint32_t done = 0;
    while (!done) {
      asm volatile(
          "{\n\t.reg .pred done;\n\t"
          "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n\t"
          "selp.u32 %0, 1, 0, done;\n\t}"
          : "=r"(done)
          : "r"(at()), "r"(phase & 1)
          : "memory");
    }
  }

 private:
  __device__ uint32_t at() { return uint32_t(__cvta_generic_to_shared(&word_)); }
  uint64_t word_;
};

// The registers of accumulators, for the operand lists below.
#define TAPER_D(d, n) "+f"(d.at[n][0]), "+f"(d.at[n][1]), "+f"(d.at[n][2]), "+f"(d.at[n][3])
#define TAPER_D4(d, n) TAPER_D(d, n), TAPER_D(d, n + 1), TAPER_D(d, n + 2), TAPER_D(d, n + 3)
#define TAPER_D8(d) TAPER_D4(d, 0), TAPER_D4(d, 4)
#define TAPER_D16(d) TAPER_D4(d, 0), TAPER_D4(d, 4), TAPER_D4(d, 8), TAPER_D4(d, 12)
#define TAPER_REGISTERS32                                                                       \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define TAPER_REGISTERS64                                                                       \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "  \
  "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "  \
  "%56, %57, %58, %59, %60, %61, %62, %63}"

// Computes d = a b^T, or d += a b^T if `keeps`, for 16 columns of both. a has 64 rows, b 8 kTiles.
template <class T, int kTiles>
__device__ void multiply(Part<kTiles>& d, uint64_t a, uint64_t b, int keeps) {
  static_assert(kTiles == 8 || kTiles == 16);
  if constexpr (kTiles == 8 && std::is_same_v<T, Half>) {
    asm volatile(
        "{\n\t.reg .pred keep;\n\tsetp.ne.b32 keep, %34, 0;\n\t"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " TAPER_REGISTERS32
        ", %32, %33, keep, 1, 1, 0, 0;\n\t}"
        : TAPER_D8(d)
        : "l"(a), "l"(b), "r"(keeps));
  } else if constexpr (kTiles == 8) {
    asm volatile(
        "{\n\t.reg .pred keep;\n\tsetp.ne.b32 keep, %34, 0;\n\t"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " TAPER_REGISTERS32
        ", %32, %33, keep, 1, 1, 0, 0;\n\t}"
        : TAPER_D8(d)
        : "l"(a), "l"(b), "r"(keeps));
  } else if constexpr (kTiles == 16 && std::is_same_v<T, Half>) {
    asm volatile(
        "{\n\t.reg .pred keep;\n\tsetp.ne.b32 keep, %66, 0;\n\t"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 " TAPER_REGISTERS64
        ", %64, %65, keep, 1, 1, 0, 0;\n\t}"
        : TAPER_D16(d)
        : "l"(a), "l"(b), "r"(keeps));
  } else {
    asm volatile(
        "{\n\t.reg .pred keep;\n\tsetp.ne.b32 keep, %66, 0;\n\t"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " TAPER_REGISTERS64
        ", %64, %65, keep, 1, 1, 0, 0;\n\t}"
        : TAPER_D16(d)
        : "l"(a), "l"(b), "r"(keeps));
  }
}
// Computes d += a b, for 16 columns of a (64 rows) in registers, as in mma(), and 16 rows of b,
// which has 8 kTiles columns.
template <class T, int kTiles>
__device__ void multiply(Part<kTiles>& d, const uint32_t (&a)[4], uint64_t b) {
  static_assert(kTiles == 8 || kTiles == 16);
  if constexpr (kTiles == 8 && std::is_same_v<T, Half>) {
    asm volatile(
        "{\n\t.reg .pred keep;\n\tsetp.ne.b32 keep, 1, 0;\n\t"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " TAPER_REGISTERS32
        ", {%32, %33, %34, %35}, %36, keep, 1, 1, 1;\n\t}"
        : TAPER_D8(d)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  } else if constexpr (kTiles == 8) {
    asm volatile(
        "{\n\t.reg .pred keep;\n\tsetp.ne.b32 keep, 1, 0;\n\t"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " TAPER_REGISTERS32
        ", {%32, %33, %34, %35}, %36, keep, 1, 1, 1;\n\t}"
        : TAPER_D8(d)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  } else if constexpr (kTiles == 16 && std::is_same_v<T, Half>) {
    asm volatile(
        "{\n\t.reg .pred keep;\n\tsetp.ne.b32 keep, 1, 0;\n\t"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 " TAPER_REGISTERS64
        ", {%64, %65, %66, %67}, %68, keep, 1, 1, 1;\n\t}"
        : TAPER_D16(d)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  } else {
    asm volatile(
        "{\n\t.reg .pred keep;\n\tsetp.ne.b32 keep, 1, 0;\n\t"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " TAPER_REGISTERS64
        ", {%64, %65, %66, %67}, %68, keep, 1, 1, 1;\n\t}"
        : TAPER_D16(d)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  }
}
#undef TAPER_D
#undef TAPER_D4
#undef TAPER_D8
#undef TAPER_D16
#undef TAPER_REGISTERS32
#undef TAPER_REGISTERS64

// Computes d = a b^T for the 64 rows of a from `row` on.
template <class T, int kD, int kRowsA, int kRowsB>
__device__ void start_products(Part<kRowsB / 8>& d, Tile<T, kD, kRowsA>& a, int row,
                               Tile<T, kD, kRowsB>& b) {
  const uint64_t first_a = descriptor(a.at[0][row]), first_b = descriptor(b.at[0][0]);
#pragma unroll
  for (int k = 0; k < kD; k += 16) {
    // The swizzle applies to whole addresses, so 16 columns are 32 bytes. Addresses are in 16
    // bytes.
    const int panel = k / 64, at = k % 64 / 8;
    multiply<T>(d, first_a + panel * a.kPanelBytes / 16 + at,
                first_b + panel * b.kPanelBytes / 16 + at, k > 0);
  }
}
// Computes d += p b, where p has been packed.
template <class T, int kD, int kTileRows>
__device__ void start_applied(Part<kD / 8>& d, const uint32_t (&p)[kTileRows / 16][4],
                              Tile<T, kD, kTileRows>& b) {
  const uint64_t first = descriptor(b.at[0][0], b.kPanelBytes);
#pragma unroll
  for (int k = 0; k < kTileRows / 16; ++k) multiply<T>(d, p[k], first + k * (16 * 128 / 16));
}

}  // namespace taper::v0::kernels::cuda::warpgroup
