// Normalization by channels; row_norm.cu normalizes rows. Statistics and sums are in float (in
// double for double). The sums of a channel are divided into chunks, which depend only on the
// sizes. A block sums a chunk as a tree, and a second launch sums the chunks.
#include "framework/kernels/norm/norm.cuh"

#include "framework/cuda/runtime.h"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/common/per_element.cuh"
#include "framework/kernels/norm/norm_kernels.h"
#include "framework/kernels/reduce/reduce.h"

namespace taper::v0::kernels {
namespace cuda {
namespace {

using taper::cuda::Launch;

// --- batch norm, element-wise: one vector per index ---

template <class T, int kVec> struct Apply {
  using C = Compute<T>;
  NormArgs<T> args;
  C share;  // 1 / number of elements of a channel

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
    store_row<T, kVec>((args.dy ? args.dx : args.y) + at, b);
  }
};

// --- sums over channels ---

// How the outer * inner elements of a channel are divided into chunks and among the threads of a
// block.
struct Cut {
  int64_t chunk, chunks, tiles;
  int width = 1;  // threads along channels, a power of two, if inner is 1
};

// Computes the sums of chunks. If inner is 1, a thread processes kVec channels; otherwise a block
// processes one channel. parts is [2, chunks, channels].
template <class T, int kVec>
__global__ void __launch_bounds__(kThreads)
    sums_kernel(const NormArgs<T> args, const Cut cut, Compute<T>* parts) {
  begin_kernel();
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
    __syncthreads();  // before the sums of the next job are stored
  }
}

// Returns the chunks. They consist of whole vectors, are enough to occupy a GPU, and each has
// enough work.
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
  if (norm.sizes.groups > 0) return norm_rows(norm, out, dy, x);
  const Launch on(x);
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    const NormArgs<T> args(norm, out, dy, x, sums);
    const NormSizes& s = args.sizes;
    with_vectors(args, [&]<int kVec>(Int<kVec>) {
      const Compute<T> share = Compute<T>(1) / Compute<T>(s.outer * s.inner);
      Backend::run("batch_norm", x, x.numel() / kVec, kVec, Apply<T, kVec>{args, share});
    });
  });
  on.check("norm");
}

Tensor channel_sums(const Norm& norm, const Tensor& dy, const Tensor& x) {
  const Launch on(x);
  const NormSizes& s = norm.sizes;
  const Cut cut = cut_of(s);
  const Tensor parts =
      Tensor::make({2, cut.chunks, s.channels}, accumulate_type(x.dtype()), x.device());
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    using C = Compute<T>;
    const NormArgs<T> args(norm, {}, dy, x, {});
    with_vectors(args, [&]<int kVec>(Int<kVec>) {
      Cut here = cut;
      if (s.inner == 1) {
        while (here.width < kWarp && here.width * kVec < s.channels) here.width *= 2;
        here.tiles = ceil_div(s.channels, here.width * kVec);
      }
      const unsigned grid = unsigned(std::min(here.chunks * here.tiles, kMaxPiece));
      on.run(sums_kernel<T, kVec>, {grid, kThreads}, args, here, pointer<C>(parts));
    });
  });
  on.check("channel_sums");
  return reduce(ReductionOp::kSum, parts, {1});
}

}  // namespace cuda

template struct BatchNormKernels<cuda::Backend>;

}  // namespace taper::v0::kernels
