// Computes C = alpha * op(A) op(B) + beta * C. The output is cut into tiles, each of which is one
// product on one thread. The sum of an element does not depend on its tile, except where oneDNN
// multiplies. There the tiles depend only on the shape.
#include "framework/kernels/matmul/matmul.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include <oneapi/dnnl/dnnl.h>

#include "framework/host/parallel.h"
#include "framework/kernels/common/arithmetic.h"
#include "framework/kernels/common/convert.h"
#include "framework/kernels/common/one_thread_cpu.h"
#include "framework/kernels/common/simd_cpu.h"
#include "framework/kernels/elementwise/activation_functors.h"
#include "framework/kernels/elementwise/convert_cpu.h"

namespace taper::v0::kernels::cpu {
namespace {

// With fewer multiply-adds per thread, waking a thread costs more than it saves.
constexpr int64_t kThreadWork = int64_t(1) << 18;
// Multiply-adds per tile with oneDNN, and the maximum number of tiles.
constexpr int64_t kTileWork = int64_t(1) << 22, kMostTiles = 16;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// The grid of tiles over one C. Each tile is rows x cols; the last ones are smaller.
struct Tiling {
  int64_t rows, cols, down, across;
};

// Returns a grid of at most `wanted` tiles. No tile is so low or narrow that packing does not pay
// off.
Tiling make_tiling(const Gemm& g, int64_t wanted) {
  constexpr int64_t kWide = 128, kNarrow = 32, kHigh = 192, kLow = 24;
  int64_t down = 1, across = 1, rows = g.m, cols = g.n;
  while (2 * g.batch * down * across <= wanted && (cols > kNarrow || rows > kLow)) {
    (cols > kWide || (cols > kNarrow && rows < kHigh) ? across : down) *= 2;
    rows = round_up(ceil_div(g.m, down), 12);
    cols = round_up(ceil_div(g.n, across), kNarrow);
  }
  return {rows, cols, ceil_div(g.m, rows), ceil_div(g.n, cols)};
}

// Returns whether oneDNN is used. It is 10 % faster for large products whose B is not transposed
// (2.6, Sapphire Rapids).
bool is_for_onednn(const Gemm& g) {
  return g.dtype == kFloat32 && !g.transpose_b && g.m * g.n * g.k >= int64_t(1) << 20;
}
bool multiply_by_onednn(const Gemm& g, const float* a, const float* b, float* c) {
  return dnnl_sgemm(g.transpose_a ? 'T' : 'N', 'N', g.m, g.n, g.k, g.alpha, a, g.lda, b, g.ldb,
                    g.beta, c, g.ldc) == dnnl_success;
}

// Applies the activation to a part of C and stores its arguments in `before`.
template <class T> void activate(const Gemm& part, T* c, const Epilogue& then, int64_t at) {
  if (then.activation == Activation::kNone) return;
  visit(then.activation, [&](auto f) {
    for (int64_t i = 0; i < part.m; ++i) {
      T *y = c + at + i * part.ldc, *kept = static_cast<T*>(then.before);
      if (kept) std::copy_n(y, part.n, kept + at + i * part.ldc);
      vector_for(part.n, [=](int64_t j) { y[j] = T(f(AccumulateType<T>(y[j]))); });
    }
  });
}

// Adds x[p] * b[p, :] to `sums`, of `width` elements, in the order of p, four at a time. The
// elements of x are `step` apart.
[[gnu::always_inline]] inline void add_products(const Gemm& g, const double* x, int64_t step,
                                                const double* row, int64_t width, double* sums) {
  int64_t p = 0;
  for (; p + 4 <= g.k; p += 4, x += 4 * step, row += 4 * g.ldb) {
    const double x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step];
    const double *r1 = row + g.ldb, *r2 = r1 + g.ldb, *r3 = r2 + g.ldb;
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      sums[j] = sums[j] + x0 * row[j] + x1 * r1[j] + x2 * r2[j] + x3 * r3[j];
    }
  }
  for (; p < g.k; ++p, x += step, row += g.ldb) {
    for (int64_t j = 0; j < width; ++j) sums[j] += *x * row[j];
  }
}

// Computes a tile of C. B is not transposed here.
TAPER_CLONES void multiply_tile(const Gemm& g, const double* a, const double* b, double* c) {
  constexpr int64_t kWidth = 256;
  double sums[kWidth];
  const int64_t step = g.transpose_a ? g.lda : 1;
  for (int64_t j0 = 0; j0 < g.n; j0 += kWidth) {
    const int64_t width = std::min(kWidth, g.n - j0);
    for (int64_t i = 0; i < g.m; ++i) {
      std::fill_n(sums, width, 0.0);
      add_products(g, a + (g.transpose_a ? i : i * g.lda), step, b + j0, width, sums);
      double* out = c + i * g.ldc + j0;
      for (int64_t j = 0; j < width; ++j) {
        out[j] = double(g.alpha) * sums[j] + (g.beta == 0 ? 0.0 : double(g.beta) * out[j]);
      }
    }
  }
}

template <class T>
void multiply(const Gemm& g, const T* a, const T* b, T* c, const Epilogue& then = {}) {
  const int64_t work = g.batch * g.m * g.n * g.k;
  const int threads = host::threads_for(work / kThreadWork, 1);
  const bool onednn = is_for_onednn(g) && !then.bias;
  const int64_t most = threads > 1 ? 3 * threads : 1;
  const Tiling grid = make_tiling(g, onednn ? std::min(work / kTileWork, kMostTiles) : most);
  const int64_t tiles = g.batch * grid.down * grid.across;
  const auto one_tile = [&](int64_t i) {
    const int64_t matrix = i / (grid.down * grid.across);
    const int64_t row = i / grid.across % grid.down * grid.rows;
    const int64_t col = i % grid.across * grid.cols;
    Gemm t = g;
    t.m = std::min(grid.rows, g.m - row);
    t.n = std::min(grid.cols, g.n - col);
    const T* pa = a + matrix * g.stride_a + (g.transpose_a ? row : row * g.lda);
    const T* pb = b + matrix * g.stride_b + (g.transpose_b ? col * g.ldb : col);
    const int64_t at = matrix * g.stride_c + row * g.ldc + col;
    if constexpr (std::is_same_v<T, float>) {
      if (onednn && multiply_by_onednn(t, pa, pb, c + at)) return activate(t, c, then, at);
      sgemm(t, pa, pb, c + at, then.bias ? static_cast<const float*>(then.bias) + col : nullptr);
    } else {
      multiply_tile(t, pa, pb, c + at);
    }
    activate(t, c, then, at);
  };
  const int64_t chunks = std::min<int64_t>(tiles, threads * 8);
  host::parallel_tasks(chunks, threads, [&](int64_t i) {
    const OneThreadGuard one;
    for (int64_t t = tiles * i / chunks; t < tiles * (i + 1) / chunks; ++t) one_tile(t);
  });
}

void multiply_doubles(const Gemm& g, const double* a, const double* b, double* c) {
  if (!g.transpose_b) return multiply(g, a, b, c);
  Gemm straight = g;
  straight.transpose_b = false;
  straight.ldb = g.n;
  straight.stride_b = g.stride_b == 0 ? 0 : g.k * g.n;
  const int64_t matrices = g.stride_b == 0 ? 1 : g.batch;
  std::vector<double> transposed(size_t(matrices * g.k * g.n));
  host::parallel_each(matrices * g.k, g.n, [&](int64_t r) {
    const double* column = b + r / g.k * g.stride_b + r % g.k;
    for (int64_t j = 0; j < g.n; ++j) transposed[size_t(r * g.n + j)] = column[j * g.ldb];
  });
  multiply(straight, a, transposed.data(), c);
}

// Converts the stored matrices, one or `batch` of them, to dense floats.
template <class T>
std::vector<float> widen(const T* x, int64_t batch, int64_t stride, int64_t rows, int64_t cols,
                         int64_t ld) {
  const int64_t matrices = stride == 0 ? 1 : batch;
  std::vector<float> out(size_t(matrices * rows * cols));
  const ConvertFn to_float = converter(dtype_of<T>, kFloat32);
  host::parallel_each(matrices * rows, cols, [&](int64_t r) {
    to_float(x + r / rows * stride + r % rows * ld, 1, out.data() + r * cols, 1, cols);
  });
  return out;
}

// Multiplies half types: products and sums in float, with one rounding at the end.
template <class T> void multiply_wide(const Gemm& g, const T* a, const T* b, T* c) {
  Gemm f = g;
  f.dtype = kFloat32;
  f.lda = g.transpose_a ? g.m : g.k;
  f.ldb = g.transpose_b ? g.k : g.n;
  f.ldc = g.n;
  f.stride_a = g.stride_a == 0 ? 0 : g.m * g.k;
  f.stride_b = g.stride_b == 0 ? 0 : g.k * g.n;
  f.stride_c = g.m * g.n;
  const auto wide_a = widen(a, g.batch, g.stride_a, g.m * g.k / f.lda, f.lda, g.lda);
  const auto wide_b = widen(b, g.batch, g.stride_b, g.k * g.n / f.ldb, f.ldb, g.ldb);
  std::vector<float> wide_c(size_t(g.batch * g.m * g.n));
  if (g.beta != 0) wide_c = widen(c, g.batch, g.stride_c, g.m, g.n, g.ldc);
  multiply(f, wide_a.data(), wide_b.data(), wide_c.data());
  const ConvertFn from_float = converter(kFloat32, dtype_of<T>);
  host::parallel_each(g.batch * g.m, g.n, [&](int64_t r) {
    T* row = c + r / g.m * g.stride_c + r % g.m * g.ldc;
    from_float(wide_c.data() + r * g.n, 1, row, 1, g.n);
  });
}

// Multiplies integers, without blocking, because integer products are used for counting and tests
// only. Sums are in int64, which wraps.
template <class T> void multiply_integers(const Gemm& g, const T* a, const T* b, T* c) {
  for (int64_t r = 0; r < g.batch * g.m; ++r) {
    const int64_t matrix = r / g.m, i = r % g.m;
    const T* from_a = a + matrix * g.stride_a + (g.transpose_a ? i : i * g.lda);
    T* out = c + matrix * g.stride_c + i * g.ldc;
    for (int64_t j = 0; j < g.n; ++j) {
      const T* from_b = b + matrix * g.stride_b + (g.transpose_b ? j * g.ldb : j);
      int64_t sum = 0;
      for (int64_t p = 0; p < g.k; ++p) {
        sum = plus(sum, times(int64_t(from_a[g.transpose_a ? p * g.lda : p]),
                              int64_t(from_b[g.transpose_b ? p : p * g.ldb])));
      }
      const int64_t scaled = g.alpha == 1 ? sum : to_int64(double(g.alpha) * double(sum));
      const int64_t kept = g.beta == 0 ? 0 : to_int64(double(g.beta) * double(out[j]));
      out[j] = T(plus(scaled, kept));
    }
  }
}

// Handles k = 0, where there is nothing to add. beta = 0 clears C, including NaN.
template <class T> void scale_only(const Gemm& g, T* c) {
  for (int64_t r = 0; r < g.batch * g.m; ++r) {
    T* row = c + r / g.m * g.stride_c + r % g.m * g.ldc;
    for (int64_t j = 0; j < g.n; ++j) {
      row[j] = g.beta == 0 ? T(0.0f) : T(float(double(g.beta) * double(row[j])));
    }
  }
}

// Stores the bias, adds the product, and then applies the activation, for any type.
template <class T> void multiply_then(Gemm g, const T* a, const T* b, T* c, const Epilogue& then) {
  for (int64_t i = 0; then.bias && i < g.m; ++i) {
    std::copy_n(static_cast<const T*>(then.bias), g.n, c + i * g.ldc);
    g.beta = 1;
  }
  if (g.k == 0) {
    scale_only(g, c);
  } else if constexpr (std::is_same_v<T, double>) {
    multiply_doubles(g, a, b, c);
  } else if constexpr (is_half(dtype_of<T>)) {
    multiply_wide(g, a, b, c);
  } else {
    multiply_integers(g, a, b, c);
  }
  if constexpr (is_floating_point(dtype_of<T>)) {
    parallel_for(g.m, host::grain_of(8 * g.n), [&](int64_t begin, int64_t end) {
      Gemm rows = g;
      rows.m = end - begin;
      activate(rows, c, then, begin * g.ldc);
    });
  }
}

}  // namespace

void gemm(const Gemm& g, const void* a, const void* b, void* c, const Epilogue& then) {
  if (g.batch == 0 || g.m == 0 || g.n == 0) return;
  visit(g.dtype, [&]<class T>(TypeTag<T>) {
    const T *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
    if constexpr (std::is_same_v<T, float>) {
      if (g.k > 0) return multiply(g, x, y, static_cast<T*>(c), then);
    }
    multiply_then(g, x, y, static_cast<T*>(c), then);
  });
}

}  // namespace taper::v0::kernels::cpu
