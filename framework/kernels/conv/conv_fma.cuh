// float32 convolutions with multiply-adds in float32, in channels-last memory. They are matrix
// products whose operands are gathered while they are loaded. Every sum has a fixed order.
//
// A thread computes 8 x 8 sums, so a warp computes 64 x 32. Tiles are prefetched into shared
// memory, kStages deep.
#pragma once

#include <cstdint>

#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "framework/base/namespace.h"
#include "framework/kernels/common/kernel_launch.h"

namespace taper::v0::kernels::cuda {

// Computes out[p, n] = sum over kd, kh, kw, c of in[pixel(p, kd, kh, kw), c] * weight[kd, kh, kw,
// c, n]. Pixel p = (image, d, h, w) of out reads pixel (image, d * stride + offset + kd * step,
// ...) of in. This gives y from x and, at stride 1 with negative steps, dx from dy. Kernels whose
// k3d is false do not read the side d, which then has size 1.
struct GatheredSide {
  int in, out, kernel, stride, offset, step;
};
struct Gathered {
  GatheredSide d, h, w;
  const float *in, *weight, *bias;  // bias [n] or null
  float* out;
  int channels, n, pixels;
  int weight_kernel, weight_channel;  // strides of weight; the stride of n is 1
  bool relu;
};
// Computes parts[split, n, k, c] = sum of out[p, n] * in[pixel(p, k), c] for the kernel positions k
// over the pixels
// p of a split. The sum of the parts is the gradient of weight, if out holds dy.
struct WeightSums {
  Gathered from;
  float* parts;
  int columns, per_split;  // kernel positions * c; pixels per split
};
// A kernel position as a distance between pixels of `in`.
struct GatherStep {
  int d, h, w;
  GatherStep() = default;
  template <bool k3d> __device__ static GatherStep to(const Gathered& g, int position) {
    const int row = position / g.w.kernel;
    GatherStep s;
    s.d = k3d ? row / g.h.kernel * g.d.step : 0;
    s.h = (k3d ? row % g.h.kernel : row) * g.h.step;
    s.w = position % g.w.kernel * g.w.step;
    return s;
  }
  template <bool k3d> __device__ int offset(const Gathered& g) const {
    return ((k3d ? d * g.h.in + h : h) * g.w.in + w) * g.channels;
  }
};

template <bool k3d> struct GatherDepth { int d; };
template <> struct GatherDepth<false> {};
// The pixel of `in` that pixel p of out reads at kernel position 0: its d, h and w, and its offset.
// If p is not valid, it is outside of every image.
template <bool k3d> struct alignas(16) GatherPlace : GatherDepth<k3d> {
  int at, h, w;
  GatherPlace() = default;
  __device__ GatherPlace(const Gathered& g, int p, bool valid) {
    const int row = p / g.w.out;
    w = (p - row * g.w.out) * g.w.stride + g.w.offset;
    const int plane = row / g.h.out;
    h = (row - plane * g.h.out) * g.h.stride + g.h.offset;
    int first = plane;
    if constexpr (k3d) {
      const int image = plane / g.d.out;
      this->d = (plane - image * g.d.out) * g.d.stride + g.d.offset;
      first = image * g.d.in + this->d;
    }
    at = ((first * g.h.in + h) * g.w.in + w) * g.channels;
    if (!valid) h = -(1 << 30);
  }
  // Returns whether the pixel at distance s is inside the image.
  __device__ bool reaches(const Gathered& g, GatherStep s) const {
    bool inside = unsigned(h + s.h) < unsigned(g.h.in) && unsigned(w + s.w) < unsigned(g.w.in);
    if constexpr (k3d) inside = inside && unsigned(this->d + s.d) < unsigned(g.d.in);
    return inside;
  }
};

static_assert(sizeof(GatherPlace<true>) == 16 && sizeof(GatherPlace<false>) == 16);

// Copies 4 floats to shared memory. Unless `wanted`, stores zeros and does not read `from`.
__device__ inline void fetch4(unsigned to, const float* from, bool wanted) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(wanted ? 16 : 0));
}
__device__ inline float4 load4(const float* p) { return *reinterpret_cast<const float4*>(p); }
__device__ inline void store4(float* p, float4 v) { *reinterpret_cast<float4*>(p) = v; }
__device__ inline void multiply_add(float (&sum)[8], float a, float4 b, float4 c) {
  sum[0] += a * b.x, sum[1] += a * b.y, sum[2] += a * b.z, sum[3] += a * b.w;
  sum[4] += a * c.x, sum[5] += a * c.y, sum[6] += a * c.z, sum[7] += a * c.w;
}
__device__ inline float part(const float4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// Returns the column of a lane. The lanes of a warp are arranged as 2^kBits columns and the
// remaining number of rows. 16-byte reads of shared memory take half the time if lanes i and i ^ 1,
// or i and i ^ 2, read the same address. Therefore bit 0 of the lane selects the column and bit 1
// the row.
template <int kBits> __device__ inline int across_of(int lane) {
  return (lane & 1) | ((lane >> 1) & ((1 << kBits) - 2));
}
template <int kBits> __device__ inline int down_of(int lane) {
  return ((lane >> 1) & 1) | ((lane >> (kBits + 1)) << 1);
}

constexpr int kDepth = 16;  // terms of a sum in shared memory at a time

// With kSplits = 2, the first half of the warps sums the first half of the terms of each chunk, and
// the second half of the warps the others. The tile then has half as many rows.
template <int kTileN, int kSplits> struct GatherTile {
  static constexpr int kWarps = 4, kThreads = 32 * kWarps, kStages = 3;
  static constexpr int kBits = kTileN == 64 ? 3 : 2;
  static constexpr int kAcross = 1 << kBits, kDown = 32 / kAcross;  // threads of a warp
  static constexpr int kRows = kWarps / kSplits * kDown * 8;
  static constexpr int kSizeA = kRows * kDepth, kSizeB = kDepth * kTileN;
  static constexpr int kShared = 4 * (kStages * (kSizeA + kSizeB) + 4 * kRows);
  static_assert(kTileN == 8 * kAcross && kSplits <= 2);
  static_assert(kSplits == 1 || kRows * kTileN <= kStages * (kSizeA + kSizeB));
  // Returns the position of quad q of a row's 4 quads. They are rotated to avoid bank conflicts.
  __device__ static int at(int row, int q) { return row * kDepth + (q ^ row / 2 % 4) * 4; }
};

// Adds the sums of the second half of a block's threads to those of the first half. Returns whether
// this thread has a result. `parts` may be the memory of the tiles.
__device__ inline bool join_splits(float (&sum)[8][8], float* parts) {
  const int half = int(blockDim.x) / 2, t = int(threadIdx.x);
  __syncthreads();  // the tiles have been read
  if (t >= half) {
#pragma unroll
    for (int i = 0; i < 64; ++i) parts[i * half + t - half] = sum[i / 8][i % 8];
  }
  __syncthreads();
  if (t >= half) return false;
#pragma unroll
  for (int i = 0; i < 64; ++i) sum[i / 8][i % 8] += parts[i * half + t];
  return true;
}

template <int kTileN, int kSplits, bool k3d>
__global__ void __launch_bounds__(GatherTile<kTileN, kSplits>::kThreads, 3)
    gather_kernel(const Gathered g) {
  begin_long_kernel();
  using Tile = GatherTile<kTileN, kSplits>;
  using Place = GatherPlace<k3d>;
  constexpr int kStages = Tile::kStages;
  extern __shared__ float4 shared[];
  Place* const places = reinterpret_cast<Place*>(shared);
  float* const tiles = reinterpret_cast<float*>(shared + Tile::kRows);
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const int first = blockIdx.x * Tile::kRows, first_n = blockIdx.y * kTileN;
  for (int r = t; r < Tile::kRows; r += Tile::kThreads) {
    places[r] = Place(g, first + r, first + r < g.pixels);
  }
  __syncthreads();

  const int rows = k3d ? g.d.kernel * g.h.kernel : g.h.kernel;
  const int chunks = rows * g.w.kernel * ((g.channels + kDepth - 1) / kDepth);
  int kd = 0, kh = 0, kw = 0, c0 = 0;  // position of the next chunk to fetch
  constexpr int kQuadsA = kDepth / 4, kQuadsB = kTileN / 4;
  const int row_a = t / kQuadsA, c_a = t % kQuadsA * 4, row_b = t / kQuadsB;
  const int n_b = first_n + t % kQuadsB * 4;
  const unsigned shared_tiles = unsigned(__cvta_generic_to_shared(tiles));
  const auto fetch_next = [&](int stage) {
    const unsigned a = shared_tiles + 4 * stage * (Tile::kSizeA + Tile::kSizeB);
    const unsigned b = a + 4 * Tile::kSizeA + 16 * t;
    GatherStep step;
    step.d = k3d ? kd * g.d.step : 0, step.h = kh * g.h.step, step.w = kw * g.w.step;
    const float* const in = g.in + step.offset<k3d>(g) + c0 + c_a;
    const bool in_range = c0 + c_a < g.channels;
#pragma unroll
    for (int j = 0; j < Tile::kRows * kQuadsA / Tile::kThreads; ++j) {
      const int r = row_a + j * (Tile::kThreads / kQuadsA);
      const Place place = places[r];
      fetch4(a + 4 * Tile::at(r, c_a / 4), in + place.at, in_range && place.reaches(g, step));
    }
    const int row = k3d ? kd * g.h.kernel + kh : kh;
    const float* const weight = g.weight + (row * g.w.kernel + kw) * g.weight_kernel + n_b;
    const int last = n_b < g.n ? g.channels - c0 : 0;
#pragma unroll
    for (int j = 0; j < (kDepth * kQuadsB + Tile::kThreads - 1) / Tile::kThreads; ++j) {
      const int k = row_b + j * (Tile::kThreads / kQuadsB);
      if (k >= kDepth) break;
      fetch4(b + 16 * j * Tile::kThreads, weight + (c0 + k) * g.weight_channel, k < last);
    }
    c0 += kDepth;
    if (c0 < g.channels) return;
    c0 = 0;
    if (++kw < g.w.kernel) return;
    kw = 0;
    if (++kh < g.h.kernel || !k3d) return;
    kh = 0;
    ++kd;
  };

  float sum[8][8] = {};
  const int n = across_of<Tile::kBits>(lane) * 4;
  constexpr int kWarps = Tile::kWarps / kSplits, kTerms = kDepth / kSplits;
  const int split = warp / kWarps;
  const int row = warp % kWarps * Tile::kDown * 8 + down_of<Tile::kBits>(lane);
  int quads[4];  // of the thread's first row; those of its split come first
#pragma unroll
  for (int q = 0; q < 4; ++q) quads[q] = Tile::at(row, q ^ split * (kTerms / 4));
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < chunks) fetch_next(s);
    __pipeline_commit();
  }
  for (int i = 0; i < chunks; ++i) {
    __pipeline_wait_prior(kStages - 2);
    __syncthreads();
    if (i + kStages - 1 < chunks) fetch_next((i + kStages - 1) % kStages);
    __pipeline_commit();
    const float* const a = tiles + i % kStages * (Tile::kSizeA + Tile::kSizeB);
    const float* const b = a + Tile::kSizeA + split * kTerms * kTileN;
#pragma unroll
    for (int k = 0; k < kTerms; k += 4) {
      float4 x[8];
#pragma unroll
      for (int r = 0; r < 8; ++r) {
        x[r] = load4(a + quads[k / 4 ^ r * Tile::kDown / 2 % 4] + r * Tile::kDown * kDepth);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float4 low = load4(b + (k + j) * kTileN + n);
        const float4 high = load4(b + (k + j) * kTileN + kTileN / 2 + n);
#pragma unroll
        for (int r = 0; r < 8; ++r) multiply_add(sum[r], part(x[r], j), low, high);
      }
    }
  }
  if constexpr (kSplits == 2) {
    if (!join_splits(sum, tiles)) return;
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int column = first_n + half * (kTileN / 2) + n;
    if (column >= g.n) continue;
    const float4 bias = g.bias ? load4(g.bias + column) : float4{};
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      const int p = first + row + r * Tile::kDown;
      const float* const s = sum[r] + 4 * half;
      float4 v = {s[0] + bias.x, s[1] + bias.y, s[2] + bias.z, s[3] + bias.w};
      // NaN stays NaN, because the comparison is false.
      if (g.relu) v = {v.x < 0 ? 0 : v.x, v.y < 0 ? 0 : v.y, v.z < 0 ? 0 : v.z, v.w < 0 ? 0 : v.w};
      if (p < g.pixels) store4(g.out + int64_t(p) * g.n + column, v);
    }
  }
}

template <int kWarps, int kStages> struct WeightTile {
  static constexpr int kThreads = 32 * kWarps, kRows = 64, kColumns = 32 * kWarps;
  static constexpr int kSizeA = kDepth * kRows, kSizeB = kDepth * kColumns;
  static constexpr int kShared = 4 * kStages * (kSizeA + kSizeB) + 2 * 16 * kDepth;
};

template <int kWarps, int kStages, int kResident, bool k3d>
__global__ void __launch_bounds__(32 * kWarps, kResident) weight_kernel(const WeightSums sums) {
  begin_long_kernel();
  using Place = GatherPlace<k3d>;
  const Gathered& g = sums.from;
  using Tile = WeightTile<kWarps, kStages>;
  extern __shared__ float4 shared[];
  // The places of the pixels of two chunks.
  Place* const places = reinterpret_cast<Place*>(shared);
  float* const tiles = reinterpret_cast<float*>(shared + 2 * kDepth);
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const int first_o = blockIdx.y * Tile::kRows, first_column = blockIdx.x * Tile::kColumns;
  const int begin = blockIdx.z * sums.per_split, end = min(begin + sums.per_split, g.pixels);
  const int chunks = (end - begin + kDepth - 1) / kDepth;

  // A thread fetches two quads per step: one of columns of x, always at the same kernel position
  // and channels, and one of dy.
  constexpr int kQuadsA = Tile::kRows / 4, kQuadsB = Tile::kColumns / 4;
  const int quad = first_column + t % kQuadsB * 4;
  const GatherStep step = GatherStep::to<k3d>(g, quad / g.channels);
  const float* const x = g.in + step.offset<k3d>(g) + quad % g.channels;
  const int o = first_o + t % kQuadsA * 4;
  const float* const dy = g.out + o;
  const unsigned shared_tiles = unsigned(__cvta_generic_to_shared(tiles));

  const auto find_places = [&](int chunk) {
    const int p = begin + chunk * kDepth + t;
    if (t < kDepth) places[chunk % 2 * kDepth + t] = Place(g, p, p < end);
  };
  const auto fetch_chunk = [&](int chunk) {
    const unsigned a =
        shared_tiles + 4 * (chunk % kStages) * (Tile::kSizeA + Tile::kSizeB) + 16 * t;
    const unsigned b = a + 4 * Tile::kSizeA;
    const int first = begin + chunk * kDepth, last = o < g.n ? end : 0;
#pragma unroll
    for (int j = 0; j < (kDepth * kQuadsA + Tile::kThreads - 1) / Tile::kThreads; ++j) {
      const int k = t / kQuadsA + j * (Tile::kThreads / kQuadsA);
      if (k >= kDepth) break;
      fetch4(a + 16 * j * Tile::kThreads, dy + (first + k) * g.n, first + k < last);
    }
#pragma unroll
    for (int j = 0; j < kDepth * kQuadsB / Tile::kThreads; ++j) {
      const int k = t / kQuadsB + j * (Tile::kThreads / kQuadsB);
      const Place place = places[chunk % 2 * kDepth + k];
      fetch4(b + 16 * j * Tile::kThreads, x + place.at,
             quad < sums.columns && place.reaches(g, step));
    }
  };

  float sum[8][8] = {};
  const int row = down_of<2>(lane) * 4, column = warp * 32 + across_of<2>(lane) * 4;
#pragma unroll
  for (int s = 0; s < kStages; ++s) {
    find_places(s);
    __syncthreads();
    if (s == kStages - 1) break;
    if (s < chunks) fetch_chunk(s);
    __pipeline_commit();
  }
  for (int i = 0; i < chunks; ++i) {
    __pipeline_wait_prior(kStages - 2);
    __syncthreads();
    if (i + kStages - 1 < chunks) fetch_chunk(i + kStages - 1);
    __pipeline_commit();
    find_places(i + kStages);
    const float* const a = tiles + i % kStages * (Tile::kSizeA + Tile::kSizeB);
    const float* const b = a + Tile::kSizeA;
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      const float4 x[2] = {load4(a + k * Tile::kRows + row), load4(a + k * Tile::kRows + 32 + row)};
      const float4 low = load4(b + k * Tile::kColumns + column);
      const float4 high = load4(b + k * Tile::kColumns + 16 + column);
#pragma unroll
      for (int r = 0; r < 8; ++r) multiply_add(sum[r], part(x[r / 4], r % 4), low, high);
    }
  }

#pragma unroll
  for (int r = 0; r < 8; ++r) {
    const int o = first_o + r / 4 * 32 + row + r % 4;
    float* const to = sums.parts + (int64_t(blockIdx.z) * g.n + o) * sums.columns;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = first_column + column + 16 * half;
      const float* const s = sum[r] + 4 * half;
      if (o < g.n && at < sums.columns) store4(to + at, {s[0], s[1], s[2], s[3]});
    }
  }
}

// --- few channels: a thread computes 4 outputs of 4 pixels ---

// Arguments of the kernel below. weight is [n, taps], where taps = kernel positions * c. n is a
// multiple of 4.
struct FewChannels {
  Gathered g;
  int taps;
  int shared() const { return taps * (g.n * 4 + 16); }
};

constexpr int kFewPixels = 4;

template <bool k3d> __global__ void __launch_bounds__(256) few_kernel(const FewChannels f) {
  begin_long_kernel();
  const Gathered& g = f.g;
  extern __shared__ float4 shared[];
  float* const weight = reinterpret_cast<float*>(shared);  // [taps, n]
  // The distance h, w and d, and the offset for each tap.
  int4* const steps = reinterpret_cast<int4*>(shared + f.taps * g.n / 4);
  for (int i = threadIdx.x; i < f.taps * g.n; i += blockDim.x) {
    weight[i % f.taps * g.n + i / f.taps] = g.weight[i];
  }
  for (int i = threadIdx.x; i < f.taps; i += blockDim.x) {
    const GatherStep s = GatherStep::to<k3d>(g, i / g.channels);
    steps[i] = {s.h, s.w, s.offset<k3d>(g) + i % g.channels, s.d};
  }
  __syncthreads();
  const int quads = g.n / 4, groups = (g.pixels + kFewPixels - 1) / kFewPixels;
  const int step = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < groups * quads; i += step) {
    const int n = i % quads * 4;
    const auto pixel = [&](int j) { return i / quads + j * groups; };
    GatherPlace<k3d> at[kFewPixels];
    float4 sum[kFewPixels];
#pragma unroll
    for (int j = 0; j < kFewPixels; ++j) {
      at[j] = GatherPlace<k3d>(g, pixel(j), pixel(j) < g.pixels);
      sum[j] = g.bias ? load4(g.bias + n) : float4{};
    }
#pragma unroll 3
    for (int k = 0; k < f.taps; ++k) {
      const int4 step_k = steps[k];
      GatherStep to;
      to.d = step_k.w, to.h = step_k.x, to.w = step_k.y;
      const float4 by = load4(weight + k * g.n + n);
#pragma unroll
      for (int j = 0; j < kFewPixels; ++j) {
        const bool inside = at[j].reaches(g, to);
        const float a = inside ? g.in[at[j].at + step_k.z] : 0;
        sum[j].x += a * by.x, sum[j].y += a * by.y, sum[j].z += a * by.z, sum[j].w += a * by.w;
      }
    }
#pragma unroll
    for (int j = 0; j < kFewPixels; ++j) {
      float4 v = sum[j];
      if (g.relu) v = {v.x < 0 ? 0 : v.x, v.y < 0 ? 0 : v.y, v.z < 0 ? 0 : v.z, v.w < 0 ? 0 : v.w};
      if (pixel(j) < g.pixels) store4(g.out + int64_t(pixel(j)) * g.n + n, v);
    }
  }
}

constexpr int kMaxTaps = 32;

// Computes partial sums of the weight's gradient. Each lane sums all taps of one output channel
// over the pixels of its warp. For that, lane k loads the input of tap k.
template <int kTaps, bool k3d>
__global__ void __launch_bounds__(256) few_weight_kernel(const WeightSums s) {
  begin_kernel();
  constexpr int kWarps = 8, kTogether = 4;
  const Gathered& g = s.from;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, o = blockIdx.y * 32 + lane;
  const GatherStep to = GatherStep::to<k3d>(g, lane / g.channels);
  const int step = to.offset<k3d>(g) + lane % g.channels;
  const int begin = blockIdx.x * s.per_split, end = min(begin + s.per_split, g.pixels);
  float sum[kTaps] = {};
  for (int first = begin + warp * kTogether; first < end; first += kWarps * kTogether) {
    float dy[kTogether], x[kTogether];
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      const int p = first + j;
      const GatherPlace<k3d> at(g, p, p < end && lane < s.columns);
      x[j] = at.reaches(g, to) ? g.in[at.at + step] : 0;
      dy[j] = p < end && o < g.n ? g.out[int64_t(p) * g.n + o] : 0;
    }
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
#pragma unroll
      for (int k = 0; k < kTaps; ++k) sum[k] += dy[j] * __shfl_sync(~0u, x[j], k);
    }
  }
  __shared__ float parts[kWarps][kTaps][32];
#pragma unroll
  for (int k = 0; k < kTaps; ++k) parts[warp][k][lane] = sum[k];
  __syncthreads();
  for (int i = threadIdx.x; i < kTaps * 32; i += 256) {
    const int k = i % kTaps, at = blockIdx.y * 32 + i / kTaps;
    float total = 0;
    for (int j = 0; j < kWarps; ++j) total += parts[j][k][i / kTaps];
    if (k < s.columns && at < g.n) {
      s.parts[(int64_t(blockIdx.x) * g.n + at) * s.columns + k] = total;
    }
  }
}

// --- sums of parts: out[i] = sum over s of parts[s, i]; a block has 8 lanes for s ---
__global__ void __launch_bounds__(256)
    sum_parts_kernel(float* out, const float* parts, int n, int splits) {
  begin_kernel();
  __shared__ float lanes[8][32];
  const int i = blockIdx.x * 32 + threadIdx.x % 32, lane = threadIdx.x / 32;
  float sum = 0;
  if (i < n) {
#pragma unroll 8
    for (int s = lane; s < splits; s += 8) sum += parts[int64_t(s) * n + i];
  }
  lanes[lane][threadIdx.x % 32] = sum;
  __syncthreads();
  if (lane > 0 || i >= n) return;
  for (int s = 1; s < 8; ++s) sum += lanes[s][threadIdx.x];
  out[i] = sum;
}

}  // namespace taper::v0::kernels::cuda
