// Multiplies a few rows of A, read in place and broadcast, by a packed panel of B that is two
// vectors wide. The sums stay in registers (Goto and van de Geijn,
// https://doi.org/10.1145/1356052). If the CPU has fused multiply-add, it is requested explicitly.
// Otherwise whether a compiler fuses x * b + sum would depend on the surrounding loop, and the bits
// would depend on the size of the tile.
#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "framework/kernels/matmul/matmul.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace taper::v0::kernels::cpu {
namespace {

constexpr int64_t kDepth = 384;  // elements of k per block
constexpr int64_t kWidth = 128;  // columns packed together
constexpr int64_t kLine = 16;    // floats per cache line
constexpr int kMaxRows = 12, kPanel = 2;

struct Scratch {
  alignas(64) float panels[kDepth * kWidth], strip[kDepth * kMaxRows];
};

// A vector of W floats.
template <int W> using Vec [[gnu::vector_size(W * 4)]] = float;

// Computes sum += x * b with a single rounding, except for vectors of 4 on CPUs without FMA.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
template <int W, int... I>
[[gnu::always_inline]] inline void add_product(Vec<W>& sum, float x, const Vec<W>& b,
                                               std::integer_sequence<int, I...>) {
  if constexpr (W == 4) {
    sum += x * b;
  } else {
#if defined(__clang__) || !defined(__x86_64__)
    sum = Vec<W>{__builtin_fmaf(x, b[I], sum[I])...};
#else
    const Vec<W> all = x - Vec<W>{};
    if constexpr (W == 8) sum = __builtin_ia32_vfmaddps256(all, b, sum);
    if constexpr (W == 16) sum = __builtin_ia32_vfmaddps512_mask(all, b, sum, -1, 4);
#endif
  }
}
#pragma GCC diagnostic pop

// Interleaves the first (from = 0) or second (from = W / 2) halves of a and b.
template <int W, int... I>
[[gnu::always_inline]] inline void interleave(Vec<W>& y, const Vec<W>& a, const Vec<W>& b,
                                              std::integer_sequence<int, I...>, auto from) {
  y = __builtin_shufflevector(a, b, (decltype(from)::value + I / 2 + I % 2 * W)...);
}

// Transposes: x[i][j] becomes x[j][i], by perfect shuffles of the two halves.
template <int W> [[gnu::always_inline]] inline void transpose(Vec<W>* x) {
  constexpr std::make_integer_sequence<int, W> kLanes;
#pragma GCC unroll 4
  for (int stage = 1; stage < W; stage *= 2) {
    Vec<W> y[W];
#pragma GCC unroll 8
    for (int i = 0; i < W / 2; ++i) {
      interleave<W>(y[2 * i], x[i], x[i + W / 2], kLanes, std::integral_constant<int, 0>());
      interleave<W>(y[2 * i + 1], x[i], x[i + W / 2], kLanes, std::integral_constant<int, W / 2>());
    }
#pragma GCC unroll 16
    for (int i = 0; i < W; ++i) x[i] = y[i];
  }
}

// Packs columns [0, n) of op(B), from row p0 on, as rows of `width` floats. Missing columns are 0.
template <int W>
[[gnu::always_inline]] inline void pack(float* to, const Gemm& g, const float* b, int64_t depth,
                                        int64_t n, int64_t width) {
  if (!g.transpose_b) {
    for (int64_t p = 0; p < depth; ++p, to += width) {
      if (n == kPanel * W) {
        std::memcpy(to, b + p * g.ldb, kPanel * W * sizeof(float));
        continue;
      }
      for (int64_t j = 0; j < n; ++j) to[j] = b[p * g.ldb + j];
      for (int64_t j = n; j < width; ++j) to[j] = 0;
    }
    return;
  }
  for (int64_t j0 = 0; j0 < width; j0 += W) {
    const float* from = b + j0 * g.ldb;
    const int64_t columns = std::min<int64_t>(W, n - j0);
    int64_t p = 0;
    for (; p + W <= depth; p += W) {
      Vec<W> x[W] = {};
      for (int64_t i = 0; i < columns; ++i) std::memcpy(&x[i], from + i * g.ldb + p, sizeof x[i]);
      transpose<W>(x);
      for (int i = 0; i < W; ++i) std::memcpy(to + (p + i) * width + j0, &x[i], sizeof x[i]);
    }
    for (; p < depth; ++p) {
      for (int64_t i = 0; i < W; ++i) {
        to[p * width + j0 + i] = i < columns ? from[i * g.ldb + p] : 0;
      }
    }
  }
}

// Converts sums to elements of C: alpha * sum + (scale * c + added). A null `added` means 0.
struct Finish {
  float alpha, scale;
  const float* added;
  bool plain() const { return alpha == 1 && scale == 0 && !added; }
  template <int W> float of(float sum, float c, int64_t j) const {
    const float rest = (scale == 0 ? 0 : scale * c) + (added ? added[j] : 0);
    return W == 4 ? alpha * sum + rest : __builtin_fmaf(alpha, sum, rest);
  }
};

// Computes R rows of C [R, n] from R rows of A, `across` elements apart, and a panel of B.
template <int W, int R, int C>
[[gnu::always_inline]] inline void multiply(const Finish& finish, float* out, int64_t ldc,
                                            int64_t n, const float* a, int64_t across,
                                            int64_t along, const float* panel, int64_t depth) {
  Vec<W> sum[R][C] = {};
  const float* row[R];
  for (int r = 0; r < R; ++r) {
    row[r] = a + r * across;
    for (int64_t j = 0; j < n; j += kLine) __builtin_prefetch(out + r * ldc + j, 1);
  }
  int64_t at = 0;
  for (int64_t p = 0; p < depth; ++p, at += along, panel += C * W) {
    Vec<W> b[C];
#pragma GCC unroll 2
    for (int c = 0; c < C; ++c) std::memcpy(&b[c], panel + c * W, sizeof b[c]);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int c = 0; c < C; ++c) {
        add_product<W>(sum[r][c], row[r][at], b[c], std::make_integer_sequence<int, W>());
      }
    }
  }
  if (finish.plain() && n == C * W) {
    for (int64_t r = 0; r < R; ++r) std::memcpy(out + r * ldc, sum[r], sizeof sum[r]);
    return;
  }
  alignas(64) float tile[R][C * W];
  std::memcpy(tile, sum, sizeof tile);
  for (int64_t r = 0; r < R; ++r, out += ldc) {
    if (n == C * W) {
      for (int64_t j = 0; j < C * W; ++j) out[j] = finish.of<W>(tile[r][j], out[j], j);
    } else {
      for (int64_t j = 0; j < n; ++j) out[j] = finish.of<W>(tile[r][j], out[j], j);
    }
  }
}

// Copies R adjacent columns of a transposed A.
template <int R>
[[gnu::always_inline]] inline void gather(float* to, const float* a, int64_t lda, int64_t depth) {
  for (int64_t p = 0; p < depth; ++p) std::memcpy(to + p * R, a + p * lda, R * sizeof(float));
}

// Calls f with an integral constant for the number of rows.
template <int R, class F> [[gnu::always_inline]] inline void with_rows(int64_t rows, F f) {
  if constexpr (R > 1) {
    if (rows < R) return with_rows<R - 1>(rows, f);
  }
  f(std::integral_constant<int, R>());
}

// A part of B, packed in panels: depth x width elements from row p and column j0 on.
struct Part {
  int64_t p, depth, j0, width;
};

// Multiplies R rows of A, from row i on, by a part of B.
template <int W, int R>
[[gnu::always_inline]] inline void multiply_rows(const Gemm& g, const Part& part, int64_t i,
                                                 const float* a, Scratch& scratch, float* c,
                                                 const float* bias) {
  constexpr int64_t kFull = kPanel * W;
  const float* x = a + (g.transpose_a ? part.p * g.lda + i : i * g.lda + part.p);
  if (g.transpose_a) gather<R>(scratch.strip, x, g.lda, part.depth);
  const float* from = g.transpose_a ? scratch.strip : x;
  const int64_t across = g.transpose_a ? 1 : g.lda, along = g.transpose_a ? R : 1;
  for (int64_t j = 0; j < part.width; j += kFull) {
    const int64_t n = std::min(kFull, part.width - j), at = part.j0 + j;
    const Finish finish{g.alpha, part.p == 0 ? g.beta : 1,
                        part.p == 0 && bias ? bias + at : nullptr};
    float* out = c + i * g.ldc + at;
    const float* panel = scratch.panels + j * part.depth;
    if (n > W) {
      multiply<W, R, kPanel>(finish, out, g.ldc, n, from, across, along, panel, part.depth);
    } else {
      multiply<W, R, 1>(finish, out, g.ldc, n, from, across, along, panel, part.depth);
    }
  }
}

// kRows is the number of rows that fit in the registers next to a panel.
template <int W, int kRows>
[[gnu::always_inline]] inline void run(const Gemm& g, const float* a, const float* b, float* c,
                                       const float* bias) {
  thread_local const auto scratch = std::make_unique_for_overwrite<Scratch>();
  constexpr int64_t kFull = kPanel * W;
  const int64_t parts = (g.k + kDepth - 1) / kDepth, step = (g.k + parts - 1) / parts;
  const int64_t row_tiles = (g.m + kRows - 1) / kRows, height = (g.m + row_tiles - 1) / row_tiles;
  for (int64_t p = 0; p < g.k; p += step) {
    const int64_t depth = std::min(step, g.k - p);
    for (int64_t j0 = 0; j0 < g.n; j0 += kWidth) {
      const int64_t width = std::min(kWidth, g.n - j0);
      for (int64_t j = 0; j < width; j += kFull) {
        const int64_t n = std::min(kFull, width - j), at = j0 + j;
        pack<W>(scratch->panels + j * depth, g,
                b + (g.transpose_b ? at * g.ldb + p : p * g.ldb + at), depth, n, n > W ? kFull : W);
      }
      for (int64_t i = 0; i < g.m; i += height) {
        const int64_t rows = std::min(height, g.m - i);
        with_rows<kRows>(
            rows, [&](auto r) __attribute__((always_inline)) {
              multiply_rows<W, decltype(r)::value>(g, {p, depth, j0, width}, i, a, *scratch, c,
                                                   bias);
            });
      }
    }
  }
}

#if defined(__x86_64__)
[[gnu::target("arch=x86-64-v4")]] void run_v4(const Gemm& g, const float* a, const float* b,
                                              float* c, const float* bias) {
  run<16, kMaxRows>(g, a, b, c, bias);
}
[[gnu::target("arch=x86-64-v3")]] void run_v3(const Gemm& g, const float* a, const float* b,
                                              float* c, const float* bias) {
  run<8, 6>(g, a, b, c, bias);
}
#endif

void run_plain(const Gemm& g, const float* a, const float* b, float* c, const float* bias) {
  run<4, 6>(g, a, b, c, bias);
}

}  // namespace

void sgemm(const Gemm& g, const float* a, const float* b, float* c, const float* bias) {
#if defined(__x86_64__)
  static const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                         __builtin_cpu_supports("bmi2");
  static const bool v4 = v3 && __builtin_cpu_supports("avx512f") &&
                         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  (v4 ? run_v4 : v3 ? run_v3 : run_plain)(g, a, b, c, bias);
#else
  run_plain(g, a, b, c, bias);
#endif
}

}  // namespace taper::v0::kernels::cpu
