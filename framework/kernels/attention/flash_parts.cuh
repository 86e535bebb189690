// Building blocks of flash_attention.cuh: rows as operands in registers, tiles of rows in shared
// memory, and their products, which stay in registers.
#pragma once

#include <cstdint>

#include "framework/kernels/common/tensor_core.cuh"

namespace taper::v0::kernels::cuda::flash {

constexpr int kWarps = 4, kThreads = 32 * kWarps, kRows = 16 * kWarps;
// Padding of rows in shared memory, by which eight consecutive rows use different banks.
constexpr int kPad = 8;

__device__ inline int lane() { return int(threadIdx.x) % 32; }
__device__ inline int group() { return lane() / 4; }
__device__ inline int my_column() { return lane() % 4 * 2; }

// Weights or sums of kTiles adjacent products.
template <int kTiles> struct Part {
  float at[kTiles][4] = {};
};

// 16 rows of kD columns as first operands, loaded directly from global memory. Elements out of
// bounds are zeros.
template <class T, int kD> struct Operand {
  uint32_t at[kD / 16][4];

  __device__ Operand(const T* from, int64_t stride, int row0, int rows, int columns) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = row0 + group() + 8 * h;
      const T* mine = from + row * stride + my_column();
#pragma unroll
      for (int c = 0; c < kD; c += 8) {
        uint32_t& pair = at[c / 16][c / 8 % 2 * 2 + h];
        pair = row < rows && c < columns ? *reinterpret_cast<const uint32_t*>(mine + c) : 0;
      }
    }
  }
};

template <class T, int kD, int kStep> struct Tile { alignas(16) T at[kStep][kD + kPad]; };

// A thread's share of copying a matrix to tiles.
template <class T, int kD, int kStep> struct Feed {
  static constexpr int kSlots = kD <= 32 ? 4 : kD <= 64 ? 8 : 16, kTogether = kThreads / kSlots;
  const T* from;
  int64_t stride;
  int row, column, rows;
  bool inside;

  __device__ Feed(const T* x, int64_t stride, int rows, int columns)
      : stride(stride),
        row(int(threadIdx.x) / kSlots),
        column(int(threadIdx.x) % kSlots * 8),
        rows(rows),
        inside(column < columns) {
    from = x + row * stride + column;
  }
  // Starts to copy the rows from row0 on. Elements out of bounds are zeros.
  __device__ void operator()(Tile<T, kD, kStep>& tile, int row0) const {
    if (kD < 8 * kSlots && column >= kD) return;
    const T* at = from + row0 * stride;
#pragma unroll
    for (int r = 0; r < kStep; r += kTogether) {
      copy_async<16>(&tile.at[row + r][column], at, inside && row0 + row + r < rows);
      at += kTogether * stride;
    }
  }
};

// Computes acc += a times the transposed tile.
template <class T, int kD, int kStep>
__device__ void add_products(Part<kStep / 8>& acc, const Operand<T, kD>& a,
                             const Tile<T, kD, kStep>& tile) {
  const int row = lane() / 16 * 8 + lane() % 8, column = lane() / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < kD / 16; ++k) {
#pragma unroll
    for (int n = 0; n < kStep / 8; n += 2) {
      uint32_t b[4];
      load_matrices(b, &tile.at[n * 8 + row][k * 16 + column]);
      mma<T>(acc.at[n], a.at[k], b[0], b[1]);
      mma<T>(acc.at[n + 1], a.at[k], b[2], b[3]);
    }
  }
}

// Computes acc += p, rounded to T, times the tile.
template <class T, int kD, int kStep>
__device__ void add_applied(Part<kD / 8>& acc, const Part<kStep / 8>& p,
                            const Tile<T, kD, kStep>& tile) {
  const int row = lane() / 8 % 2 * 8 + lane() % 8, column = lane() / 16 * 8;
#pragma unroll
  for (int k = 0; k < kStep / 16; ++k) {
    const float(&left)[4] = p.at[2 * k], (&right)[4] = p.at[2 * k + 1];
    const uint32_t a[4] = {pack<T>(left[0], left[1]), pack<T>(left[2], left[3]),
                           pack<T>(right[0], right[1]), pack<T>(right[2], right[3])};
#pragma unroll
    for (int n = 0; n < kD / 8; n += 2) {
      uint32_t b[4];
      load_transposed(b, &tile.at[k * 16 + row][n * 8 + column]);
      mma<T>(acc.at[n], a, b[0], b[1]);
      mma<T>(acc.at[n + 1], a, b[2], b[3]);
    }
  }
}

// Writes the warp's 16 rows, multiplied by `scale`, which holds this thread's factors for the rows
// group() and group() + 8. The rows are first copied to the two tiles of `stage`, so that they can
// be written in 16-byte pieces.
template <class T, int kD, int kStep>
__device__ void store_rows(Tile<T, kD, kStep>* stage, const Part<kD / 8>& acc,
                           const float (&scale)[2], T* to, int64_t stride, int row0, int rows,
                           int columns) {
  static_assert(2 * kStep >= kRows);
  constexpr int kChunks = kD / 8, kPitch = kD + kPad;
  T* mine = &stage[0].at[0][0] + int(threadIdx.x) / 32 * 16 * kPitch;
#pragma unroll
  for (int n = 0; n < kD / 8; ++n) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      *reinterpret_cast<uint32_t*>(mine + (group() + 8 * h) * kPitch + n * 8 + my_column()) =
          pack<T>(acc.at[n][2 * h] * scale[h], acc.at[n][2 * h + 1] * scale[h]);
    }
  }
  __syncwarp();
#pragma unroll
  for (int i = lane(); i < 16 * kChunks; i += 32) {
    const int r = i / kChunks, c = i % kChunks * 8;
    if (row0 + r < rows && c < columns) {
      *reinterpret_cast<uint4*>(to + (row0 + r) * stride + c) =
          *reinterpret_cast<const uint4*>(mine + r * kPitch + c);
    }
  }
}

}  // namespace taper::v0::kernels::cuda::flash
