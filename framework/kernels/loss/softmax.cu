// Softmax and log-softmax. Sums are in float (in double for double). Rows that fit are read once
// into registers; longer rows, and columns, are read twice.
#include "framework/kernels/loss/softmax.h"

#include <cstdint>

#include "framework/cuda/runtime.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/common/math.h"
#include "framework/kernels/reduce/columns.cuh"
#include "framework/kernels/reduce/row_reduce.cuh"

namespace taper::v0::kernels::cuda {
namespace {

using taper::cuda::Launch;

// Elements of a row that a thread holds in registers.
template <int kLanes> inline constexpr int kHeldItems = kLanes == kWarp ? 32 : 16;
template <int kLanes> inline constexpr int64_t kHeldSize = kLanes* kHeldItems<kLanes>;

// A row of up to kHeldSize elements, distributed over its threads.
template <class T, int kVec, int kLanes> struct HeldRow {
  static constexpr int kPacks = kHeldItems<kLanes> / kVec;
  using C = Compute<T>;
  C at[kPacks][kVec];

  __device__ static int place(int pack) { return (pack * kLanes + int(threadIdx.x)) * kVec; }

  // Calls f(p, j) for every element.
  template <class F> __device__ static void each(F f) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) f(p, j);
    }
  }
  __device__ void load(const T* row, int n, C beyond) {
    each([&](int p, int j) { at[p][j] = beyond; });
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (place(p) < n) load_row<T, kVec>(at[p], row + place(p));
    }
  }
  __device__ void store(T* row, int n) const {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (place(p) < n) store_row<T, kVec>(row + place(p), at[p]);
    }
  }
};

template <class T, int kVec, int kLanes>
__global__ void __launch_bounds__(kRowThreads<kLanes>)
    held_forward(bool log, T* y, const T* x, int64_t rows, int n) {
  begin_kernel();
  using C = Compute<T>;
  using Row = HeldRow<T, kVec, kLanes>;
  for (int64_t r = first_row(); r < rows; r += row_step()) {
    Row row;
    row.load(x + r * n, n, C(-INFINITY));
    C top = C(-INFINITY);
    Row::each([&](int p, int j) { top = larger(top, row.at[p][j]); });
    top = row_max<kLanes>(top);
    C sum = 0;  // an explicit loop, because each() takes 2 % longer for half types
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        const C shifted = row.at[p][j] - top;
        const C e = math::exp(shifted);
        sum += e;
        row.at[p][j] = log ? shifted : e;
      }
    }
    sum = row_sum<kLanes>(sum);
    const C scale = log ? C(1) : C(1) / sum;
    const C shift = log ? math::log(sum) : C(0);
    Row::each([&](int p, int j) { row.at[p][j] = row.at[p][j] * scale - shift; });
    row.store(y + r * n, n);
  }
}

template <class T, int kVec, int kLanes>
__global__ void __launch_bounds__(kRowThreads<kLanes>)
    long_forward(bool log, T* y, const T* x, int64_t rows, int64_t n) {
  begin_kernel();
  using C = Compute<T>;
  for (int64_t r = first_row(); r < rows; r += row_step()) {
    const auto total = max_sum_of_row<T, kVec, kLanes>(x + r * n, n);
    const C scale = C(1) / total.sum;
    const C shift = math::log(total.sum);
#pragma unroll 4
    for (int64_t i = int64_t(threadIdx.x) * kVec; i < n; i += kLanes * kVec) {
      C v[kVec];
      load_row<T, kVec>(v, x + r * n + i);
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        const C shifted = v[j] - total.max;
        v[j] = log ? shifted - shift : math::exp(shifted) * scale;
      }
      store_row<T, kVec>(y + r * n + i, v);
    }
  }
}

// Returns the term that is summed for the gradient. The gradient of softmax is y * (dy - sum(y *
// dy)). The gradient of log_softmax is dy - exp(y) * sum(dy).
template <class C> __device__ C term(bool log, C dy, C y) { return log ? dy : dy * y; }
template <class C> __device__ C gradient(bool log, C dy, C y, C sum) {
  return log ? dy - math::exp(y) * sum : y * (dy - sum);
}

template <class T, int kVec, int kLanes>
__global__ void __launch_bounds__(kRowThreads<kLanes>)
    held_backward(bool log, T* dx, const T* dy, const T* y, int64_t rows, int n) {
  begin_kernel();
  using C = Compute<T>;
  using Row = HeldRow<T, kVec, kLanes>;
  for (int64_t r = first_row(); r < rows; r += row_step()) {
    Row row_dy, row_y;
    row_dy.load(dy + r * n, n, C(0));
    row_y.load(y + r * n, n, C(0));
    C sum = 0;
    Row::each([&](int p, int j) { sum += term(log, row_dy.at[p][j], row_y.at[p][j]); });
    sum = row_sum<kLanes>(sum);
    Row::each([&](int p, int j) {
      row_dy.at[p][j] = gradient(log, row_dy.at[p][j], row_y.at[p][j], sum);
    });
    row_dy.store(dx + r * n, n);
  }
}

template <class T, int kVec, int kLanes>
__global__ void __launch_bounds__(kRowThreads<kLanes>)
    long_backward(bool log, T* dx, const T* dy, const T* y, int64_t rows, int64_t n) {
  begin_kernel();
  using C = Compute<T>;
  for (int64_t r = first_row(); r < rows; r += row_step()) {
    C sum = 0;
#pragma unroll 4
    for (int64_t i = int64_t(threadIdx.x) * kVec; i < n; i += kLanes * kVec) {
      C g[kVec], v[kVec];
      load_row<T, kVec>(g, dy + r * n + i);
      load_row<T, kVec>(v, y + r * n + i);
#pragma unroll
      for (int j = 0; j < kVec; ++j) sum += term(log, g[j], v[j]);
    }
    sum = row_sum<kLanes>(sum);
#pragma unroll 4
    for (int64_t i = int64_t(threadIdx.x) * kVec; i < n; i += kLanes * kVec) {
      C g[kVec], v[kVec];
      load_row<T, kVec>(g, dy + r * n + i);
      load_row<T, kVec>(v, y + r * n + i);
#pragma unroll
      for (int j = 0; j < kVec; ++j) g[j] = gradient(log, g[j], v[j], sum);
      store_row<T, kVec>(dx + r * n + i, g);
    }
  }
}

// --- along an outer dimension ---

// A rule defines how columns are reduced and how their elements are mapped. Of the two inputs, it
// reads the first kInputs.
template <class C> struct Forward : LogSumExp<C> {
  static constexpr int kInputs = 1;
  bool log;
  __device__ Exps<C> term_of(const C (&x)[1]) const { return {x[0], C(1)}; }
  __device__ Exps<C> ready(Exps<C> a) const {
    const C infinite = a.max - a.max;  // NaN if max is infinite, otherwise 0
    return {a.max, infinite + (log ? math::log(a.sum) : C(1) / a.sum)};
  }
  __device__ C of(const C (&x)[1], Exps<C> a) const {
    const C shifted = x[0] - a.max;
    return log ? shifted - a.sum : math::exp(shifted) * a.sum;
  }
};
template <class C> struct Backward : Sum<C> {
  static constexpr int kInputs = 2;
  bool log;
  __device__ C term_of(const C (&x)[2]) const { return term(log, x[0], x[1]); }
  __device__ C ready(C sum) const { return sum; }
  __device__ C of(const C (&x)[2], C sum) const { return gradient(log, x[0], x[1], sum); }
};

template <class Rule, class T, int V>
__global__ void __launch_bounds__(kTileThreads, 2)
    columns_kernel(Rule rule, T* out, const T* a, const T* b, ReduceSizes sizes,
                   ColumnBlock block) {
  begin_kernel();
  using C = Compute<T>;
  constexpr int kInputs = Rule::kInputs;
  constexpr int kLoads = V > 4 || kInputs > 1 ? 2 : 4;  // rows that a thread loads at once
  const T* const in[2] = {a, b};
  const int height = block.height, y = int(threadIdx.x) / block.width;
  for (int64_t tile = blockIdx.x; tile < block.tiles; tile += gridDim.x) {
    const Column column = column_at<V>(tile, block, sizes);
    const int64_t end = column.exists ? sizes.n : 0, step = int64_t(height) * kLoads;
    // Calls f(position, values) for kLoads rows from `row` on. `whole` states that all of them
    // exist.
    const auto visit_rows = [&](int64_t row, auto whole, auto f) {
      Vec<T, V> v[kLoads][kInputs];
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        if (!whole && row + k * height >= end) break;
#pragma unroll
        for (int i = 0; i < kInputs; ++i) {
          v[k][i] = load_vec<T, V>(in[i] + column.base + (row + k * height) * sizes.inner);
        }
      }
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        if (!whole && row + k * height >= end) break;
        f(column.base + (row + k * height) * sizes.inner, v[k]);
      }
    };
    const auto visit = [&](int64_t row, auto f) {
      if (row + step - height < end) return visit_rows(row, std::true_type(), f);
      visit_rows(row, std::false_type(), f);
    };
    const auto values = [](const Vec<T, V>(&v)[kInputs], int j, C(&x)[kInputs]) {
#pragma unroll
      for (int i = 0; i < kInputs; ++i) x[i] = C(v[i].at[j]);
    };

    typename Rule::Acc acc[V];
#pragma unroll
    for (int j = 0; j < V; ++j) acc[j] = Rule::none();
    for (int64_t row = y; row < end; row += step) {
      visit(row, [&](int64_t, const Vec<T, V>(&v)[kInputs]) {
#pragma unroll
        for (int j = 0; j < V; ++j) {
          C x[kInputs];
          values(v, j, x);
          acc[j] = rule.join(acc[j], rule.term_of(x));
        }
      });
    }
    join_rows<kTileThreads>(rule, acc, block);
#pragma unroll
    for (int j = 0; j < V; ++j) acc[j] = rule.ready(acc[j]);
    // Rows are visited backward, because the rows that were read last are still in the cache.
    for (int64_t row = y + (end - 1) / step * step; row >= 0; row -= step) {
      visit(row, [&](int64_t at, const Vec<T, V>(&v)[kInputs]) {
        Vec<T, V> w;
#pragma unroll
        for (int j = 0; j < V; ++j) {
          C x[kInputs];
          values(v, j, x);
          w.at[j] = convert<T>(rule.of(x, acc[j]));
        }
        store_vec(out + at, w);
      });
    }
  }
}

// --- launchers ---

// Launches kernel(Int<kVec>, Int<kLanes>, held) along the rows. kLanes threads process a row.
// `held` is a constant: whether they hold the row in registers.
template <class T, class F, class... P>
void along_rows(const Launch& on, ReduceSizes s, F kernel, bool log, P*... pointers) {
  const auto launch = [&]<int kLanes>(auto vec, Int<kLanes> lanes, auto held) {
    on.run(kernel(vec, lanes, held), {row_grid<kLanes>(s.outer), row_block<kLanes>()}, log,
           pointers..., s.outer, s.n);
  };
  with_row_vectors<T>(
      s.n,
      [&](auto vec) {
        if (s.n <= kHeldSize<32>) return launch(vec, Int<32>(), std::true_type());
        if (s.n <= kHeldSize<256>) return launch(vec, Int<256>(), std::true_type());
        if (s.n <= kHeldSize<1024>) return launch(vec, Int<1024>(), std::true_type());
        launch(vec, Int<512>(), std::false_type());
      },
      pointers...);
}

template <class T, class Rule>
void along_columns(const Launch& on, Rule rule, T* out, const T* a, const T* b, ReduceSizes s) {
  const auto launch = [&]<int V>(Int<V>, ColumnBlock block, unsigned grid) {
    on.run(columns_kernel<Rule, T, V>, {grid, block.width * block.height}, rule, out, a, b, s,
           block);
  };
  for_tiles<T>(s, 4, launch, out, a, b);
}

template <class T> void forward(const Launch& on, bool log, T* y, const T* x, ReduceSizes s) {
  if (s.inner > 1) return along_columns(on, Forward<Compute<T>>{{}, log}, y, x, x, s);
  const auto kernel = []<int kVec, int kLanes>(Int<kVec>, Int<kLanes>, auto held) {
    if constexpr (held) {
      return held_forward<T, kVec, kLanes>;
    } else {
      return long_forward<T, kVec, kLanes>;
    }
  };
  along_rows<T>(on, s, kernel, log, y, x);
}

template <class T>
void backward(const Launch& on, bool log, T* dx, const T* dy, const T* y, ReduceSizes s) {
  if (s.inner > 1) return along_columns(on, Backward<Compute<T>>{{{}, 1}, log}, dx, dy, y, s);
  const auto kernel = []<int kVec, int kLanes>(Int<kVec>, Int<kLanes>, auto held) {
    if constexpr (held) {
      return held_backward<T, kVec, kLanes>;
    } else {
      return long_backward<T, kVec, kLanes>;
    }
  };
  along_rows<T>(on, s, kernel, log, dx, dy, y);
}

}  // namespace

void softmax(bool log, const Tensor& y, const Tensor& x, ReduceSizes sizes) {
  if (y.numel() == 0) return;
  const Launch on(x);
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    forward(on, log, pointer<T>(y), pointer<const T>(x), sizes);
  });
  on.check(log ? "log_softmax" : "softmax");
}

void softmax_backward(bool log, const Tensor& dx, const Tensor& dy, const Tensor& y,
                      ReduceSizes sizes) {
  if (dx.numel() == 0) return;
  const Launch on(y);
  visit_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
    backward(on, log, pointer<T>(dx), pointer<const T>(dy), pointer<const T>(y), sizes);
  });
  on.check(log ? "log_softmax_backward" : "softmax_backward");
}

}  // namespace taper::v0::kernels::cuda
