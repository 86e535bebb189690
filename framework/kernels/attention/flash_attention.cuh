// The kernels of flash_attention.cu, after Dao 2023, "FlashAttention-2" (arXiv 2307.08691). A block
// of four warps processes kRows rows, 16 per warp. The rows are queries, except in the kernel for
// the gradients of k and v. There they are keys, and the scores are computed transposed. The
// operands and results of these rows stay in registers. The other side is read through shared
// memory, kStep rows at a time, while the next step is being copied. The lanes hold the result of
// one product in the layout in which the next product needs its operand. Every sum has a fixed
// order. The backward pass computes the scores twice, once for each side.
#pragma once

#include <cmath>
#include <cstdint>

#include "framework/base/philox.h"
#include "framework/kernels/attention/flash_parts.cuh"
#include "framework/kernels/attention/flash_problem.cuh"
#include "framework/kernels/common/kernel_launch.h"

namespace taper::v0::kernels::cuda::flash {

constexpr float kLog2e = 1.4426950408889634f;

// --- dropout ---

// Draws which weights are kept. Bit k = 0 to 3 of nibble n states whether word k of Philox block
// first + n * step is kept.
template <int kTiles>
__device__ uint32_t draw(PhiloxKey key, uint32_t threshold, uint64_t first, uint64_t step) {
  uint32_t bits = 0;
#pragma unroll
  for (int n = kTiles - 1; n >= 0; --n) {
    const Philox4 words = philox(key, first + n * step);
#pragma unroll
    for (int k = 3; k >= 0; --k) bits = append_at_least(bits, words.word[k], 0u - threshold);
  }
  return bits;
}

// Returns which weights are kept. Bit 4 * n + e states whether element e of tile n is kept, for
// scores that start at query i and key j of batch element b. kTransposed: keys are rows. A block of
// four random words serves four adjacent keys. If S is a multiple of 4, these are in one tile. Each
// lane then draws for one of the rows or columns that it shares with its neighbors, and the lanes
// exchange the bits.
template <bool kTransposed, int kTiles, class T>
__device__ uint32_t kept(const Problem<T>& in, PhiloxKey key, int64_t b, int i, int j) {
  const uint64_t S = in.S, row = uint64_t(b * in.T_ + i);
  if (in.S % 4 != 0) {
    uint32_t bits = 0;
#pragma unroll 1
    for (int e = 0; e < 4 * kTiles; ++e) {
      const int down = group() + e / 2 % 2 * 8, along = e / 4 * 8 + my_column() + e % 2;
      const uint64_t element =
          kTransposed ? (row + along) * S + j + down : (row + down) * S + j + along;
      const Philox4 words = philox(key, element / 4);
      const uint32_t low = element % 2 ? words.word[1] : words.word[0];
      const uint32_t high = element % 2 ? words.word[3] : words.word[2];
      bits |= uint32_t((element % 4 < 2 ? low : high) >= in.threshold) << e;
    }
    return bits;
  }
  if constexpr (kTransposed) {
    // A lane with c = g % 4 draws for column c % 2 and the rows from g - c + c / 2 * 8 on.
    const int c = group() % 4;
    const uint64_t first = ((row + my_column() + c % 2) * S + j + (group() - c) + c / 2 * 8) / 4;
    const uint32_t mine = draw<kTiles>(key, in.threshold, first, 2 * S);
    uint32_t bits = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const uint32_t of_e = __shfl_sync(~0u, mine, (lane() & ~12) | e << 2);
      bits |= (of_e >> c & 0x11111111u) << e;
    }
    return bits;
  } else {
    // An even lane draws for row g and an odd one for row g + 8, for the four keys of both.
    const int odd = lane() % 2;
    const uint64_t first = ((row + group() + 8 * odd) * S + j + lane() % 4 / 2 * 4) / 4;
    const uint32_t mine = draw<kTiles>(key, in.threshold, first, 2);
    const uint32_t other = __shfl_xor_sync(~0u, mine, 1);
    const uint32_t upper = odd ? other : mine, lower = odd ? mine : other;
    return (upper >> 2 * odd & 0x33333333u) | (lower >> 2 * odd & 0x33333333u) << 2;
  }
}

// --- kernels ---

// Tuned on an H200: rows per step, and the number of blocks per multiprocessor, which limits the
// registers.
template <int kD> struct Tuned {
  static constexpr int kStep = kD <= 64 ? 64 : 32;
  static constexpr int kForwardBlocks = kD <= 96 ? 3 : 2, kQueryBlocks = kD <= 64 ? 3 : 2;
  static constexpr int kKeyBlocks = 2;
};

// Sets scores to -inf where a query does not see a key. Called only for tiles where that can occur.
template <int kTiles> __device__ void hide(Part<kTiles>& s, int i0, int j0, int S, bool causal) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int i = i0 + group() + e / 2 * 8, j = j0 + n * 8 + my_column() + e % 2;
      if (j >= S || (causal && j > i)) s.at[n][e] = -INFINITY;
    }
  }
}

// Reduce over the four lanes that hold the same rows.
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}
__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

// The part of the work that this block does. As many batch elements as fit in the L2 cache are
// started together. In causal attention the blocks with the longest rows of scores start first, so
// that the short ones remain for the end.
struct Place {
  int b, tile, row;  // row: first row of the warp
  __device__ Place(int rows, int batch, int together, bool last_first) {
    const int tiles = (rows + kRows - 1) / kRows,
              first = int(blockIdx.x) / (together * tiles) * together;
    const int members = min(together, batch - first), at = int(blockIdx.x) - first * tiles;
    const int t = at / members;
    b = first + at % members;
    tile = (last_first ? tiles - 1 - t : t) * kRows;
    row = tile + int(threadIdx.x) / 32 * 16;
  }
};

template <class T, int kD, bool kDrops>
__global__ void __launch_bounds__(kThreads, Tuned<kD>::kForwardBlocks)
    forward_kernel(Problem<T> in, Matrix<T> y) {
  begin_kernel();
  constexpr int kStep = Tuned<kD>::kStep, kTiles = kStep / 8;
  __shared__ Tile<T, kD, kStep> keys[2], values[2];
  const PhiloxKey key = resolved(in.key);
  const Place at(in.T_, in.batch, in.together, true);
  const int end = in.causal ? min(in.S, at.tile + kRows) : in.S;
  const Feed<T, kD, kStep> feed_k(in.of(in.k, at.b), in.k.row, in.S, in.D);
  const Feed<T, kD, kStep> feed_v(in.of(in.v, at.b), in.v.row, in.S, in.D);
  feed_k(keys[0], 0);
  feed_v(values[0], 0);
  const Operand<T, kD> q(in.of(in.q, at.b), in.q.row, at.row, in.T_, in.D);
  const float scale = in.scale * kLog2e;
  Part<kD / 8> acc;
  float peak[2] = {-INFINITY, -INFINITY}, sum[2] = {};
  for (int j0 = 0, now = 0; j0 < end; j0 += kStep, now ^= 1) {
    wait_for_copies();
    __syncthreads();
    if (j0 + kStep < end) {
      feed_k(keys[now ^ 1], j0 + kStep);
      feed_v(values[now ^ 1], j0 + kStep);
    }
    if (in.causal && j0 > at.row + 15) continue;
    Part<kTiles> s;
    add_products(s, q, keys[now]);
    if (j0 + kStep > in.S || (in.causal && j0 + kStep - 1 > at.row)) {
      hide(s, at.row, j0, in.S, in.causal);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float most = peak[h];
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        most = fmaxf(most, fmaxf(s.at[n][2 * h], s.at[n][2 * h + 1]));
      }
      most = quad_max(most);
      const float shrink = fast_exp2((peak[h] - most) * scale), from = most * scale;
      peak[h] = most;
      sum[h] *= shrink;
#pragma unroll
      for (int n = 0; n < kD / 8; ++n) {
        acc.at[n][2 * h] *= shrink;
        acc.at[n][2 * h + 1] *= shrink;
      }
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; ++e) {
          s.at[n][e] = fast_exp2(s.at[n][e] * scale - from);
          sum[h] += s.at[n][e];
        }
      }
    }
    if constexpr (kDrops) {
      const uint32_t bits = kept<false, kTiles>(in, key, at.b, at.row, j0);
      if constexpr (kStep == KeptBits::kKeys) {
        if (in.kept.words && at.row < in.T_) in.kept.tile(at.b, at.row, j0)[lane()] = bits;
      }
#pragma unroll
      for (int i = 0; i < 4 * kTiles; ++i) {
        if (!(bits >> i & 1)) s.at[i / 4][i % 4] = 0;
      }
    }
    add_applied(acc, s, values[now]);
  }
  float scales[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float total = quad_sum(sum[h]);
    const int row = at.row + group() + 8 * h;
    scales[h] = in.kept_scale / total;
    if (lane() % 4 == 0 && row < in.T_) {
      in.lse[int64_t(at.b) * in.T_ + row] = peak[h] * in.scale + logf(total);
    }
  }
  __syncthreads();  // the last keys have been read
  store_rows(keys, acc, scales, in.of(y, at.b), y.row, at.row, in.T_, in.D);
}

// Computes dq = scale * ds k. Also writes delta, the sum of dy * y over D, which key_kernel needs.
template <class T, int kD, bool kDrops>
__global__ void __launch_bounds__(kThreads, Tuned<kD>::kQueryBlocks)
    query_kernel(Problem<T> in, Matrix<T> dq) {
  begin_kernel();
  constexpr int kStep = Tuned<kD>::kStep, kTiles = kStep / 8;
  __shared__ Tile<T, kD, kStep> keys[2], values[2];
  const PhiloxKey key = resolved(in.key);
  const Place at(in.T_, in.batch, in.together, true);
  const int end = in.causal ? min(in.S, at.tile + kRows) : in.S;
  const Feed<T, kD, kStep> feed_k(in.of(in.k, at.b), in.k.row, in.S, in.D);
  const Feed<T, kD, kStep> feed_v(in.of(in.v, at.b), in.v.row, in.S, in.D);
  feed_k(keys[0], 0);
  feed_v(values[0], 0);
  const Operand<T, kD> q(in.of(in.q, at.b), in.q.row, at.row, in.T_, in.D);
  const Operand<T, kD> dy(in.of(in.dy, at.b), in.dy.row, at.row, in.T_, in.D);
  float delta[2] = {}, lse[2];
  {
    const Operand<T, kD> y(in.of(in.y, at.b), in.y.row, at.row, in.T_, in.D);
#pragma unroll
    for (int i = 0; i < kD / 4; ++i) {
      T a[2], b[2];
      memcpy(a, &dy.at[i / 4][i % 4], sizeof a);
      memcpy(b, &y.at[i / 4][i % 4], sizeof b);
      delta[i % 2] += float(a[0]) * float(b[0]) + float(a[1]) * float(b[1]);
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    delta[h] = quad_sum(delta[h]);
    const int row = at.row + group() + 8 * h;
    const int64_t place = int64_t(at.b) * in.T_ + row;
    lse[h] = row < in.T_ ? in.lse[place] * kLog2e : 0;
    if (lane() % 4 == 0 && row < in.T_) in.delta[place] = delta[h];
  }
  const float scale = in.scale * kLog2e;
  Part<kD / 8> acc;
  for (int j0 = 0, now = 0; j0 < end; j0 += kStep, now ^= 1) {
    wait_for_copies();
    __syncthreads();
    if (j0 + kStep < end) {
      feed_k(keys[now ^ 1], j0 + kStep);
      feed_v(values[now ^ 1], j0 + kStep);
    }
    if (in.causal && j0 > at.row + 15) continue;
    Part<kTiles> s, ds;
    add_products(s, q, keys[now]);
    add_products(ds, dy, values[now]);
    if (j0 + kStep > in.S || (in.causal && j0 + kStep - 1 > at.row)) {
      hide(s, at.row, j0, in.S, in.causal);
    }
    uint32_t bits = ~0u;
    if constexpr (kDrops) bits = kept<false, kTiles>(in, key, at.b, at.row, j0);
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) {
      const int n = i / 4, e = i % 4;
      const float p = fast_exp2(s.at[n][e] * scale - lse[e / 2]);
      const float dp = !kDrops ? ds.at[n][e] : bits >> i & 1 ? ds.at[n][e] * in.kept_scale : 0;
      ds.at[n][e] = p * (dp - delta[e / 2]);
    }
    add_applied(acc, ds, keys[now]);
  }
  __syncthreads();  // the last keys have been read
  store_rows(keys, acc, {in.scale, in.scale}, in.of(dq, at.b), dq.row, at.row, in.T_, in.D);
}

// Computes dv = p^T dy and dk = scale * ds^T q. Runs after query_kernel.
template <class T, int kD, bool kDrops>
__global__ void __launch_bounds__(kThreads, Tuned<kD>::kKeyBlocks)
    key_kernel(Problem<T> in, Matrix<T> dk, Matrix<T> dv) {
  begin_kernel();
  constexpr int kStep = Tuned<kD>::kStep, kTiles = kStep / 8;
  __shared__ Tile<T, kD, kStep> queries[2], dys[2];
  __shared__ float lses[2][kStep], deltas[2][kStep];
  const PhiloxKey key = resolved(in.key);
  const Place at(in.S, in.batch, in.together, false);
  const Feed<T, kD, kStep> feed_q(in.of(in.q, at.b), in.q.row, in.T_, in.D);
  const Feed<T, kD, kStep> feed_dy(in.of(in.dy, at.b), in.dy.row, in.T_, in.D);
  const float *lse = in.lse + int64_t(at.b) * in.T_, *delta = in.delta + int64_t(at.b) * in.T_;
  const auto fetch = [&](int stage, int i0) {
    feed_q(queries[stage], i0);
    feed_dy(dys[stage], i0);
    const int x = int(threadIdx.x) % kStep, i = i0 + x;
    const bool exists = i < in.T_;
    if (threadIdx.x < kStep) copy_async<4>(&lses[stage][x], lse + (exists ? i : 0), exists);
    if (threadIdx.x >= kRows && threadIdx.x < kRows + kStep) {
      copy_async<4>(&deltas[stage][x], delta + (exists ? i : 0), exists);
    }
  };
  const int begin = in.causal ? at.tile : 0;
  if (begin < in.T_) fetch(0, begin);
  const Operand<T, kD> k(in.of(in.k, at.b), in.k.row, at.row, in.S, in.D);
  const Operand<T, kD> v(in.of(in.v, at.b), in.v.row, at.row, in.S, in.D);
  const float scale = in.scale * kLog2e;
  Part<kD / 8> acc_k, acc_v;
  for (int i0 = begin, now = 0; i0 < in.T_; i0 += kStep, now ^= 1) {
    wait_for_copies();
    __syncthreads();
    if (i0 + kStep < in.T_) fetch(now ^ 1, i0 + kStep);
    if (in.causal && i0 + kStep <= at.row) continue;
    Part<kTiles> p, ds;
    add_products(p, k, queries[now]);
    add_products(ds, v, dys[now]);
    uint32_t bits = ~0u;
    if constexpr (kDrops) bits = kept<true, kTiles>(in, key, at.b, i0, at.row);
    const bool hides = in.causal && at.row + 15 > i0;
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) {
      const int n = i / 4, e = i % 4, column = n * 8 + my_column() + e % 2;
      const bool hidden = hides && at.row + group() + e / 2 * 8 > i0 + column;
      const float whole = hidden ? 0 : fast_exp2(p.at[n][e] * scale - lses[now][column] * kLog2e);
      const bool stays = !kDrops || bits >> i & 1;
      const float dp = !kDrops ? ds.at[n][e] : stays ? ds.at[n][e] * in.kept_scale : 0;
      ds.at[n][e] = whole * (dp - deltas[now][column]);
      p.at[n][e] = stays ? whole : 0;
    }
    add_applied(acc_v, p, dys[now]);
    add_applied(acc_k, ds, queries[now]);
  }
  __syncthreads();  // the last queries have been read
  store_rows(dys, acc_v, {in.kept_scale, in.kept_scale}, in.of(dv, at.b), dv.row, at.row, in.S,
             in.D);
  store_rows(queries, acc_k, {in.scale, in.scale}, in.of(dk, at.b), dk.row, at.row, in.S, in.D);
}

}  // namespace taper::v0::kernels::cuda::flash
