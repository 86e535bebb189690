// Normalization by channels; row_norm.cu normalizes rows. Statistics and sums are in float (in
// double for double). The sums of a channel are divided into chunks, which depend only on the
// sizes. A block sums a chunk as a tree, and a second launch sums the chunks.
#include "framework/kernels/norm/norm.cuh"

#include "framework/cuda/runtime.h"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/common/per_element.cuh"
#include "framework/kernels/norm/norm_kernels.h"

namespace taper::v0::kernels {
namespace cuda {
namespace {

using taper::cuda::Launch;

// Return a * b, and a * b + c rounded once. They are spelled out, so that all kernels compute the
// same bits.
__device__ float multiplied(float a, float b) { return __fmul_rn(a, b); }
__device__ double multiplied(double a, double b) { return __dmul_rn(a, b); }
__device__ float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ double fused(double a, double b, double c) { return __fma_rn(a, b, c); }

// Rounds to T, as a separate op would store it.
template <class T> __device__ Compute<T> rounded(Compute<T> x) { return Compute<T>(convert<T>(x)); }

// Returns the gradient of relu's argument, which is y before it is rounded.
template <class T> __device__ Compute<T> relu_backward(Compute<T> dy, Compute<T> y) {
  return rounded<T>(y) <= Compute<T>(0) ? Compute<T>(0) : dy;
}

// --- batch norm, element-wise ---

// kReluBackward: dy is the gradient of ReLU's result, which is computed again. kResidualBackward:
// the same, and the result is given, since a residual was added to its argument.
enum class Pass { kForward, kBackward, kReluBackward, kResidualBackward };

template <class T> Pass pass_of(const NormArgs<T>& args) {
  if (!args.dy) return Pass::kForward;
  if (!args.relu) return Pass::kBackward;
  return args.result ? Pass::kResidualBackward : Pass::kReluBackward;
}

// The numbers of the channels of a vector's elements.
template <class T, int kVec, Pass kPass> struct Channels {
  using C = Compute<T>;
  C mean[kVec], rstd[kVec], weight[kVec], bias[kVec], dots[kVec], sums[kVec], share;

  // own: each element has its own channel, otherwise all have channel c. given_share: 1 / number of
  // elements of a channel.
  __device__ Channels(const NormArgs<T>& args, int64_t c, bool own, C given_share)
      : share(given_share) {
    load_numbers(mean, args.mean, c, own, C(0));
    load_numbers(rstd, args.rstd, c, own, C(1));
    load_numbers(weight, args.weight, c, own, C(1));
    if constexpr (kPass != Pass::kBackward) load_numbers(bias, args.bias, c, own, C(0));
    if constexpr (kPass != Pass::kForward) {
      load_numbers(dots, args.dots, c, own, C(0));
      load_numbers(sums, args.sums, c, own, C(0));
#pragma unroll
      for (int j = 0; j < kVec; ++j) dots[j] *= share;
    }
  }

  // Stores y of x and, if there is one, the residual `other`; or dx of x and the gradient `other`.
  __device__ void store(const NormArgs<T>& args, int64_t at, const Vec<T, kVec>& x,
                        const Vec<T, kVec>& other) const {
    C out[kVec];
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      const C xhat = multiplied(C(x.at[j]) - mean[j], rstd[j]);
      if constexpr (kPass == Pass::kForward) {
        out[j] = fused(xhat, weight[j], bias[j]);
        if (args.residual) out[j] = rounded<T>(out[j]) + C(other.at[j]);
        if (args.relu) out[j] = rounded<T>(out[j]) < C(0) ? C(0) : out[j];
      } else {
        C dy = C(other.at[j]);
        if constexpr (kPass == Pass::kReluBackward) {
          dy = relu_backward<T>(dy, fused(xhat, weight[j], bias[j]));
        }
        const C rest = fused(-xhat, dots[j], fused(-sums[j], share, dy));
        out[j] = multiplied(rstd[j], weight[j]) * rest;
      }
    }
    store_row<T, kVec>((kPass == Pass::kForward ? args.y : args.dx) + at, out);
  }
};

// Computes one vector per index.
template <class T, int kVec, Pass kPass> struct Apply {
  NormArgs<T> args;
  Compute<T> share;

  __device__ void operator()(int64_t i) const {
    const NormSizes& s = args.sizes;
    const int64_t at = i * kVec;
    const Channels<T, kVec, kPass> channels(args, at / s.inner % s.channels, s.inner == 1, share);
    const T* const other = kPass == Pass::kForward ? args.residual : args.dy;
    Vec<T, kVec> more{};
    if (other) more = load_vec<T, kVec>(other + at);
    channels.store(args, at, load_vec<T, kVec>(args.x + at), more);
  }
};

// The same if inner is 1. A thread keeps the numbers of its channels for many rows, since they are
// more bytes than the elements of a row. `width` threads, a power of two, are beside each other
// along the channels.
constexpr int kRowsInFlight = 4;
template <class T, int kVec, Pass kPass>
__global__ void __launch_bounds__(kThreads, 2)
    apply_columns_kernel(const NormArgs<T> args, const int width, const int64_t tiles,
                         const Compute<T> share) {
  begin_kernel();
  const NormSizes& s = args.sizes;
  const int height = kThreads / width, x = int(threadIdx.x) % width, y = int(threadIdx.x) / width;
  const int64_t c = (blockIdx.x % tiles * width + x) * kVec;
  if (c >= s.channels) return;
  const Channels<T, kVec, kPass> channels(args, c, true, share);
  const T* const other = kPass == Pass::kForward ? args.residual : args.dy;
  const int64_t rows = int64_t(height) * kRowsInFlight;
  for (int64_t first = blockIdx.x / tiles * rows; first < s.outer;
       first += gridDim.x / tiles * rows) {
    Vec<T, kVec> from[kRowsInFlight], more[kRowsInFlight];
#pragma unroll
    for (int k = 0; k < kRowsInFlight; ++k) {
      const int64_t r = first + k * height + y;
      if (r >= s.outer) continue;
      from[k] = load_vec<T, kVec>(args.x + r * s.channels + c);
      if (other) more[k] = load_vec<T, kVec>(other + r * s.channels + c);
    }
#pragma unroll
    for (int k = 0; k < kRowsInFlight; ++k) {
      const int64_t r = first + k * height + y;
      if (r < s.outer) channels.store(args, r * s.channels + c, from[k], more[k]);
    }
  }
}

// Returns how many threads are beside each other along the channels.
int width_of(const NormSizes& s, int vec) {
  int width = 1;
  while (width < kWarp && width * vec < s.channels) width *= 2;
  return width;
}

template <class T, int kVec, Pass kPass> void apply(const Launch& on, const NormArgs<T>& args) {
  constexpr int64_t kMost = 2112;  // blocks, which fill any current GPU and have several turns each
  const NormSizes& s = args.sizes;
  const Compute<T> share = Compute<T>(1) / Compute<T>(s.outer * s.inner);
  if (s.inner > 1) {
    const int64_t numel = s.outer * s.channels * s.inner;
    return Backend::run("batch_norm", on.device, numel / kVec, Apply<T, kVec, kPass>{args, share});
  }
  const int width = width_of(s, kVec);
  const int64_t tiles = ceil_div(s.channels, int64_t(width) * kVec);
  const int64_t turns = ceil_div(s.outer, int64_t(kThreads / width) * kRowsInFlight);
  const int64_t blocks = std::min(turns, std::max<int64_t>(1, kMost / tiles));
  on.run(apply_columns_kernel<T, kVec, kPass>, {unsigned(blocks * tiles), kThreads}, args, width,
         tiles, share);
}

// --- sums over channels ---

// How the outer * inner elements of a channel are divided into chunks and among the threads of a
// block.
struct Cut {
  int64_t chunk, chunks, tiles;
  int width = 1;  // threads along channels, a power of two, if inner is 1
};

// Loads the pivots of a vector's channels.
template <class T, int kVec>
__device__ void load_pivots(Compute<T> (&pivots)[kVec], const T* x, const NormSizes& s, int64_t c) {
  if (s.inner > 1) {
    const Compute<T> one = pivot_of(x, s, c);
#pragma unroll
    for (int j = 0; j < kVec; ++j) pivots[j] = one;
    return;
  }
  const int64_t rows[] = {0, s.outer / 2, s.outer - 1};
  Compute<T> v[3][kVec];
#pragma unroll
  for (int k = 0; k < 3; ++k) load_row<T, kVec>(v[k], x + rows[k] * s.channels + c);
#pragma unroll
  for (int j = 0; j < kVec; ++j) pivots[j] = median_of(v[0][j], v[1][j], v[2][j]);
}

// Sums over the rows of threads of the block, as a tree, and stores the sums of a chunk of the
// first `own` of kVec channels from c on. All threads of the block must call it.
template <class C, int kVec>
__device__ void store_sums(const C (&sums)[2][kVec], const Cut& cut, int64_t channels,
                           int64_t chunk, int64_t c, int own, C* parts) {
  __shared__ C joined[2][kVec][kThreads];
  const int tid = int(threadIdx.x), y = tid / cut.width;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
#pragma unroll
    for (int j = 0; j < kVec; ++j) joined[k][j][tid] = sums[k][j];
  }
  for (int half = kThreads / cut.width / 2; half > 0; half /= 2) {
    __syncthreads();
    for (int k = 0; k < 2 * own && y < half; ++k) {
      joined[k % 2][k / 2][tid] += joined[k % 2][k / 2][tid + half * cut.width];
    }
  }
  for (int k = 0; k < 2 * own && y == 0 && c < channels; ++k) {
    const int64_t at = (k % 2 * cut.chunks + chunk) * channels + c + k / 2;
    parts[at] = joined[k % 2][k / 2][tid];
  }
  __syncthreads();  // before the sums of the next chunk are stored
}

// Computes the sums of chunks of batch norm's channels if inner is 1, in a pass through ReLU those
// of the gradient of its argument. A thread processes kVec channels. parts is [2, chunks,
// channels].
template <class T, int kVec, Pass kPass>
__global__ void __launch_bounds__(kThreads, 2)
    column_sums_kernel(const NormArgs<T> args, const Cut cut, Compute<T>* parts) {
  begin_kernel();
  using C = Compute<T>;
  using V = Vec<T, kVec>;
  constexpr bool kForward = kPass == Pass::kForward;
  const NormSizes& s = args.sizes;
  const int x = int(threadIdx.x) % cut.width, y = int(threadIdx.x) / cut.width;
  const int height = kThreads / cut.width;
  for (int64_t job = blockIdx.x; job < cut.chunks * cut.tiles; job += gridDim.x) {
    const int64_t chunk = job / cut.tiles, first = chunk * cut.chunk;
    const int64_t c = (job % cut.tiles * cut.width + x) * kVec;
    const int64_t all = first + cut.chunk < s.outer ? first + cut.chunk : s.outer;
    const int64_t end = c < s.channels ? all : 0;
    C sums[2][kVec] = {}, shift[kVec], mean[kVec], rstd[kVec], w[kVec], b[kVec];
    if (end > 0) {
      if constexpr (kForward) {
        load_pivots(shift, args.x, s, c);
      } else {
        load_numbers(mean, args.mean, c, true, C(0));
        load_numbers(rstd, args.rstd, c, true, C(1));
      }
      if constexpr (kPass == Pass::kReluBackward) {
        load_numbers(w, args.weight, c, true, C(1));
        load_numbers(b, args.bias, c, true, C(0));
      }
    }
    const auto add = [&](int64_t at, const V& from, const V& dy, const V& result) {
      V dz;
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        if constexpr (kForward) {
          const C a = C(from.at[j]) - shift[j];
          sums[0][j] += a * a;
          sums[1][j] += a;
          continue;
        }
        C g = C(dy.at[j]);
        const C xhat = multiplied(C(from.at[j]) - mean[j], rstd[j]);
        if constexpr (kPass == Pass::kReluBackward) {
          g = relu_backward<T>(g, fused(xhat, w[j], b[j]));
        } else if constexpr (kPass == Pass::kResidualBackward) {
          g = relu_backward<T>(g, C(result.at[j]));
          dz.at[j] = convert<T>(g);
        }
        sums[0][j] += g * xhat;
        sums[1][j] += g;
      }
      if constexpr (kPass == Pass::kResidualBackward) store_vec(args.dz + at, dz);
    };
    for (int64_t row = first + y; row < end; row += height * kRowsInFlight) {
      V from[kRowsInFlight], dy[kRowsInFlight], result[kRowsInFlight];
#pragma unroll
      for (int k = 0; k < kRowsInFlight; ++k) {
        const int64_t r = row + k * height, at = r * s.channels + c;
        if (r >= end) continue;
        from[k] = load_vec<T, kVec>(args.x + at);
        if constexpr (!kForward) dy[k] = load_vec<T, kVec>(args.dy + at);
        if constexpr (kPass == Pass::kResidualBackward) {
          result[k] = load_vec<T, kVec>(args.result + at);
        }
      }
#pragma unroll
      for (int k = 0; k < kRowsInFlight; ++k) {
        const int64_t r = row + k * height;
        if (r < end) add(r * s.channels + c, from[k], dy[k], result[k]);
      }
    }
    store_sums(sums, cut, s.channels, chunk, c, kVec, parts);
  }
}

// The same for everything else. If inner is 1, a thread processes kVec channels; otherwise a block
// processes one channel.
template <class T, int kVec, Pass kPass>
__global__ void __launch_bounds__(kThreads)
    sums_kernel(const NormArgs<T> args, const Cut cut, Compute<T>* parts) {
  begin_kernel();
  using C = Compute<T>;
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
    if (exists && kPass == Pass::kForward) load_pivots(shift, args.x, s, c);
    // The numbers of a channel, unless they are those of a row's group.
    C mean[kVec], rstd[kVec], w[kVec], b[kVec];
    const bool by_channel = s.groups == 0;
    if (exists && by_channel && kPass != Pass::kForward) {
      load_numbers(mean, args.mean, c, columns, C(0));
      load_numbers(rstd, args.rstd, c, columns, C(1));
      if constexpr (kPass == Pass::kReluBackward) {
        load_numbers(w, args.weight, c, columns, C(1));
        load_numbers(b, args.bias, c, columns, C(0));
      }
    }
#pragma unroll 4
    for (int64_t e = first + y * step; e < end; e += height * step) {
      const int64_t o = columns ? e : e / s.inner;
      const int64_t at = (o * (s.channels - 1) + c) * s.inner + e;
      C x[kVec], g[kVec];
      load_row<T, kVec>(x, args.x + at);
      if constexpr (kPass != Pass::kForward) load_row<T, kVec>(g, args.dy + at);
      if (!by_channel && kPass != Pass::kForward) {
        const int64_t k = o * s.groups + group;
        load_numbers(mean, args.mean, k, false, C(0));
        load_numbers(rstd, args.rstd, k, false, C(1));
      }
      if constexpr (kPass == Pass::kReluBackward) {
#pragma unroll
        for (int j = 0; j < kVec; ++j) {
          g[j] = relu_backward<T>(g[j], fused(multiplied(x[j] - mean[j], rstd[j]), w[j], b[j]));
        }
      } else if constexpr (kPass == Pass::kResidualBackward) {
        C result[kVec];
        load_row<T, kVec>(result, args.result + at);
#pragma unroll
        for (int j = 0; j < kVec; ++j) g[j] = relu_backward<T>(g[j], result[j]);
        store_row<T, kVec>(args.dz + at, g);
      }
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        if constexpr (kPass == Pass::kForward) {
          const C a = x[j] - shift[j];
          sums[0][j] += a * a;
          sums[1][j] += a;
        } else {
          sums[0][j] += g[j] * ((x[j] - mean[j]) * rstd[j]);
          sums[1][j] += g[j];
        }
      }
    }
#pragma unroll
    for (int j = 1; j < kVec; ++j) {
      if (columns) continue;
      sums[0][0] += sums[0][j];
      sums[1][0] += sums[1][j];
    }
    store_sums(sums, cut, s.channels, chunk, c, own, parts);
  }
}

// Returns the chunks. They consist of whole vectors, are enough to occupy a GPU, and each has
// enough work.
Cut cut_of(const NormSizes& s) {
  constexpr int64_t kJobs = 512, kColumns = 128, kWork = 8192, kRound = 16;
  const int64_t size = s.outer * s.inner;
  const int64_t jobs = s.inner > 1 ? s.channels : ceil_div(s.channels, kColumns);
  const int64_t least = s.inner > 1 ? kWork : std::max<int64_t>(64, kWork / s.channels);
  const int64_t wanted = std::max<int64_t>(1, std::min(kJobs / jobs, size / least));
  const int64_t chunk = ceil_div(ceil_div(size, wanted), kRound) * kRound;
  return {chunk, ceil_div(size, chunk), s.channels};
}

// Returns [2, chunks, channels].
Tensor sums_of_chunks(const Norm& norm, const Tensor& dy, const Tensor& x, const Launch& on) {
  const NormSizes& s = norm.sizes;
  const Cut cut = cut_of(s);
  const Tensor parts =
      Tensor::make({2, cut.chunks, s.channels}, accumulate_type(x.dtype()), x.device());
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    const NormArgs<T> args(norm, {}, dy, x, {});
    with_vectors(args, [&]<int kVec>(Int<kVec>) {
      Cut here = cut;
      if (s.inner == 1) {
        here.width = width_of(s, kVec);
        here.tiles = ceil_div(s.channels, here.width * kVec);
      }
      const auto kernel_for = [&]<Pass kPass>() {
        return s.inner == 1 && s.groups == 0 ? column_sums_kernel<T, kVec, kPass>
                                             : sums_kernel<T, kVec, kPass>;
      };
      const auto kernel = [&] {
        switch (pass_of(args)) {
          case Pass::kForward: return kernel_for.template operator()<Pass::kForward>();
          case Pass::kBackward: return kernel_for.template operator()<Pass::kBackward>();
          case Pass::kReluBackward: return kernel_for.template operator()<Pass::kReluBackward>();
          default: return kernel_for.template operator()<Pass::kResidualBackward>();
        }
      }();
      const unsigned grid = unsigned(std::min(here.chunks * here.tiles, kMaxPiece));
      on.run(kernel, {grid, kThreads}, args, here, pointer<Compute<T>>(parts));
    });
  });
  return parts;
}

// Returns memory for the sums of parts [2, chunks, channels].
ChannelSums sums_like(const Tensor& parts) {
  const auto make = [&] { return Tensor::make({parts.size(2)}, parts.dtype(), parts.device()); };
  return {make(), make()};
}

// Sums the chunks into statistics.squares and sums, and computes the statistics of the channels
// from these sums.
template <class T>
__global__ void __launch_bounds__(kJoinThreads)
    statistics_kernel(const BatchStatistics<T> statistics, Compute<T>* squares, Compute<T>* sums,
                      const Compute<T>* parts, int64_t count) {
  begin_kernel();
  const int64_t n = statistics.s.channels, first = int64_t(blockIdx.x) * kJoinColumns;
  const int64_t c = first + threadIdx.x / kWarp;
  const bool writes = threadIdx.x % kWarp == 0 && threadIdx.x / kWarp < kJoinColumns && c < n;
  for (int k = 0; k < 2; ++k) {
    const Compute<T> sum = join_columns(parts + k * count * n, count, n, first);
    if (writes) (k == 0 ? squares : sums)[c] = sum;
  }
  if (writes) statistics(c);
}

}  // namespace

void norm(const Norm& norm, const Tensor& out, const Tensor& dy, const Tensor& x,
          const ChannelSums& of_channels) {
  if (norm.sizes.groups > 0) return norm_rows(norm, out, dy, x);
  const Launch on(x);
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    const NormArgs<T> args(norm, out, dy, x, of_channels);
    with_vectors(args, [&]<int kVec>(Int<kVec>) {
      switch (pass_of(args)) {
        case Pass::kForward: return apply<T, kVec, Pass::kForward>(on, args);
        case Pass::kBackward: return apply<T, kVec, Pass::kBackward>(on, args);
        default: return apply<T, kVec, Pass::kReluBackward>(on, args);
      }
    });
  });
  on.check("norm");
}

ChannelSums channel_sums(const Norm& norm, const Tensor& dy, const Tensor& x) {
  const Launch on(x);
  const Tensor parts = sums_of_chunks(norm, dy, x, on);
  const ChannelSums own = sums_like(parts);
  const auto sum = [&]<class C>(TypeTag<C>) {
    join(on, own, pointer<const C>(parts), parts.size(1), norm.sizes.channels);
  };
  parts.dtype() == kFloat64 ? sum(TypeTag<double>{}) : sum(TypeTag<float>{});
  on.check("channel_sums");
  return own;
}

void batch_statistics(const Norm& norm, const Tensor& x, const RunningStatistics& running) {
  const Launch on(x);
  const Tensor parts = sums_of_chunks(norm, {}, x, on);
  const ChannelSums own = sums_like(parts);
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    using C = Compute<T>;
    const int64_t blocks = ceil_div(norm.sizes.channels, int64_t(kJoinColumns));
    on.run(statistics_kernel<T>, {unsigned(blocks), kJoinThreads},
           batch_statistics_of<T>(norm, x, own, running), pointer<C>(own.dots),
           pointer<C>(own.sums), pointer<const C>(parts), parts.size(1));
  });
  on.check("batch_norm");
}

}  // namespace cuda

template struct BatchNormKernels<cuda::Backend>;

}  // namespace taper::v0::kernels
