// Normalisation (`=`; statistics and sums in float, in double for double). Rows that fit are read
// once into registers; longer ones again for each pass. A channel's sums are cut into chunks by the
// sizes alone: a block sums a chunk as a tree, a second launch the chunks.
#include "framework/cuda/runtime.h"
#include "framework/kernels/cuda/each.cuh"
#include "framework/kernels/cuda/rows.cuh"
#include "framework/kernels/norm_kernels.h"
#include "framework/kernels/reduce.h"

namespace taper::kernels {
namespace cuda {
namespace {

using taper::cuda::Launch;

// What kernels see of one call: y from x, or dx where there is dy.
template <class T> struct Args {
  using C = Compute<T>;
  NormSizes sizes;
  C eps;
  bool rms;
  C *mean, *rstd;
  const C *weight, *bias, *sums;
  T* out;
  const T *dy, *x;

  Args(const Norm& n, const Tensor& result, const Tensor& gradient, const Tensor& input,
       const Tensor& total)
      : sizes(n.sizes), eps(C(n.eps)), rms(n.rms) {
    mean = pointer<C>(n.mean);
    rstd = pointer<C>(n.rstd);
    weight = pointer<C>(n.weight);
    bias = pointer<C>(n.bias);
    sums = pointer<C>(total);
    out = pointer<T>(result);
    dy = pointer<T>(gradient);
    x = pointer<T>(input);
  }
};

// f(integral_constant<kVec>): vectors that cross no channel; no group where inner is 1.
template <class T, class F> void with_vectors(const Args<T>& a, F f) {
  const NormSizes& s = a.sizes;
  const int64_t run = s.inner > 1 ? s.inner : s.groups > 0 ? s.per_group() : s.channels;
  with_row_vectors<T>(run, f, a.mean, a.rstd, a.weight, a.bias, a.sums, a.out, a.dy, a.x);
}

// The numbers of a vector's elements: each its own, or one for all; `none` without p.
template <int kVec, class C>
__device__ void load_numbers(C (&out)[kVec], const C* p, int64_t at, bool own, C none) {
  if (p && own) return load_row<C, kVec>(out, p + at);
  const C one = p ? p[at] : none;
#pragma unroll
  for (int j = 0; j < kVec; ++j) out[j] = one;
}

// --- rows ---

// A row of each of kInputs tensors, spread over the threads that own it.
template <class T, int kVec, int kLanes, bool kHeld, int kInputs> struct Row {
  using Vectors = Compute<T>[kInputs][kVec];
  static constexpr int kPacks = kHeld ? (kLanes == kWarp ? 32 : 16) / kVec : 1;
  const T* from[kInputs];
  int64_t n;
  Vectors held[kPacks];

  __device__ static int64_t place(int64_t pack) { return (pack * kLanes + threadIdx.x) * kVec; }
  __device__ void load(Vectors& v, int64_t i) const {
#pragma unroll
    for (int k = 0; k < kInputs; ++k) load_row<T, kVec>(v[k], from[k] + i);
  }
  __device__ void hold() {
    if constexpr (kHeld) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        if (place(p) < n) load(held[p], place(p));
      }
    }
  }
  // f(i, v) with the vectors at each i that this thread owns.
  template <class F> __device__ void each(F f) {
    if constexpr (kHeld) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        if (place(p) < n) f(place(p), held[p]);
      }
    } else {
#pragma unroll 2
      for (int64_t i = place(0); i < n; i += kLanes * kVec) {
        load(held[0], i);
        f(i, held[0]);
      }
    }
  }
};

// Backward, with g = dy * weight: dx = rstd (g - mean of g - xhat * mean of (g * xhat)).
template <class T, int kVec, int kLanes, bool kHeld, bool kBackward>
__global__ void __launch_bounds__(kRowThreads<kLanes>) rows_kernel(const Args<T> args) {
  using C = Compute<T>;
  using Inputs = Row<T, kVec, kLanes, kHeld, kBackward ? 2 : 1>;
  using Vectors = typename Inputs::Vectors;
  const NormSizes& s = args.sizes;
  const int64_t n = s.row_size(), rows = s.rows();
  for (int64_t r = first_row(); r < rows; r += row_step()) {
    Inputs row{{args.x + r * n}, n};
    if constexpr (kBackward) row.from[1] = args.dy + r * n;
    row.hold();
    const int64_t first = s.groups > 1 ? r % s.groups * s.per_group() : 0;
    const auto numbers = [&](C(&w)[kVec], const C* p, int64_t i, C none) {
      load_numbers(w, p, first + (s.inner > 1 ? i / s.inner : i), s.inner == 1, none);
    };
    C mean = 0, rstd, sum = 0, dot = 0;
    if constexpr (kBackward) {
      mean = args.rms ? C(0) : args.mean[r];
      rstd = args.rstd[r];
      row.each([&](int64_t i, const Vectors& v) {
        C w[kVec];
        numbers(w, args.weight, i, C(1));
#pragma unroll
        for (int j = 0; j < kVec; ++j) {
          sum += v[1][j] * w[j];
          dot += v[1][j] * w[j] * ((v[0][j] - mean) * rstd);
        }
      });
      sum = args.rms ? C(0) : row_sum<kLanes>(sum) / C(n);
      dot = row_sum<kLanes>(dot) / C(n);
    } else {
      if (!args.rms) {
        row.each([&](int64_t, const Vectors& v) {
#pragma unroll
          for (int j = 0; j < kVec; ++j) sum += v[0][j];
        });
        mean = row_sum<kLanes>(sum) / C(n);
        // A second sum takes back what the first one rounded away.
        C rest = 0;
        row.each([&](int64_t, const Vectors& v) {
#pragma unroll
          for (int j = 0; j < kVec; ++j) rest += v[0][j] - mean;
        });
        mean += row_sum<kLanes>(rest) / C(n);
      }
      row.each([&](int64_t, const Vectors& v) {
#pragma unroll
        for (int j = 0; j < kVec; ++j) dot += (v[0][j] - mean) * (v[0][j] - mean);
      });
      rstd = C(1) / math::sqrt(row_sum<kLanes>(dot) / C(n) + args.eps);
      if (threadIdx.x == 0) {
        if (!args.rms) args.mean[r] = mean;
        args.rstd[r] = rstd;
      }
    }
    row.each([&](int64_t i, const Vectors& v) {
      C w[kVec], b[kVec];
      numbers(w, args.weight, i, C(1));
      numbers(b, kBackward ? nullptr : args.bias, i, C(0));
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        const C xhat = (v[0][j] - mean) * rstd;
        if constexpr (kBackward) {
          b[j] = rstd * (v[1][j] * w[j] - sum - xhat * dot);
        } else {
          b[j] += xhat * w[j];
        }
      }
      store_row<T, kVec>(args.out + r * n + i, b);
    });
  }
}

template <class T, bool kBackward> void run_rows(const Args<T>& args, cudaStream_t stream) {
  const int64_t n = args.sizes.row_size(), rows = args.sizes.rows();
  with_vectors(args, [&](auto vec) {
    constexpr int kVec = decltype(vec)::value, kMiddle = 256, kLarge = 512;
    if (n <= kWarp * 32) {
      rows_kernel<T, kVec, kWarp, true, kBackward>
          <<<row_grid<kWarp>(rows), row_block<kWarp>(), 0, stream>>>(args);
    } else if (n <= kMiddle * 16) {
      rows_kernel<T, kVec, kMiddle, true, kBackward>
          <<<row_grid<kMiddle>(rows), row_block<kMiddle>(), 0, stream>>>(args);
    } else {
      rows_kernel<T, kVec, kLarge, false, kBackward>
          <<<row_grid<kLarge>(rows), row_block<kLarge>(), 0, stream>>>(args);
    }
  });
}

// --- batch norm, element by element: a vector for each index ---

template <class T, int kVec> struct Apply {
  using C = Compute<T>;
  Args<T> args;
  C share;  // 1 / the number of a channel's elements

  __device__ void operator()(int64_t i) const {
    const NormSizes& s = args.sizes;
    const int64_t at = i * kVec, c = at / s.inner % s.channels;
    const bool own = s.inner == 1;
    C v[kVec], g[kVec], mean[kVec], rstd[kVec], w[kVec], a[kVec], b[kVec];
    load_row<T, kVec>(v, args.x + at);
    load_numbers(mean, args.mean, c, own, C(0));
    load_numbers(rstd, args.rstd, c, own, C(1));
    load_numbers(w, args.weight, c, own, C(1));
    if (!args.dy) {
      load_numbers(b, args.bias, c, own, C(0));
#pragma unroll
      for (int j = 0; j < kVec; ++j) b[j] += (v[j] - mean[j]) * rstd[j] * w[j];
    } else {
      load_row<T, kVec>(g, args.dy + at);
      load_numbers(a, args.sums, c, own, C(0));
      load_numbers(b, args.sums ? args.sums + s.channels : nullptr, c, own, C(0));
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        const C xhat = (v[j] - mean[j]) * rstd[j];
        b[j] = rstd[j] * w[j] * (g[j] - b[j] * share - xhat * (a[j] * share));
      }
    }
    store_row<T, kVec>(args.out + at, b);
  }
};

// --- sums over channels ---

// How a channel's outer * inner elements are cut, and how a block lies over them.
struct Cut {
  int64_t chunk, chunks, tiles;
  int width = 1;  // threads side by side along channels, a power of two, where inner is 1
};

// Where inner is 1 a thread owns kVec channels, else a block owns one. parts: [2, chunks,
// channels].
template <class T, int kVec>
__global__ void __launch_bounds__(kThreads)
    sums_kernel(const Args<T> args, const Cut cut, Compute<T>* parts) {
  using C = Compute<T>;
  __shared__ C joined[2][kVec][kThreads];
  const NormSizes& s = args.sizes;
  const bool columns = s.inner == 1;
  const int own = columns ? kVec : 1, step = columns ? 1 : kVec;
  const int tid = int(threadIdx.x), y = tid / cut.width, height = kThreads / cut.width;
  for (int64_t job = blockIdx.x; job < cut.chunks * cut.tiles; job += gridDim.x) {
    const int64_t chunk = job / cut.tiles, first = chunk * cut.chunk, size = s.outer * s.inner;
    const int64_t c = (job % cut.tiles * cut.width + tid % cut.width) * own;
    const bool exists = c < s.channels;
    const int64_t end = !exists ? 0 : first + cut.chunk < size ? first + cut.chunk : size;
    const int64_t group = c / s.per_group();
    C sums[2][kVec] = {}, shift[kVec] = {};
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      if (exists && !args.dy) shift[j] = pivot_of(args.x, s, columns ? c + j : c);
    }
#pragma unroll 4
    for (int64_t e = first + y * step; e < end; e += height * step) {
      const int64_t o = columns ? e : e / s.inner;
      const int64_t at = (o * (s.channels - 1) + c) * s.inner + e;
      C x[kVec], g[kVec], mean[kVec], rstd[kVec];
      load_row<T, kVec>(x, args.x + at);
      if (args.dy) {
        const int64_t k = o * s.groups + group;
        load_row<T, kVec>(g, args.dy + at);
        load_numbers(mean, args.mean, k, columns && s.groups == 0, C(0));
        load_numbers(rstd, args.rstd, k, columns && s.groups == 0, C(1));
      }
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        const C a = args.dy ? g[j] : x[j] - shift[j];
        sums[0][j] += a * (args.dy ? (x[j] - mean[j]) * rstd[j] : a);
        sums[1][j] += a;
      }
    }
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        if (j > 0 && !columns) sums[k][0] += sums[k][j];
        joined[k][j][tid] = sums[k][j];
      }
      joined[k][0][tid] = sums[k][0];
    }
    for (int half = height / 2; half > 0; half /= 2) {
      __syncthreads();
      for (int k = 0; k < 2 * own && y < half; ++k) {
        joined[k % 2][k / 2][tid] += joined[k % 2][k / 2][tid + half * cut.width];
      }
    }
    for (int k = 0; k < 2 * own && y == 0 && exists; ++k) {
      const int64_t at = (k % 2 * cut.chunks + chunk) * s.channels + c + k / 2;
      parts[at] = joined[k % 2][k / 2][tid];
    }
    __syncthreads();  // before the next job's sums are stored
  }
}

// Enough chunks to fill a GPU, with enough work in each; whole vectors.
Cut cut_of(const NormSizes& s) {
  constexpr int64_t kJobs = 1024, kColumns = 128, kWork = 8192, kRound = 16;
  const int64_t size = s.outer * s.inner;
  const int64_t jobs = s.inner > 1 ? s.channels : ceil_div(s.channels, kColumns);
  const int64_t least = s.inner > 1 ? kWork : std::max<int64_t>(64, kWork / s.channels);
  const int64_t wanted = std::max<int64_t>(1, std::min(kJobs / jobs, size / least));
  const int64_t chunk = ceil_div(ceil_div(size, wanted), kRound) * kRound;
  return {chunk, ceil_div(size, chunk), s.channels};
}

}  // namespace

void norm(const Norm& norm, const Tensor& out, const Tensor& dy, const Tensor& x,
          const Tensor& sums) {
  const Launch on(x);
  visit_floating(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Args<T> args(norm, out, dy, x, sums);
    const NormSizes& s = args.sizes;
    if (s.groups > 0)
      return (dy.defined() ? run_rows<T, true> : run_rows<T, false>)(args, on.stream);
    with_vectors(args, [&](auto vec) {
      constexpr int kVec = decltype(vec)::value;
      const Compute<T> share = Compute<T>(1) / Compute<T>(s.outer * s.inner);
      Each::run("batch_norm", x, x.numel() / kVec, kVec, Apply<T, kVec>{args, share});
    });
  });
  on.check("norm");
}

Tensor channel_sums(const Norm& norm, const Tensor& dy, const Tensor& x) {
  const Launch on(x);
  const NormSizes& s = norm.sizes;
  const Cut cut = cut_of(s);
  const Tensor parts = Tensor::make({2, cut.chunks, s.channels}, wide_type(x.dtype()), x.device());
  visit_floating(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    const Args<T> args(norm, {}, dy, x, {});
    with_vectors(args, [&](auto vec) {
      constexpr int kVec = decltype(vec)::value;
      Cut here = cut;
      if (s.inner == 1) {
        while (here.width < kWarp && here.width * kVec < s.channels) here.width *= 2;
        here.tiles = ceil_div(s.channels, here.width * kVec);
      }
      const unsigned grid = unsigned(std::min(here.chunks * here.tiles, kMaxPiece));
      sums_kernel<T, kVec><<<grid, kThreads, 0, on.stream>>>(args, here, pointer<C>(parts));
    });
  });
  on.check("channel_sums");
  return reduce(ReduceOp::sum, parts, {1});
}

}  // namespace cuda

template struct BatchNormKernels<cuda::Each>;

}  // namespace taper::kernels
