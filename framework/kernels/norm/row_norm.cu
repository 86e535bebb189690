// Normalization of rows. Statistics and sums are in float (in double for double). Rows that fit are
// read once into registers; longer rows are read again for each pass. If the gradients of weight
// and bias are needed too, a block processes many rows and accumulates these sums, and a second
// launch sums the blocks.
#include <algorithm>
#include <cstdint>

#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/norm/norm.cuh"

namespace taper::v0::kernels::cuda {
namespace {

using taper::cuda::Launch;
using taper::cuda::Scratch;

// --- rows ---

// A row of x, and of dy for kBackward, distributed over its threads. Each thread holds kItems
// elements in registers; if kItems is 0, the row is read again.
template <class T, class G, int kVec, int kLanes, int kItems, bool kBackward> struct Row {
  using C = Compute<T>;
  struct Vectors {
    C x[kVec], dy[kVec];
  };
  static constexpr int kPacks = kItems > 0 ? kItems / kVec : 1;
  const T* x;
  const G* dy;
  int64_t n;
  Vectors held[kPacks];

  __device__ Row(const NormArgs<T, G>& args, int64_t r, int64_t size)
      : x(args.x + r * size), dy(kBackward ? args.dy + r * size : nullptr), n(size) {
    if constexpr (kItems > 0) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        if (place(p) < n) load(held[p], place(p));
      }
    }
  }
  __device__ static int64_t place(int64_t pack) { return (pack * kLanes + threadIdx.x) * kVec; }
  __device__ void load(Vectors& v, int64_t i) const {
    load_row<T, kVec>(v.x, x + i);
    if constexpr (kBackward) load_row<G, kVec>(v.dy, dy + i);
  }
  // Calls f(i, v, p) with the vectors at each position i of this thread; p counts them.
  template <class F> __device__ void each(F f) {
    if constexpr (kItems > 0) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        if (place(p) < n) f(place(p), held[p], p);
      }
    } else {
#pragma unroll 2
      for (int64_t i = place(0); i < n; i += kLanes * kVec) {
        load(held[0], i);
        f(i, held[0], 0);
      }
    }
  }
};

// Sums both numbers over a row's threads, with the synchronization of a single sum.
template <int kLanes, class C> __device__ void row_sums(C& a, C& b) {
  a = warp_reduce(a, Plus{});
  b = warp_reduce(b, Plus{});
  if constexpr (kLanes > kWarp) {
    __shared__ C parts[2][kLanes / kWarp];
    __syncthreads();  // the parts of the previous call have been read
    const int lane = threadIdx.x % kWarp;
    if (lane == 0) parts[0][threadIdx.x / kWarp] = a;
    if (lane == 0) parts[1][threadIdx.x / kWarp] = b;
    __syncthreads();
    a = warp_reduce(lane < kLanes / kWarp ? parts[0][lane] : C(0), Plus{});
    b = warp_reduce(lane < kLanes / kWarp ? parts[1][lane] : C(0), Plus{});
  }
}

template <class T, class G, int kVec, int kLanes, int kItems>
__global__ void __launch_bounds__(kRowThreads<kLanes>) forward_kernel(const NormArgs<T, G> args) {
  begin_kernel();
  using C = Compute<T>;
  using Inputs = Row<T, G, kVec, kLanes, kItems, false>;
  using Vectors = typename Inputs::Vectors;
  const NormSizes& s = args.sizes;
  const int64_t n = s.row_size(), rows = s.rows();
  for (int64_t r = first_row(); r < rows; r += row_step()) {
    Inputs row(args, r, n);
    C mean = 0, sum = 0, rest = 0, dot = 0;
    if (!args.rms) {
      row.each([&](int64_t, const Vectors& v, int) {
#pragma unroll
        for (int j = 0; j < kVec; ++j) sum += v.x[j];
      });
      mean = row_sum<kLanes>(sum) / C(n);
    }
    row.each([&](int64_t, const Vectors& v, int) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        rest += v.x[j] - mean;
        dot += (v.x[j] - mean) * (v.x[j] - mean);
      }
    });
    row_sums<kLanes>(rest, dot);
    // Corrects the rounding error of the mean.
    const C lost = args.rms ? C(0) : rest / C(n);
    mean += lost;
    const C variance = dot / C(n) - lost * lost;
    const C rstd = C(1) / math::sqrt((variance < C(0) ? C(0) : variance) + args.eps);
    if (threadIdx.x == 0) {
      if (!args.rms) args.mean[r] = mean;
      args.rstd[r] = rstd;
    }
    const int64_t first = s.groups > 1 ? r % s.groups * s.per_group() : 0;
    row.each([&](int64_t i, const Vectors& v, int) {
      const int64_t c = first + (s.inner > 1 ? i / s.inner : i);
      C w[kVec], b[kVec];
      load_numbers(w, args.weight, c, s.inner == 1, C(1));
      load_numbers(b, args.bias, c, s.inner == 1, C(0));
#pragma unroll
      for (int j = 0; j < kVec; ++j) b[j] += (v.x[j] - mean) * rstd * w[j];
      store_row<G, kVec>(args.y + r * n + i, b);
    });
  }
}

// Number of blocks per multiprocessor that accumulate sums.
template <int kLanes> inline constexpr int kFusedBlocks = 1024 / kRowThreads<kLanes>;
template <> inline constexpr int kFusedBlocks<kWarp> = 2;

// Returns the bits that adding dx, rounded to T, to another tensor would give.
template <class T> __device__ Compute<T> added_to(T other, Compute<T> dx) {
  using C = Compute<T>;
  if constexpr (std::is_same_v<T, float>) return __fadd_rn(other, dx);
  return C(other) + C(convert<T>(dx));
}

// Computes y or, with g = dy * weight, dx = rstd * (g - mean(g) - xhat * mean(g * xhat)). kSums is
// for rows of one group with inner 1 that are held in registers. Then a block processes every
// gridDim.x-th row and stores its sums of dy * xhat and of dy in `parts` [2, blocks, n]. kAdds is
// for kSums, and adds args.added to dx.
template <class T, class G, int kVec, int kLanes, int kItems, bool kSums, bool kAdds>
__global__ void __launch_bounds__(kRowThreads<kLanes>, kSums ? kFusedBlocks<kLanes> : 1)
    backward_kernel(const NormArgs<T, G> args, Compute<T>* parts) {
  begin_long_kernel();
  using C = Compute<T>;
  using Inputs = Row<T, G, kVec, kLanes, kItems, true>;
  using Vectors = typename Inputs::Vectors;
  const NormSizes& s = args.sizes;
  const int64_t n = s.row_size(), rows = s.rows();
  C sums[2][Inputs::kPacks][kVec] = {};
  for (int64_t r = first_row(); r < rows; r += row_step()) {
    Inputs row(args, r, n);
    const int64_t first = s.groups > 1 ? r % s.groups * s.per_group() : 0;
    const auto weights = [&](C(&w)[kVec], int64_t i) {
      load_numbers(w, args.weight, first + (s.inner > 1 ? i / s.inner : i), s.inner == 1, C(1));
    };
    const C mean = args.rms ? C(0) : args.mean[r], rstd = args.rstd[r];
    Vec<T, kVec> more[kAdds ? Inputs::kPacks : 1];
    if constexpr (kAdds) {
#pragma unroll
      for (int p = 0; p < Inputs::kPacks; ++p) {
        const int64_t i = Inputs::place(p);
        if (i < n) more[p] = load_vec<T, kVec>(args.added + r * n + i);
      }
    }
    C sum = 0, dot = 0;
    row.each([&](int64_t i, const Vectors& v, int p) {
      C w[kVec];
      weights(w, i);
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        const C xhat = (v.x[j] - mean) * rstd;
        sum += v.dy[j] * w[j];
        dot += v.dy[j] * w[j] * xhat;
        if constexpr (kSums) {
          sums[0][p][j] += v.dy[j] * xhat;
          sums[1][p][j] += v.dy[j];
        }
      }
    });
    row_sums<kLanes>(sum, dot);
    sum = args.rms ? C(0) : sum / C(n);
    dot /= C(n);
    row.each([&](int64_t i, const Vectors& v, int p) {
      C w[kVec];
      weights(w, i);
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        w[j] = rstd * (v.dy[j] * w[j] - sum - (v.x[j] - mean) * rstd * dot);
        if constexpr (kAdds) w[j] = added_to(more[p].at[j], w[j]);
      }
      store_row<T, kVec>(args.dx + r * n + i, w);
    });
  }
  if constexpr (kSums) {
    // If each warp has its own rows, the warps' sums are added in the order of the warps.
    constexpr int kHeight = kLanes == kWarp ? kRowsPerBlock : 1;
    __shared__ C joined[kHeight][kLanes * kItems];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
      for (int p = 0; p < Inputs::kPacks; ++p) {
#pragma unroll
        for (int j = 0; j < kVec; ++j) {
          joined[threadIdx.y][Inputs::place(p) + j] = sums[k][p][j];
        }
      }
      __syncthreads();
      const int tid = int(threadIdx.y * blockDim.x + threadIdx.x);
      for (int64_t c = tid; c < n; c += kRowThreads<kLanes>) {
        C total = joined[0][c];
#pragma unroll
        for (int y = 1; y < kHeight; ++y) total += joined[y][c];
        parts[(int64_t(k) * gridDim.x + blockIdx.x) * n + c] = total;
      }
      __syncthreads();
    }
  }
}

// Calls f(kVec, kLanes, kItems), all integral constants, for rows of n elements.
template <class T, class G, class F> void with_rows(const NormArgs<T, G>& args, F f) {
  const int64_t n = args.sizes.row_size();
  with_vectors(args, [&](auto vec) {
    const auto with = [&](auto lanes, auto items) { f(vec, lanes, items); };
    if (n <= kWarp * 8) return with(Int<kWarp>(), Int<8>());
    if (n <= kWarp * 16) return with(Int<kWarp>(), Int<16>());
    if (n <= kWarp * 32) return with(Int<kWarp>(), Int<32>());
    if (n <= 64 * 32) return with(Int<64>(), Int<32>());
    if (n <= 128 * 32) return with(Int<128>(), Int<32>());
    with(Int<512>(), Int<0>());
  });
}

// Calls f(args), a NormArgs for the dtypes of x and of y or dy.
template <class F>
void with_args(const Norm& norm, const Tensor& out, const Tensor& dy, const Tensor& x, F f) {
  const DType other = (dy.defined() ? dy : out).dtype();
  if (other == x.dtype()) {
    visit_floating(other, [&]<class T>(TypeTag<T>) { f(NormArgs<T>(norm, out, dy, x, {})); });
  } else {
    visit_half(other, [&]<class G>(TypeTag<G>) { f(NormArgs<float, G>(norm, out, dy, x, {})); });
  }
}

// Computes dx and the sums in one pass, and returns whether it did. Requires vector accesses, and
// does not support double, which is rarely a bottleneck.
template <class T, class G>
bool run_fused(const NormArgs<T, G>& args, const ChannelSums& own, const Launch& on) {
  using C = Compute<T>;
  const int64_t n = args.sizes.row_size(), rows = args.sizes.rows();
  bool done = false;
  with_vectors(args, [&]<int kVec>(Int<kVec>) {
    if constexpr (kVec > 1 && sizeof(C) == sizeof(float)) {
      const auto launch = [&]<int kLanes, int kItems>(Int<kLanes>, Int<kItems>) {
        // The number of multiprocessors of an H200. It is a constant, so that sums are the same on
        // every GPU.
        constexpr int64_t kMultiprocessors = 132;
        const int64_t most = kMultiprocessors * kFusedBlocks<kLanes>;
        const int64_t blocks = std::min<int64_t>(row_grid<kLanes>(rows), most);
        const Scratch parts(size_t(2 * blocks * n) * sizeof(C), on.device);
        const dim3 grid{unsigned(blocks)}, block = row_block<kLanes>();
        if (args.added) {
          on.run(backward_kernel<T, G, kVec, kLanes, kItems, true, true>, {grid, block}, args,
                 parts.as<C>());
        } else {
          on.run(backward_kernel<T, G, kVec, kLanes, kItems, true, false>, {grid, block}, args,
                 parts.as<C>());
        }
        join(on, own, parts.as<const C>(), blocks, n);
        done = true;
      };
      if (n <= kWarp * 8) return launch(Int<kWarp>(), Int<8>());
      if (n <= kWarp * 16) return launch(Int<kWarp>(), Int<16>());
      if (n <= 128 * 8) return launch(Int<128>(), Int<8>());
      if (n <= 256 * 8) return launch(Int<256>(), Int<8>());
      if (n <= 512 * 8) launch(Int<512>(), Int<8>());
    }
  });
  return done;
}

}  // namespace

void norm_rows(const Norm& norm, const Tensor& out, const Tensor& dy, const Tensor& x) {
  const Launch on(x);
  with_args(norm, out, dy, x, [&]<class T, class G>(const NormArgs<T, G>& args) {
    with_rows(args, [&]<int kVec, int kLanes, int kItems>(Int<kVec>, Int<kLanes>, Int<kItems>) {
      const unsigned grid = row_grid<kLanes>(args.sizes.rows());
      const dim3 block = row_block<kLanes>();
      if (!dy.defined()) {
        on.run(forward_kernel<T, G, kVec, kLanes, kItems>, {grid, block}, args);
      } else if constexpr (std::is_same_v<T, G>) {
        on.run(backward_kernel<T, G, kVec, kLanes, kItems, false, false>, {grid, block}, args,
               nullptr);
      }
    });
  });
  on.check("norm");
}

bool norm_backward(const Norm& norm, const NormGradients& out, const Tensor& dy, const Tensor& x,
                   const Tensor& added) {
  const NormSizes& s = norm.sizes;
  if (s.groups != 1 || s.inner != 1) return false;
  const Launch on(x);
  bool done = false;
  with_args(norm, out.dx, dy, x, [&]<class T, class G>(NormArgs<T, G> args) {
    args.added = pointer<T>(added);
    done = run_fused(args, out.of_channels, on);
  });
  on.check("norm_backward");
  return done;
}

}  // namespace taper::v0::kernels::cuda
