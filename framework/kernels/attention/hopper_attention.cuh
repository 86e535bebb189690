// The backward pass of attention for compute capability 9.0. It computes what query_kernel and
// key_kernel of flash_attention.cuh compute, by products of warpgroups.
//
// A block stays on its multiprocessor and processes one part of the work after another: 128 rows,
// 64 in each of two warpgroups. The rows are queries in one kernel and keys in the other, where the
// scores are computed transposed. The other side passes through shared memory, kStep rows at a
// time. A third warpgroup copies the tiles, ahead of the others. The scores stay in registers, in
// which they are the operand of the next product. While a warpgroup computes weights, the tensor
// cores work on its next product or on products of the second warpgroup.
#pragma once

#include <cstdint>

#include "framework/kernels/attention/hopper_parts.cuh"
#include "framework/kernels/common/elements.cuh"

namespace taper::v0::kernels::cuda::hopper {

// --- scores in registers ---

// Packs the scores of tile n as the first operand of the next product; `to` has those of two tiles.
template <class T> __device__ void pack_tile(uint32_t (&to)[4], int n, const float (&from)[4]) {
  to[n % 2 * 2] = pack<T>(from[0], from[1]);
  to[n % 2 * 2 + 1] = pack<T>(from[2], from[3]);
}

// Which of a thread's weights dropout keeps: element e of tile n of its scores.
struct WithoutDropout {
  static constexpr bool kDrops = false;
  __device__ bool operator()(int, int) const { return true; }
};
class KeptOfQueries {
 public:
  static constexpr bool kDrops = true;
  // row: the first row of this warp in its part
  __device__ KeptOfQueries(const KeptTiles& tiles, int row) {
    const auto& mine = tiles[row / flash::KeptBits::kQueries];
    words_[0] = mine[0][lane()], words_[1] = mine[1][lane()];
  }
  __device__ bool operator()(int n, int e) const { return words_[n / 8] >> (n % 8 * 4 + e) & 1; }

 private:
  uint32_t words_[2];
};
// For transposed scores. The lanes that have drawn for this thread's keys are in another order.
class KeptOfKeys {
 public:
  static constexpr bool kDrops = true;
  __device__ KeptOfKeys(const KeptTiles& tiles, int row)
      : from_(&tiles[0][row / flash::KeptBits::kKeys][my_column() * 4 + group() / 2]),
        shift_(row % flash::KeptBits::kKeys / 2 + group() % 2) {}
  __device__ bool operator()(int n, int e) const {
    constexpr int kTile =
        sizeof(KeptTiles) / sizeof(uint32_t) / (kRows / flash::KeptBits::kQueries);
    const uint32_t word = from_[n / 2 * kTile + e % 2 * 4] >> shift_;
    return word >> (e / 2 * 4 + n % 2 * 2) & 1;
  }

 private:
  const uint32_t* from_;
  int shift_;
};

// Sets transposed scores to -inf where a query does not see a key. Keys are rows.
template <int kTiles> __device__ void hide_keys(Part<kTiles>& s, int i0, int j0) {
  const int distance = j0 + group() - i0 - my_column();
#pragma unroll
  for (int i = 0; i < 4 * kTiles; ++i) {
    const int n = i / 4, e = i % 4;
    if (distance + e / 2 * 8 > n * 8 + e % 2) s.at[n][e] = -INFINITY;
  }
}

// Reads the numbers of this thread's pairs of columns, tile by tile. The loads are started kAhead
// tiles before they are needed, because there are few warps to hide their latency.
template <int kTiles> class Columns {
 public:
  __device__ explicit Columns(const float* from) : from_(from + my_column()) {
#pragma unroll
    for (int n = 0; n < kAhead; ++n) next_[n] = load(n);
  }
  // Call it with n = 0, 1, ...
  __device__ float2 take(int n) {
    const float2 pair = next_[n % kAhead];
    if (n + kAhead < kTiles) next_[n % kAhead] = load(n + kAhead);
    return pair;
  }

 private:
  static constexpr int kAhead = 8;
  __device__ float2 load(int n) const { return *reinterpret_cast<const float2*>(from_ + n * 8); }

  const float* from_;
  float2 next_[kAhead];
};

// Writes the statistics of this warp's queries to `all_lse` and in.delta, and returns those of the
// rows group() and group() + 8. `y` has the rows of dy, one tile after the other.
template <class T, int kD, int kWidth>
__device__ void find_statistics(float (&lse)[2], float (&delta)[2], const Problem<T>& in,
                                const Place& at, Tile<T, kD, kRows>& dy,
                                Tile<T, kD, kWidth> (&y)[2], float* all_lse) {
  const int row = at.row - at.tile + lane() / 2;  // two lanes share a row
  float sum = 0;
#pragma unroll
  for (int column = lane() % 2 * 8; column < kD; column += 16) {
    const Vec<T, 8> a = load_vec<T, 8>(dy.piece(row, column)),
                    b = load_vec<T, 8>(y[row / kWidth].piece(row % kWidth, column));
#pragma unroll
    for (int j = 0; j < 8; ++j) sum += float(a.at[j]) * float(b.at[j]);
  }
  sum += __shfl_xor_sync(~0u, sum, 1);
  const int64_t place = int64_t(at.b) * in.T_ + at.tile + row;
  const bool exists = at.tile + row < in.T_;
  const float own = exists ? in.lse[place] * kLog2e : 0;
  if (lane() % 2 == 0 && exists) all_lse[place] = own, in.delta[place] = sum;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    lse[h] = __shfl_sync(~0u, own, 2 * group() + 16 * h);
    delta[h] = __shfl_sync(~0u, sum, 2 * group() + 16 * h);
  }
}

// Writes this warpgroup's 64 rows, times `scale`. They are collected in the same rows of `stage`,
// which only this warpgroup has read.
template <class T, int kD>
__device__ void store_rows(Tile<T, kD, kRows>& stage, const Part<kD / 8>& acc, float scale, T* to,
                           int64_t stride, int row0, int rows, int columns) {
  constexpr int kPieces = kD / 8;
  const int first = int(threadIdx.x) / 32 * 16;
#pragma unroll
  for (int n = 0; n < kD / 8; ++n) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      *reinterpret_cast<uint32_t*>(stage.piece(first + group() + 8 * h, n * 8) + my_column()) =
          pack<T>(acc.at[n][2 * h] * scale, acc.at[n][2 * h + 1] * scale);
    }
  }
  __syncwarp();
#pragma unroll
  for (int i = lane(); i < 16 * kPieces; i += 32) {
    const int row = first + i / kPieces, column = i % kPieces * 8;
    if (row0 + row < rows && column < columns) {
      *reinterpret_cast<uint4*>(to + (row0 + row) * stride + column) =
          *reinterpret_cast<const uint4*>(stage.piece(row, column));
    }
  }
}

// --- computing ---

// Starts s = a c^T and then ds = b d^T, for the 64 rows from `first` on in a and b.
template <class T, int kD, int kWidth>
__device__ void start_scores(Part<kWidth / 8>& s, Tile<T, kD, kRows>& a, Tile<T, kD, kWidth>& c,
                             Part<kWidth / 8>& ds, Tile<T, kD, kRows>& b, Tile<T, kD, kWidth>& d,
                             int first) {
  warpgroup::begin_products();
  warpgroup::start_products(s, a, first, c);
  warpgroup::commit_products();
  warpgroup::start_products(ds, b, first, d);
  warpgroup::commit_products();
}

// Adds ds k to `acc` for the 64 queries from `first` on in q and dy. hide(s) hides scores.
template <class T, int kD, int kWidth, class Kept, class Hide>
__device__ void add_to_dq(Part<kD / 8>& acc, Tile<T, kD, kRows>& q, Tile<T, kD, kRows>& dy,
                          int first, Tile<T, kD, kWidth>& k, Tile<T, kD, kWidth>& v, float scale,
                          float kept_scale, const float (&lse)[2], const float (&delta)[2],
                          const Kept& kept, Hide hide) {
  constexpr int kTiles = kWidth / 8;
  Part<kTiles> s, ds;
  start_scores(s, q, k, ds, dy, v, first);
  warpgroup::wait_for_products<1>(s);
  hide(s);
#pragma unroll
  for (int i = 0; i < 4 * kTiles; ++i) {
    float& p = s.at[i / 4][i % 4];
    p = fast_exp2(p * scale - lse[i % 4 / 2]);
  }
  warpgroup::wait_for_products<0>(ds);
  uint32_t packed[kTiles / 2][4];
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      float& dp = ds.at[n][e];
      if constexpr (Kept::kDrops) dp = kept(n, e) ? dp * kept_scale : 0;
      dp = s.at[n][e] * (dp - delta[e / 2]);
    }
    pack_tile<T>(packed[n / 2], n, ds.at[n]);
  }
  warpgroup::begin_products();
  warpgroup::start_applied<T, kD, kWidth>(acc, packed, k);
  warpgroup::commit_products();
  warpgroup::wait_for_products<0>(acc);
}

// Adds ds^T q and p^T dy to acc_k and acc_v for the 64 keys from `first` on in k and v. lse and
// delta are those of the queries.
template <class T, int kD, int kWidth, class Kept, class Hide>
__device__ void add_to_dk_and_dv(Part<kD / 8>& acc_k, Part<kD / 8>& acc_v, Tile<T, kD, kRows>& k,
                                 Tile<T, kD, kRows>& v, int first, Tile<T, kD, kWidth>& q,
                                 Tile<T, kD, kWidth>& dy, float scale, float kept_scale,
                                 const float* lse, const float* delta, const Kept& kept,
                                 Hide hide) {
  constexpr int kTiles = kWidth / 8;
  Part<kTiles> p, ds;
  start_scores(p, k, q, ds, v, dy, first);
  Columns<kTiles> lse_of(lse);
  warpgroup::wait_for_products<1>(p);
  hide(p);
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const float2 two = lse_of.take(n);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      p.at[n][e] = fast_exp2(p.at[n][e] * scale - (e % 2 ? two.y : two.x));
    }
  }
  Columns<kTiles> delta_of(delta);
  warpgroup::wait_for_products<0>(ds);
  uint32_t packed_p[kTiles / 2][4], packed_ds[kTiles / 2][4];
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const float2 two = delta_of.take(n);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      float &weight = p.at[n][e], &dp = ds.at[n][e];
      const bool stays = kept(n, e);
      if constexpr (Kept::kDrops) dp = stays ? dp * kept_scale : 0;
      dp = weight * (dp - (e % 2 ? two.y : two.x));
      if constexpr (Kept::kDrops) weight = stays ? weight : 0;
    }
    pack_tile<T>(packed_p[n / 2], n, p.at[n]);
    pack_tile<T>(packed_ds[n / 2], n, ds.at[n]);
  }
  warpgroup::begin_products();
  warpgroup::start_applied<T, kD, kWidth>(acc_v, packed_p, dy);
  warpgroup::start_applied<T, kD, kWidth>(acc_k, packed_ds, q);
  warpgroup::commit_products();
  warpgroup::wait_for_products<0>(acc_k, acc_v);
}

template <class Kept, class T, int kD, bool kDrops>
__device__ auto kept_of(const Shared<T, kD, kDrops>& shared, int stage, const Place& at) {
  if constexpr (kDrops) {
    return Kept(shared.kept[stage], at.row - at.tile);
  } else {
    return WithoutDropout();
  }
}

template <class T, int kD, bool kDrops>
__device__ void compute_queries(Shared<T, kD, kDrops>& shared, const Problem<T>& in,
                                const Schedule& schedule, int warpgroup, float* all_lse,
                                const Matrix<T>& dq) {
  constexpr int kWidth = kStep<kD>;
  const float scale = in.scale * kLog2e;
  const int first = warpgroup * warpgroup::kRows;
  Step step;
  schedule.each([&](const Place& at, int i) {
    shared.rows_full[i % 2].wait(i / 2);
    auto& [q, dy] = shared.rows[i % 2];
    float lse[2], delta[2];
    shared.full[step.stage()].wait(step.phase());
    find_statistics<T, kD>(lse, delta, in, at, dy, shared.others[step.stage()], all_lse);
    shared.empty[step.stage()].arrive();
    ++step.count;
    Part<kD / 8> acc;
    for (int j0 = 0; j0 < end_of_keys(in, at); j0 += kWidth, ++step.count) {
      shared.full[step.stage()].wait(step.phase());
      warpgroup::publish_to_products();
      auto& [k, v] = shared.others[step.stage()];
      const bool is_seen = !in.causal || j0 < at.tile + first + warpgroup::kRows;
      const auto hide = [&](auto& s) {
        if (j0 + kWidth > in.S || (in.causal && j0 + kWidth - 1 > at.row)) {
          flash::hide(s, at.row, j0, in.S, in.causal);
        }
      };
      if (is_seen) {
        add_to_dq(acc, q, dy, first, k, v, scale, in.kept_scale, lse, delta,
                  kept_of<KeptOfQueries>(shared, step.stage(), at), hide);
      }
      shared.empty[step.stage()].arrive();
    }
    warpgroup::synchronize(warpgroup);  // all its warps have read the queries
    store_rows(q, acc, in.scale, in.of(dq, at.b), dq.row, at.tile, in.T_, in.D);
    shared.rows_empty[i % 2].arrive();
  });
}

template <class T, int kD, bool kDrops>
__device__ void compute_keys(Shared<T, kD, kDrops>& shared, const Problem<T>& in,
                             const Schedule& schedule, int warpgroup, const Matrix<T>& dk,
                             const Matrix<T>& dv) {
  constexpr int kWidth = kStep<kD>;
  const float scale = in.scale * kLog2e;
  const int first = warpgroup * warpgroup::kRows;
  Step step;
  schedule.each([&](const Place& at, int i) {
    shared.rows_full[i % 2].wait(i / 2);
    auto& [k, v] = shared.rows[i % 2];
    Part<kD / 8> acc_k, acc_v;
    for (int i0 = begin_of_queries(in, at); i0 < in.T_; i0 += kWidth, ++step.count) {
      const int now = step.stage();
      shared.full[now].wait(step.phase());
      warpgroup::publish_to_products();
      auto& [q, dy] = shared.others[now];
      const bool is_seen = !in.causal || i0 + kWidth > at.tile + first;
      const auto hide = [&](auto& s) {
        if (in.causal && at.row + 15 > i0) hide_keys(s, i0, at.row);
      };
      if (is_seen) {
        add_to_dk_and_dv(acc_k, acc_v, k, v, first, q, dy, scale, in.kept_scale, shared.lse[now],
                         shared.delta[now], kept_of<KeptOfKeys>(shared, now, at), hide);
      }
      shared.empty[now].arrive();
    }
    warpgroup::synchronize(warpgroup);  // all its warps have read the keys and values
    store_rows(v, acc_v, in.kept_scale, in.of(dv, at.b), dv.row, at.tile, in.S, in.D);
    store_rows(k, acc_k, in.scale, in.of(dk, at.b), dk.row, at.tile, in.S, in.D);
    shared.rows_empty[i % 2].arrive();
  });
}

// --- kernels ---

// Starts a kernel's block, and calls copy(shared) in the warpgroup that copies and compute(shared,
// number) in the others.
template <class T, int kD, bool kDrops, class Copy, class Compute>
__device__ void divide_work(Copy copy, Compute compute) {
  auto& shared = Shared<T, kD, kDrops>::here();
  shared.start();
  const int warpgroup = int(threadIdx.x) / warpgroup::kThreads;
  if (warpgroup == kGroups) {
    warpgroup::shrink_registers<kCopierRegisters>();
    copy(shared);
  } else {
    warpgroup::grow_registers<kRegisters>();
    compute(shared, warpgroup);
  }
}

// Computes dq = scale * ds k, and writes log2(e) times the log-sum-exp of queries to `lse` and the
// sums of dy * y to in.delta, which key_kernel needs.
template <class T, int kD, bool kDrops>
__global__ void __launch_bounds__(kThreads, 1)
    query_kernel(const Problem<T> in, const Schedule schedule, float* lse, const Matrix<T> dq) {
  begin_long_kernel();
  if constexpr (warpgroup::kHasWarpgroups) {
    divide_work<T, kD, kDrops>([&](auto& shared) { copy_for_queries(shared, in, schedule); },
                               [&](auto& shared, int warpgroup) {
                                 compute_queries(shared, in, schedule, warpgroup, lse, dq);
                               });
  }
}

// Computes dv = p^T dy and dk = scale * ds^T q. Runs after query_kernel, which wrote `lse`.
template <class T, int kD, bool kDrops>
__global__ void __launch_bounds__(kThreads, 1)
    key_kernel(const Problem<T> in, const Schedule schedule, const float* lse, const Matrix<T> dk,
               const Matrix<T> dv) {
  begin_long_kernel();
  if constexpr (warpgroup::kHasWarpgroups) {
    divide_work<T, kD, kDrops>([&](auto& shared) { copy_for_keys(shared, in, schedule, lse); },
                               [&](auto& shared, int warpgroup) {
                                 compute_keys(shared, in, schedule, warpgroup, dk, dv);
                               });
  }
}

}  // namespace taper::v0::kernels::cuda::hopper
