// Computes dz = dy * activation'(z), its column sums and, if wanted, y = activation(z), in one pass
// over dy [m, n]. The results are overwritten. A block sums some rows of some columns. If there are
// several such blocks along the rows, a second launch combines their sums. The order depends only
// on sizes and dtype.
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/elementwise/activation_functors.h"
#include "framework/kernels/matmul/matmul.h"
#include "framework/kernels/reduce/reduce.cuh"

namespace taper::v0::kernels::cuda {
namespace {

// The activation that belongs to a gradient, if its argument is kept.
template <class F> struct ForwardOf { using type = NoActivation; };
template <> struct ForwardOf<GeluBackward> { using type = Gelu; };
template <> struct ForwardOf<GeluTanhBackward> { using type = GeluTanh; };

template <class F, class G, class T> struct BiasArgs {
  F f;
  G g;
  const T *dy, *kept;
  T *dz, *result;  // result: null if it is not wanted
  int64_t m, n;
  int64_t chunk;  // rows per block
  bool aligned;   // whether only whole, aligned vectors are accessed
  void* sums;     // [chunks, n] of Compute<T>, or [n] of T if there is one chunk
  bool last;
};

template <class F, class G, class T>
__global__ void __launch_bounds__(kThreads, 3)
    bias_backward_kernel(const __grid_constant__ BiasArgs<F, G, T> args, ColumnBlock block) {
  begin_kernel();
  using C = Compute<T>;
  constexpr int V = kVec<T>, kLoads = 2;
  const int x = int(threadIdx.x) % block.width, y = int(threadIdx.x) / block.width;
  const int64_t column = (blockIdx.x % block.tiles * block.width + x) * V;
  const int64_t part = blockIdx.x / block.tiles, begin = part * args.chunk;
  const int64_t end = begin + args.chunk < args.m ? begin + args.chunk : args.m;
  const int columns = clip<T>(args.n - column);

  C sums[V] = {};
  const auto take = [&](int64_t row, auto whole) {
    Vec<T, V> dy[kLoads], kept[kLoads];
    const auto count = [&](int k) { return row + k * block.height < end ? columns : 0; };
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      const int64_t at = (row + k * block.height) * args.n + column;
      dy[k] = whole ? load_vec<T, V>(args.dy + at) : load_some(args.dy + at, count(k), false);
      kept[k] = whole ? load_vec<T, V>(args.kept + at) : load_some(args.kept + at, count(k), false);
    }
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      const int64_t at = (row + k * block.height) * args.n + column;
      Vec<T, V> dz, result;
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (!whole && j >= count(k)) break;
        dz.at[j] = T(args.f(C(dy[k].at[j]), C(kept[k].at[j])));
        sums[j] += C(dz.at[j]);
        if (args.result) result.at[j] = T(args.g(C(kept[k].at[j])));
        if (whole) continue;
        args.dz[at + j] = dz.at[j];
        if (args.result) args.result[at + j] = result.at[j];
      }
      if (!whole) continue;
      store_vec(args.dz + at, dz);
      if (args.result) store_vec(args.result + at, result);
    }
  };
  for (int64_t row = begin + y; row < end; row += int64_t(block.height) * kLoads) {
    if (args.aligned && columns == V && row + int64_t(block.height) * (kLoads - 1) < end) {
      take(row, std::true_type{});
    } else {
      take(row, std::false_type{});
    }
  }
  join_rows(Sum<C>{{}, 1}, sums, block);
  if (y != 0) return;
  for (int j = 0; j < columns; ++j) {
    if (args.last) {
      static_cast<T*>(args.sums)[column + j] = T(sums[j]);
    } else {
      static_cast<C*>(args.sums)[part * args.n + column + j] = sums[j];
    }
  }
}

}  // namespace

void bias_backward(Activation activation, const BiasGradients& out, const Tensor& dy,
                   const Tensor& kept) {
  const taper::cuda::Launch on(dy);
  const int64_t m = dy.size(0), n = dy.size(1);
  const ReduceSizes sizes{1, m, n};
  visit_floating(dy.dtype(), [&]<class T>(TypeTag<T>) {
    constexpr int V = kVec<T>;
    const ColumnBlock block = column_block(sizes, V);
    const int64_t chunk = chunk_of(sizes, V, 2), chunks = ceil_div(m, chunk);
    const Tensor parts =
        chunks == 1 ? out.dbias : Tensor::make({chunks, n}, dtype_of<Compute<T>>, dy.device());
    const bool aligned = n % V == 0 && is_aligned(dy.data_ptr(), 16) &&
                         is_aligned(kept.data_ptr(), 16) && is_aligned(out.dz.data_ptr(), 16) &&
                         is_aligned(pointer<T>(out.result), 16);
    const auto run = [&](auto f, auto g) {
      const BiasArgs<decltype(f), decltype(g), T> args{f,
                                                       g,
                                                       pointer<const T>(dy),
                                                       pointer<const T>(kept),
                                                       pointer<T>(out.dz),
                                                       pointer<T>(out.result),
                                                       m,
                                                       n,
                                                       chunk,
                                                       aligned,
                                                       parts.data_ptr(),
                                                       chunks == 1};
      on.run(bias_backward_kernel<decltype(f), decltype(g), T>,
             {unsigned(chunks * block.tiles), block.width * block.height}, args, block);
    };
    visit_backward(activation, [&]<class F>(F) {
      using G = typename ForwardOf<F>::type;
      run(std::conditional_t<kIsHalf<T>, typename OfHalf<F>::type, F>(),
          std::conditional_t<kIsHalf<T>, typename OfHalf<G>::type, G>());
    });
    on.check("linear");
    if (chunks > 1) reduce(ReductionOp::kSum, out.dbias, parts, {1, chunks, n});
  });
}

}  // namespace taper::v0::kernels::cuda
