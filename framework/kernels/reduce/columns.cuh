// Kernels that work along the columns of a dense [outer, n, inner] tensor. Adjacent threads process
// adjacent columns, which may have different outer indices. The block's height extends along n. The
// rows that a thread processes depend only on sizes and dtype.
#pragma once

#include "framework/kernels/reduce/reduce.cuh"

namespace taper::v0::kernels::cuda {

inline constexpr int kTileThreads = 512;

// The first element of a thread's V columns, and whether they exist.
struct Column {
  int64_t base;
  bool exists;
};
template <int V>
__device__ inline Column column_at(int64_t tile, ColumnBlock block, ReduceSizes sizes) {
  const int64_t c = (tile * block.width + int(threadIdx.x) % block.width) * V;
  return {c / sizes.inner * sizes.n * sizes.inner + c % sizes.inner, c < sizes.outer * sizes.inner};
}

// Calls f(Int<V>, block, grid) for threads that process `rows` rows each. V > 1 if all columns at
// these pointers are aligned. If there are few columns, tiles are narrower, down to 64 bytes.
template <class T, class F, class... P>
void for_tiles(ReduceSizes sizes, int rows, F f, const P*... pointers) {
  constexpr int kVectors = 16 / sizeof(T);
  const int vec = sizes.inner % kVectors == 0 ? kVectors : 1;
  const int64_t columns = sizes.outer * sizes.inner / vec;
  int width = power_of_two_from(columns, kWarp);
  while (width * vec * int(sizeof(T)) > 64 && ceil_div(columns, width) < kFewBlocks) width /= 2;
  ColumnBlock block{width, power_of_two_from(ceil_div(sizes.n, rows), kTileThreads / width),
                    ceil_div(columns, width)};
  const bool aligned = vec > 1 && (is_aligned(pointers, 16) && ...);
  if (!aligned) block.tiles *= vec;
  const unsigned grid = unsigned(std::min(block.tiles, kMaxPiece));
  if (aligned) return f(Int<kVectors>(), block, grid);
  f(Int<1>(), block, grid);
}

}  // namespace taper::v0::kernels::cuda
