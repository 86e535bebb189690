// How the kernels of hopper_attention.cuh divide their work and their shared memory, and how one of
// their warpgroups copies what the others need.
#pragma once

#include <cstdint>
#include <type_traits>

#include "framework/kernels/attention/flash_attention.cuh"
#include "framework/kernels/attention/warpgroup.cuh"

namespace taper::v0::kernels::cuda::hopper {

using flash::group;
using flash::kLog2e;
using flash::lane;
using flash::Matrix;
using flash::my_column;
using flash::Part;
using flash::Problem;
using warpgroup::Tile;

constexpr int kGroups = 2, kWarps = 4 * kGroups;  // that compute
constexpr int kCopiers = warpgroup::kThreads, kThreads = kGroups * warpgroup::kThreads + kCopiers;
constexpr int kRows = kGroups * warpgroup::kRows;
// Registers of a thread that copies and of one that computes: 65,536 in all.
constexpr int kCopierRegisters = 40, kRegisters = 232;
// Rows of the other side in a step, limited by registers, and steps in shared memory.
template <int kD> inline constexpr int kStep = kD <= 64 ? 128 : 64;
constexpr int kStages = 3;

// The bits of flash::KeptBits for 128 queries and 128 keys.
using KeptTiles = uint32_t[kRows / flash::KeptBits::kQueries][kRows / flash::KeptBits::kKeys][32];

template <class T, int kD, bool kDrops> struct Shared {
  static_assert(!kDrops || kStep<kD> == kRows);
  Tile<T, kD, kRows> rows[2][2];  // of this part and the next: q and dy, or k and v
  Tile<T, kD, kStep<kD>> others[kStages][2];
  // The numbers of each query: log2(e) times its log-sum-exp, and its sum of dy * y over D.
  float lse[kStages][kStep<kD>], delta[kStages][kStep<kD>];
  alignas(16) std::conditional_t<kDrops, KeptTiles[kStages], uint32_t> kept;
  warpgroup::Barrier rows_full[2], rows_empty[2], full[kStages], empty[kStages];

  static constexpr size_t bytes() { return sizeof(Shared) + 1024; }
  // Returns the beginning of shared memory, rounded up to a multiple of 1024 bytes.
  __device__ static Shared& here() {
    extern __shared__ unsigned char memory[];
    const uint32_t at = uint32_t(__cvta_generic_to_shared(memory));
    return *reinterpret_cast<Shared*>(memory + (1024 - at % 1024) % 1024);
  }
  __device__ void start() {
    if (threadIdx.x == 0) {
      for (auto& barrier : rows_full) barrier.start(kCopiers);
      for (auto& barrier : full) barrier.start(kCopiers);
      for (auto& barrier : rows_empty) barrier.start(kWarps);
      for (auto& barrier : empty) barrier.start(kWarps);
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
  }
};

// Rows of a batch element and head, a part of the work.
struct Place {
  int b, tile, row;  // tile, row: first row of the block and of the warp
};
// How the parts are distributed over blocks. In causal attention, those at one end take longest. So
// a block takes two together, as far from one end as from the other, if there are enough of them.
struct Schedule {
  int tiles;    // parts of each batch element and head
  int units;    // of one or two parts
  int in_each;  // units of each batch element and head
  Schedule(int rows, int batch, int blocks) : tiles((rows + kRows - 1) / kRows) {
    const bool in_pairs = int64_t(tiles) * batch >= 4 * blocks;
    in_each = in_pairs ? (tiles + 1) / 2 : tiles;
    units = batch * in_each;
  }
  // Calls f(place, i) for the parts of this block, which i counts.
  template <class F> __device__ void each(F f) const {
    int i = 0;
    for (int unit = int(blockIdx.x); unit < units; unit += int(gridDim.x)) {
      const int first = unit % in_each, last = tiles - 1 - first;
      for (int t = first;; t = last) {
        const int tile = t * kRows;
        f(Place{unit / in_each, tile, tile + int(threadIdx.x) / 32 * 16}, i++);
        if (in_each == tiles || t == last) break;
      }
    }
  }
};

// Counts the steps of all parts, which use the stages of shared memory in turn.
struct Step {
  int count = 0;
  __device__ int stage() const { return count % kStages; }
  __device__ uint32_t phase() const { return uint32_t(count / kStages); }
};

// Return the end of the keys that a part's queries see, and the first query that sees its keys.
template <class T> __device__ int end_of_keys(const Problem<T>& in, const Place& at) {
  return in.causal ? min(in.S, at.tile + kRows) : in.S;
}
template <class T> __device__ int begin_of_queries(const Problem<T>& in, const Place& at) {
  return in.causal ? at.tile : 0;
}

// --- copying ---

__device__ inline int copier() { return int(threadIdx.x) % kCopiers; }

// Starts to copy the rows from row0 on to a tile. Elements out of bounds are zeros.
template <class T, int kD, int kTileRows>
__device__ void fetch_rows(Tile<T, kD, kTileRows>& tile, const T* from, int64_t stride, int row0,
                           int rows, int columns) {
  constexpr int kPieces = kD / 8, kTogether = kCopiers / kPieces;
  const int row = copier() / kPieces, column = copier() % kPieces * 8;
  const T* at = from + (row0 + row) * stride + column;
#pragma unroll
  for (int r = 0; r < kTileRows; r += kTogether) {
    copy_async<16>(tile.piece(row + r, column), at, column < columns && row0 + row + r < rows);
    at += kTogether * stride;
  }
}

// Starts to copy the bits of the weights of 128 queries and 128 keys.
template <class T>
__device__ void fetch_kept(KeptTiles& to, const Problem<T>& in, int b, int i0, int j0) {
  constexpr int kPieces = 32 / 4, kAcross = kRows / flash::KeptBits::kKeys;
  static_assert(sizeof to == 16 * kCopiers);
  const int tile = copier() / kPieces, piece = copier() % kPieces * 4;
  const int i = i0 + tile / kAcross * flash::KeptBits::kQueries;
  const int j = j0 + tile % kAcross * flash::KeptBits::kKeys;
  const bool exists = i < in.T_ && j < in.S;
  const uint32_t* from = exists ? in.kept.tile(b, i, j) + piece : in.kept.words;
  copy_async<16>(&to[tile / kAcross][tile % kAcross][piece], from, exists);
}

// Copies what compute_queries needs: the rows of each part, its results in the first step, and then
// its keys and values.
template <class T, int kD, bool kDrops>
__device__ void copy_for_queries(Shared<T, kD, kDrops>& shared, const Problem<T>& in,
                                 const Schedule& schedule) {
  constexpr int kWidth = kStep<kD>;
  Step step;
  schedule.each([&](const Place& at, int i) {
    shared.rows_empty[i % 2].wait(i / 2 + 1);
    auto& [q, dy] = shared.rows[i % 2];
    fetch_rows(q, in.of(in.q, at.b), in.q.row, at.tile, in.T_, in.D);
    fetch_rows(dy, in.of(in.dy, at.b), in.dy.row, at.tile, in.T_, in.D);
    shared.rows_full[i % 2].arrive_after_copies();
    const auto fetch = [&](auto copy) {
      shared.empty[step.stage()].wait(step.phase() + 1);
      copy(shared.others[step.stage()]);
      shared.full[step.stage()].arrive_after_copies();
      ++step.count;
    };
    fetch([&](auto& tiles) {
      const T* y = in.of(in.y, at.b);
      for (int h = 0; h < kRows / kWidth; ++h) {
        fetch_rows(tiles[h], y, in.y.row, at.tile + h * kWidth, in.T_, in.D);
      }
    });
    for (int j0 = 0; j0 < end_of_keys(in, at); j0 += kWidth) {
      fetch([&](auto& tiles) {
        fetch_rows(tiles[0], in.of(in.k, at.b), in.k.row, j0, in.S, in.D);
        fetch_rows(tiles[1], in.of(in.v, at.b), in.v.row, j0, in.S, in.D);
        if constexpr (kDrops) fetch_kept(shared.kept[step.stage()], in, at.b, at.tile, j0);
      });
    }
  });
  wait_for_copies();
}

// Copies what compute_keys needs: the rows of each part, and the queries that see them.
template <class T, int kD, bool kDrops>
__device__ void copy_for_keys(Shared<T, kD, kDrops>& shared, const Problem<T>& in,
                              const Schedule& schedule, const float* lse) {
  constexpr int kWidth = kStep<kD>;
  Step step;
  schedule.each([&](const Place& at, int i) {
    shared.rows_empty[i % 2].wait(i / 2 + 1);
    auto& [k, v] = shared.rows[i % 2];
    fetch_rows(k, in.of(in.k, at.b), in.k.row, at.tile, in.S, in.D);
    fetch_rows(v, in.of(in.v, at.b), in.v.row, at.tile, in.S, in.D);
    shared.rows_full[i % 2].arrive_after_copies();
    for (int i0 = begin_of_queries(in, at); i0 < in.T_; i0 += kWidth, ++step.count) {
      const int now = step.stage();
      shared.empty[now].wait(step.phase() + 1);
      auto& [q, dy] = shared.others[now];
      fetch_rows(q, in.of(in.q, at.b), in.q.row, i0, in.T_, in.D);
      fetch_rows(dy, in.of(in.dy, at.b), in.dy.row, i0, in.T_, in.D);
      if constexpr (kDrops) fetch_kept(shared.kept[now], in, at.b, i0, at.tile);
      const int x = copier();
      const bool exists = i0 + x < in.T_;
      const int64_t from = int64_t(at.b) * in.T_ + (exists ? i0 + x : 0);
      if (x < kWidth) copy_async<4>(&shared.lse[now][x], lse + from, exists);
      if (x < kWidth) copy_async<4>(&shared.delta[now][x], in.delta + from, exists);
      shared.full[now].arrive_after_copies();
    }
  });
  wait_for_copies();
}

}  // namespace taper::v0::kernels::cuda::hopper
