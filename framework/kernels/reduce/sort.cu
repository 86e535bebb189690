// Order, running sums and products of rows (`=`). Rows are sorted all at once: by key, then by row,
// each time stably. A block joins its row piece by piece.
#include "framework/kernels/reduce/sort.h"

#include <algorithm>
#include <bit>
#include <cub/block/block_scan.cuh>
#include <cub/device/device_radix_sort.cuh>

#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/elementwise/elementwise.cuh"
#include "framework/kernels/per_element.cuh"
#include "framework/kernels/reduce/reduce.cuh"

namespace taper::inline v0::kernels::cuda {
namespace {

using taper::cuda::Launch;
using taper::cuda::Scratch;

struct RowOf {
  int64_t* row;
  const int64_t* position;
  int64_t n;
  TAPER_HD void operator()(int64_t i) const { row[i] = position[i] / n; }
};
struct PlaceInRow {
  int64_t* place;
  const int64_t* position;
  int64_t n;
  TAPER_HD void operator()(int64_t i) const { place[i] = position[i] % n; }
};

constexpr int kItems = 4;  // neighbours that a thread owns

// F: Sum or Product (reduce.cuh).
template <class F, class T>
__global__ void __launch_bounds__(kThreads)
    cumulate_kernel(T* y, const T* x, int64_t rows, int64_t n) {
  const auto join = [](T a, T b) { return F().join(a, b); };
  using Scan = cub::BlockScan<T, kThreads>;
  __shared__ typename Scan::TempStorage storage;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    T before = F::none();
    for (int64_t start = 0; start < n; start += kThreads * kItems) {
      const int64_t at = start + int64_t(threadIdx.x) * kItems;
      T v[kItems], all;
#pragma unroll
      for (int j = 0; j < kItems; ++j) v[j] = at + j < n ? x[row * n + at + j] : F::none();
      Scan(storage).InclusiveScan(v, v, join, all);
#pragma unroll
      for (int j = 0; j < kItems; ++j) {
        if (at + j < n) y[row * n + at + j] = join(before, v[j]);
      }
      before = join(before, all);
      __syncthreads();  // storage serves the next piece
    }
  }
}

}  // namespace

void sort_pairs(const Tensor& sorted_keys, const Tensor& sorted_numbers, const Tensor& keys,
                const Tensor& numbers, int bits) {
  const Launch on(keys);
  size_t bytes = 0;
  const auto sort = [&](void* scratch) {
    return cub::DeviceRadixSort::SortPairs(
        scratch, bytes, pointer<const uint64_t>(keys), pointer<uint64_t>(sorted_keys),
        pointer<const int64_t>(numbers), pointer<int64_t>(sorted_numbers), keys.numel(), 0, bits,
        on.stream);
  };
  TAPER_CUDA_CHECK(sort(nullptr));
  const Scratch scratch(bytes, on.device);
  TAPER_CUDA_CHECK(sort(scratch.data()));
}

void argsort(const Tensor& order, const Tensor& keys, int64_t n) {
  const int64_t count = order.numel(), rows = count / n;
  const Tensor position = empty_like_layout(order, kInt64),
               sorted = empty_like_layout(order, kInt64);
  arange(position, 0, 1);
  sort_pairs(sorted, order, keys, position, 64);
  if (rows == 1) return;
  const Tensor row = empty_like_layout(order, kInt64);
  Backend::run("sort", order, count, 1, RowOf{pointer<int64_t>(row), pointer<int64_t>(order), n});
  sort_pairs(sorted, position, row, order, std::bit_width(uint64_t(rows - 1)));
  Backend::run("sort", order, count, 1,
               PlaceInRow{pointer<int64_t>(order), pointer<int64_t>(position), n});
}

void cumulate(ReduceOp op, const Tensor& y, const Tensor& x, int64_t n) {
  const Launch on(y);
  const int64_t rows = y.numel() / n;
  const auto run = [&]<class T>(TypeTag<T>) {
    const auto kernel =
        op == ReduceOp::prod ? cumulate_kernel<Product<T>, T> : cumulate_kernel<Sum<T>, T>;
    kernel<<<unsigned(std::min(rows, kMaxPiece)), kThreads, 0, on.stream>>>(
        pointer<T>(y), pointer<const T>(x), rows, n);
    on.check("cumulate");
  };
  if (y.dtype() == kInt64) return run(TypeTag<int64_t>{});
  if (y.dtype() == kFloat64) return run(TypeTag<double>{});
  run(TypeTag<float>{});
}

}  // namespace taper::inline v0::kernels::cuda
