// Small float32 products on the FMA units, for sizes where cuBLASLt's kernels mostly wait for
// memory. Computes C = activation(op(A) op(B) + bias). A block computes one tile of C. Each of its
// warps sums a part of k with a separate pipeline of copies, so no warp waits for another before
// the end. The blocks of a cluster may divide k further. Partial sums are combined in a fixed
// order: of warps through shared memory, of blocks through the cluster's distributed shared memory.
#pragma once

#include <cstdint>

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/common/tensor_core.cuh"
#include "framework/kernels/elementwise/activation_functors.h"

namespace taper::v0::kernels::cuda {

struct SgemmArgs {
  const float *a, *b, *bias;
  float *c, *before;
  int m, n, k;
  int k_of_warp;             // k per warp, a multiple of 4
  int of_warp;               // floats per warp in shared memory
  int64_t lda, ldb;          // C is dense
  bool vec_a, vec_b, vec_c;  // rows can be accessed in 16-byte pieces
  Activation activation = Activation::kNone;
};

// A block computes kM x kN elements of C. Each of its kWarps warps computes all of them for its own
// part of k. A thread computes kTm x kTn elements. A warp has kStages stages in shared memory, each
// with kK steps of k. The registers of a multiprocessor must be sufficient for kResident blocks.
template <int M, int N, int Tm, int Tn, int Warps, int K, int Stages, int Resident = 1>
struct SgemmTile {
  static constexpr int kM = M, kN = N, kTm = Tm, kTn = Tn, kWarps = Warps, kK = K, kStages = Stages,
                       kThreads = 32 * Warps, kResident = Resident;
  static constexpr int kStage = (M + N) * (K + 4);  // floats
  static constexpr int kRow = N + 8;    // length of a row of partial sums, which avoids bank
                                        // conflicts of stores
  static constexpr int kMaxBlocks = 8;  // maximum number of blocks in a cluster
  // If k is small, not all stages are needed, and more blocks fit on a multiprocessor.
  static constexpr int of_warp(int k) {
    const int stages = k > (Stages - 1) * K ? Stages : (k + K - 1) / K;
    return stages * kStage > M * kRow ? stages * kStage : M * kRow;
  }
  // Returns the size of shared memory. The data that the other blocks of a cluster send have their
  // own space after that of the warps, because those blocks may finish before this one.
  static constexpr int shared_bytes(int k, int blocks) {
    return (Warps * of_warp(k) + (blocks > 1 ? M * N + 4 * kMaxBlocks : 0)) * 4;
  }
  static_assert(N / Tn == 8 && M / Tm == 4, "lanes lie 4 x 8 over C");
};

// One operand as a warp reads it: `rows` rows (of C's rows or columns) by k. It is stored as
// [row][k] if kAlongK, otherwise as [k][row], and in the same way in shared memory. Elements out of
// bounds become 0.
template <class Tile, int kRows, bool kAlongK> struct SgemmOperand {
  static constexpr int kLd = kAlongK ? Tile::kK + 4 : kRows;
  static constexpr int kInner = kAlongK ? Tile::kK : kRows;
  static constexpr int kOuter = kAlongK ? kRows : Tile::kK;

  const float* x;
  int64_t ld;
  int row0, rows;
  bool vec;

  template <int kWidth> __device__ void load_by(float* to, int k0, int k_end) const {
    constexpr int kPieces = kInner / kWidth * kOuter;
    static_assert(kPieces % 32 == 0);
#pragma unroll
    for (int first = 0; first < kPieces; first += 32) {
      const int p = first + int(threadIdx.x) % 32;
      const int outer = p / (kInner / kWidth), inner = p % (kInner / kWidth) * kWidth;
      const int row = row0 + (kAlongK ? outer : inner), k = k0 + (kAlongK ? inner : outer);
      const bool valid = row < rows && k < k_end;
      const float* from = x + (kAlongK ? row * ld + k : k * ld + row);
      copy_async<kWidth * 4>(to + outer * kLd + inner, valid ? from : x, valid);
    }
  }
  __device__ void load(float* to, int k0, int k_end) const {
    vec ? load_by<4>(to, k0, k_end) : load_by<1>(to, k0, k_end);
  }

  // Returns row i of a thread. A thread's rows are interleaved with those of others if rows are
  // read one by one, and adjacent in groups of four otherwise.
  template <int kOfThread> static __device__ int row_of(int thread, int i) {
    constexpr int kThreadsAcross = kRows / kOfThread;
    if constexpr (kAlongK) return thread + i * kThreadsAcross;
    return i / 4 * (4 * kThreadsAcross) + thread * 4 + i % 4;
  }
  // Reads four steps of k for these rows.
  template <int kOfThread>
  static __device__ void read(float (&to)[4][kOfThread], const float* from, int k, int thread) {
    if constexpr (kAlongK) {
#pragma unroll
      for (int i = 0; i < kOfThread; ++i) {
        const float4 v =
            *reinterpret_cast<const float4*>(from + row_of<kOfThread>(thread, i) * kLd + k);
        to[0][i] = v.x, to[1][i] = v.y, to[2][i] = v.z, to[3][i] = v.w;
      }
    } else {
#pragma unroll
      for (int q = 0; q < 4; ++q) {
#pragma unroll
        for (int i = 0; i < kOfThread; i += 4) {
          const float4 v =
              *reinterpret_cast<const float4*>(from + (k + q) * kLd + row_of<kOfThread>(thread, i));
          to[q][i] = v.x, to[q][i + 1] = v.y, to[q][i + 2] = v.z, to[q][i + 3] = v.w;
        }
      }
    }
  }
};

__device__ inline float4 plus4(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// Stores four adjacent elements of a row of C.
__device__ inline void sgemm_store(const SgemmArgs& args, int row, int column, float4 sum) {
  if (row >= args.m || column >= args.n) return;
  const float z4[4] = {sum.x, sum.y, sum.z, sum.w};
  const int64_t at = int64_t(row) * args.n + column;
  visit(args.activation, [&](auto f) {
    float z[4], y[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      z[j] = z4[j] + (args.bias && column + j < args.n ? args.bias[column + j] : 0.0f);
      y[j] = f(z[j]);
    }
    if (args.vec_c) {
      *reinterpret_cast<float4*>(args.c + at) = make_float4(y[0], y[1], y[2], y[3]);
      if (args.before) {
        *reinterpret_cast<float4*>(args.before + at) = make_float4(z[0], z[1], z[2], z[3]);
      }
      return;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (column + j >= args.n) break;
      args.c[at + j] = y[j];
      if (args.before) args.before[at + j] = z[j];
    }
  });
}

// The grid is (blocks of a cluster, columns / kN, rows / kM), and a cluster is (gridDim.x, 1, 1).
template <class Tile, bool kAlongA, bool kAlongB>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kResident)
    sgemm_kernel(const __grid_constant__ SgemmArgs args) {
  begin_long_kernel();
#if __CUDA_ARCH__ >= 900
  namespace cg = cooperative_groups;
  constexpr int kTm = Tile::kTm, kTn = Tile::kTn, kK = Tile::kK, kStages = Tile::kStages;
  using A = SgemmOperand<Tile, Tile::kM, kAlongA>;
  using B = SgemmOperand<Tile, Tile::kN, kAlongB>;
  extern __shared__ __align__(16) float shared[];
  const cg::cluster_group cluster = cg::this_cluster();
  const int blocks = int(gridDim.x), block = int(blockIdx.x);
  if (blocks > 1) cluster.barrier_arrive();

  const int row0 = int(blockIdx.z) * Tile::kM, column0 = int(blockIdx.y) * Tile::kN;
  const A a{args.a, args.lda, row0, args.m, args.vec_a};
  const B b{args.b, args.ldb, column0, args.n, args.vec_b};
  const int tid = int(threadIdx.x), warp = tid / 32;
  const int tm = tid % 32 / 8, tn = tid % 8;
  const int k_begin = (block * Tile::kWarps + warp) * args.k_of_warp;
  const int k_end = min(k_begin + args.k_of_warp, args.k);
  float* own = shared + warp * args.of_warp;
  const auto load = [&](int step) {
    const int k = k_begin + step * kK;
    if (k < k_end) {
      float* to = own + step % kStages * Tile::kStage;
      a.load(to, k, k_end);
      b.load(to + Tile::kM * (kK + 4), k, k_end);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

  float sums[kTm][kTn] = {};
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) load(s);
  for (int step = 0; k_begin + step * kK < k_end; ++step) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    __syncwarp();
    load(step + kStages - 1);
    const float* from = own + step % kStages * Tile::kStage;
    const int left = k_end - k_begin - step * kK;
#pragma unroll
    for (int k = 0; k < kK; k += 4) {
      if (k >= left) break;
      float x[4][kTm], y[4][kTn];
      A::template read<kTm>(x, from, k, tm);
      B::template read<kTn>(y, from + Tile::kM * (kK + 4), k, tn);
#pragma unroll
      for (int q = 0; q < 4; ++q) {
#pragma unroll
        for (int i = 0; i < kTm; ++i) {
#pragma unroll
          for (int j = 0; j < kTn; ++j) sums[i][j] = fmaf(x[q][i], y[q][j], sums[i][j]);
        }
      }
    }
  }
  wait_for_copies();
  __syncwarp();

#pragma unroll
  for (int i = 0; i < kTm; ++i) {
    float* row = own + A::template row_of<kTm>(tm, i) * Tile::kRow;
#pragma unroll
    for (int j = 0; j < kTn; j += kAlongB ? 1 : 4) {
      float* at = row + B::template row_of<kTn>(tn, j);
      if constexpr (kAlongB) {
        *at = sums[i][j];
      } else {
        *reinterpret_cast<float4*>(at) =
            make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
      }
    }
  }
  __syncthreads();
  constexpr int kAcross = Tile::kN / 4, kPieces = Tile::kM * kAcross;
  const int pieces = (kPieces + blocks - 1) / blocks;  // pieces per block
  float4* sent = reinterpret_cast<float4*>(shared + Tile::kWarps * args.of_warp);
  if (blocks > 1) cluster.barrier_wait();
#pragma unroll 1
  for (int p = tid; p < kPieces; p += Tile::kThreads) {
    const float* at = shared + p / kAcross * Tile::kRow + p % kAcross * 4;
    float4 sum = *reinterpret_cast<const float4*>(at);
#pragma unroll
    for (int w = 1; w < Tile::kWarps; ++w) {
      sum = plus4(sum, *reinterpret_cast<const float4*>(at + w * args.of_warp));
    }
    if (blocks == 1) {
      sgemm_store(args, row0 + p / kAcross, column0 + p % kAcross * 4, sum);
    } else {
      float4* of_owner = cluster.map_shared_rank(sent, unsigned(p / pieces));
      of_owner[block * pieces + p % pieces] = sum;
    }
  }
  if (blocks == 1) return;
  cluster.sync();
  for (int p = tid; p < pieces && block * pieces + p < kPieces; p += Tile::kThreads) {
    float4 sum = sent[p];
    for (int other = 1; other < blocks; ++other) sum = plus4(sum, sent[other * pieces + p]);
    const int whole = block * pieces + p;
    sgemm_store(args, row0 + whole / kAcross, column0 + whole % kAcross * 4, sum);
  }
#endif
}

}  // namespace taper::v0::kernels::cuda
