// Copies between layouts whose innermost dimensions differ, through tiles in shared memory: out's
// neighbours lie along dimension a, those of x along b.
#pragma once

#include <cstdint>

#include "framework/kernels/elementwise/elementwise.cuh"

namespace taper::kernels::cuda {

template <class U> inline constexpr int kTile = sizeof(U) == 8 ? 32 : 64;
// An odd number of 4-byte words a row (of 8-byte words for 8 bytes), so that a column of the tile
// touches every bank once.
template <class U> inline constexpr int kTilePad = sizeof(U) < 4 ? 4 / int(sizeof(U)) : 1;

template <class U> struct TileArgs {
  U* out;
  const U* in;
  int size_a, size_b;
  int64_t out_b, in_a;  // the strides that are not 1
  FastDivisor tiles_a, tiles_b;
  Walk<2, 1> rest;  // the other dimensions
};

template <class U>
__global__ void __launch_bounds__(kThreads)
    transpose_kernel(const __grid_constant__ TileArgs<U> args) {
  constexpr int kSide = kTile<U>;
  constexpr int kRows = kThreads / kSide;  // rows that a block moves at once
  __shared__ U tile[kSide][kSide + kTilePad<U>];

  const uint32_t above_a = args.tiles_a.divide(blockIdx.x);
  const uint32_t above_b = args.tiles_b.divide(above_a);
  const int a0 = int(blockIdx.x - above_a * args.tiles_a.divisor) * kSide;
  const int b0 = int(above_a - above_b * args.tiles_b.divisor) * kSide;
  const Place<2> place = args.rest.at(above_b);
  const int column = int(threadIdx.x) % kSide, row = int(threadIdx.x) / kSide;

  const U* in = args.in + place.offset[1];
#pragma unroll
  for (int k = 0; k < kSide / kRows; ++k) {
    const int r = row + k * kRows, a = a0 + r, b = b0 + column;
    if (a < args.size_a && b < args.size_b) tile[r][column] = in[a * args.in_a + b];
  }
  __syncthreads();
  U* out = args.out + place.offset[0];
#pragma unroll
  for (int k = 0; k < kSide / kRows; ++k) {
    const int r = row + k * kRows, a = a0 + column, b = b0 + r;
    if (a < args.size_a && b < args.size_b) out[b * args.out_b + a] = tile[column][r];
  }
}

// The dimension along which neighbours touch, or -1.
inline int innermost(const Loop& loop, const Operand& x) {
  for (int d = loop.dims - 1; d >= 0; --d) {
    if (x.strides[d] == 1 && loop.sizes[d] > 1) return d;
  }
  return -1;
}

// Both sides have an innermost dimension, not the same one, and both are worth a tile.
inline bool is_transposed(const Loop& loop) {
  constexpr int64_t kWorthIt = 16;
  const int a = innermost(loop, loop.out), b = innermost(loop, loop.in[0]);
  return a >= 0 && b >= 0 && a != b && loop.in[0].strides[a] != 1 && loop.sizes[a] >= kWorthIt &&
         loop.sizes[b] >= kWorthIt;
}

template <class U> void transpose(const Loop& piece, const taper::cuda::Launch& on) {
  const int a = innermost(piece, piece.out), b = innermost(piece, piece.in[0]);
  TileArgs<U> args;
  args.out = static_cast<U*>(piece.out.data);
  args.in = static_cast<const U*>(piece.in[0].data);
  args.size_a = int(piece.sizes[a]);
  args.size_b = int(piece.sizes[b]);
  args.out_b = piece.out.strides[b];
  args.in_a = piece.in[0].strides[a];
  const int64_t tiles_a = ceil_div(args.size_a, kTile<U>),
                tiles_b = ceil_div(args.size_b, kTile<U>);
  args.tiles_a = FastDivisor(uint32_t(tiles_a));
  args.tiles_b = FastDivisor(uint32_t(tiles_b));
  Loop rest = piece;
  rest.sizes[a] = rest.sizes[b] = 1;
  args.rest = make_walk<2, 1>(rest);
  const int64_t blocks = tiles_a * tiles_b * args.rest.groups;
  transpose_kernel<U><<<unsigned(blocks), kThreads, 0, on.stream>>>(args);
  on.check("copy");
}

}  // namespace taper::kernels::cuda
