// Processes the chunks of a list of tensors on the GPU: one block per chunk and one launch for the
// list (up to some hundred tensors). Pointers are passed as kernel arguments, so that a captured
// graph replays them.
#pragma once

#include <cassert>
#include <cstdint>

#include "framework/cuda/runtime.h"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/kernels/elementwise/elementwise.cuh"
#include "framework/kernels/optim/tensor_list.h"

namespace taper::v0::kernels::cuda {

template <int kRoles, int kMax> struct TensorList {
  void* data[kRoles][kMax];
  int64_t numel[kMax];
  uint32_t first_chunk[kMax + 1];
  DType dtype[kRoles][kMax];
  int count;
  int chunk;      // elements
  int64_t first;  // list-wide number of this launch's first chunk
};
// The maximum number of tensors per launch. With kFew, the arguments stay below 4 KiB, up to which
// a launch has little overhead. With kMany, they stay below the limit of 32,764 bytes. The
// remaining bytes are for the functor.
template <int kRoles> inline constexpr int kFew = 3700 / (9 * kRoles + 12);
template <int kRoles> inline constexpr int kMany = 32000 / (9 * kRoles + 12);

// Returns the chunk of this block.
template <int kRoles, int kMax>
__device__ ListChunk<kRoles> chunk_of_block(const TensorList<kRoles, kMax>& list) {
  // Search the last tensor whose first chunk is not after this block.
  int low = 0, high = list.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (list.first_chunk[middle] <= blockIdx.x ? low : high) = middle;
  }
  ListChunk<kRoles> chunk;
#pragma unroll
  for (int r = 0; r < kRoles; ++r) {
    chunk.data[r] = list.data[r][low];
    chunk.dtype[r] = list.dtype[r][low];
  }
  chunk.begin = int64_t(blockIdx.x - list.first_chunk[low]) * list.chunk;
  chunk.end = min(chunk.begin + list.chunk, list.numel[low]);
  chunk.number = list.first + blockIdx.x;
  return chunk;
}

template <int kRoles, int kMax, class F>
__global__ void __launch_bounds__(kThreads)
    list_kernel(const __grid_constant__ TensorList<kRoles, kMax> list, const F f) {
  begin_kernel();
  f(chunk_of_block(list));
}

// Returns the number of elements per chunk, a multiple of 4, for a list with `numel` elements in
// all. Small models need many blocks; large ones benefit from fewer.
inline int list_chunk(int64_t numel) { return numel < (int64_t(1) << 22) ? 2048 : 8192; }
template <int kRoles> int64_t numel_of(const std::vector<ListEntry<kRoles>>& entries) {
  int64_t numel = 0;
  for (const ListEntry<kRoles>& e : entries) numel += e.numel;
  return numel;
}

// Launches entries from `begin` on and returns the first entry of the next launch.
template <int kMax, int kRoles, class F>
size_t launch_list(const char* op, const taper::cuda::Launch& on,
                   const std::vector<ListEntry<kRoles>>& entries, size_t begin, int chunk,
                   int64_t& number, const F& f) {
  TensorList<kRoles, kMax> list;
  static_assert(sizeof list + sizeof f < (kMax == kFew<kRoles> ? 4096 : 32764));
  list.count = 0;
  list.chunk = chunk;
  list.first = number;
  int64_t chunks = 0;
  size_t i = begin;
  for (; i < entries.size() && list.count < kMax; ++i) {
    const ListEntry<kRoles>& e = entries[i];
    if (e.numel == 0) continue;
    for (int r = 0; r < kRoles; ++r) {
      list.data[r][list.count] = e.data[r];
      list.dtype[r][list.count] = e.dtype[r];
    }
    list.numel[list.count] = e.numel;
    list.first_chunk[list.count++] = uint32_t(chunks);
    chunks += ceil_div(e.numel, chunk);
  }
  list.first_chunk[list.count] = uint32_t(chunks);
  assert(chunks <= kMaxPiece);
  if (chunks > 0) on.run(list_kernel<kRoles, kMax, F>, {unsigned(chunks), kThreads}, list, f);
  on.check(op);
  number += chunks;
  return i;
}

// Calls f(chunk) for every chunk of the list, in the kThreads threads of a block. There are
// count_chunks(entries, chunk) chunks.
template <int kRoles, class F>
void for_each_chunk(const char* op, const taper::cuda::Launch& on,
                    const std::vector<ListEntry<kRoles>>& entries, int chunk, const F& f) {
  int64_t number = 0;
  for (size_t done = 0; done < entries.size();) {
    done = entries.size() - done <= size_t(kFew<kRoles>)
               ? launch_list<kFew<kRoles>>(op, on, entries, done, chunk, number, f)
               : launch_list<kMany<kRoles>>(op, on, entries, done, chunk, number, f);
  }
}

// Like visit_floating, for device code.
template <class F> __device__ auto visit_floats(DType t, const F& f) {
  if (t == kFloat32) return f(TypeTag<float>{});
  if (t == kBFloat16) return f(TypeTag<BFloat16>{});
  if (t == kFloat16) return f(TypeTag<Half>{});
  return f(TypeTag<double>{});
}

// Load and store elements of any floating dtype, computed as C (float or double). Vectors need
// memory aligned to 16 bytes and i a multiple of 4.
template <class C, int kVec>
__device__ Vec<C, kVec> load_floats(const void* data, DType dtype, int64_t i) {
  return visit_floats(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Vec<T, kVec> from = load_vec<T, kVec>(static_cast<const T*>(data) + i);
    Vec<C, kVec> x;
#pragma unroll
    for (int j = 0; j < kVec; ++j) x.at[j] = convert<C>(from.at[j]);
    return x;
  });
}
template <class C, int kVec>
__device__ void store_floats(void* data, DType dtype, int64_t i, const Vec<C, kVec>& x) {
  visit_floats(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Vec<T, kVec> to;
#pragma unroll
    for (int j = 0; j < kVec; ++j) to.at[j] = convert<T>(x.at[j]);
    store_vec(static_cast<T*>(data) + i, to);
  });
}

// Returns the first element of a chunk that does not belong to a whole vector of four elements. If
// the tensors are not aligned, that is the chunk's first element.
template <int kRoles> __device__ int64_t begin_of_rest(const ListChunk<kRoles>& chunk) {
  bool vectors = true;
#pragma unroll
  for (int r = 0; r < kRoles; ++r) {
    vectors = vectors && reinterpret_cast<uintptr_t>(chunk.data[r]) % 16 == 0;
  }
  return vectors ? chunk.begin + (chunk.end - chunk.begin) / 4 * 4 : chunk.begin;
}

// Calls body(i, integral_constant<kVec>) for the elements of a chunk, distributed over the block's
// threads. If all tensors are aligned, each call is for four adjacent elements.
template <int kRoles, class F>
__device__ void each_in_chunk(const ListChunk<kRoles>& chunk, const F& body) {
  const int64_t middle = begin_of_rest(chunk);
  for (int64_t i = chunk.begin + threadIdx.x * 4; i < middle; i += kThreads * 4) {
    body(i, std::integral_constant<int, 4>{});
  }
  for (int64_t i = middle + threadIdx.x; i < chunk.end; i += kThreads) {
    body(i, std::integral_constant<int, 1>{});
  }
}

}  // namespace taper::v0::kernels::cuda
