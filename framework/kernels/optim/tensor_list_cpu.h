// Processes the chunks of a list of tensors on the CPU's threads.
#pragma once

#include <algorithm>

#include "framework/host/parallel.h"
#include "framework/kernels/elementwise/convert_cpu.h"
#include "framework/kernels/optim/tensor_list.h"

namespace taper::v0::kernels::cpu {

// Number of elements per chunk. Converted elements stay in the L1 cache.
inline constexpr int64_t kListChunk = 2048;

// Returns the address of a tensor's elements that belong to a chunk.
template <int kRoles> void* span_of(const ListChunk<kRoles>& chunk, int role) {
  return static_cast<char*>(chunk.data[role]) + chunk.begin * int64_t(size_of(chunk.dtype[role]));
}
// Returns the elements as C: directly if they have that type, otherwise converted into `copy`.
template <class C, int kRoles> C* load_span(const ListChunk<kRoles>& chunk, int role, C* copy) {
  if (chunk.dtype[role] == dtype_of<C>) return static_cast<C*>(span_of(chunk, role));
  converter(chunk.dtype[role], dtype_of<C>)(span_of(chunk, role), 1, copy, 1,
                                            chunk.end - chunk.begin);
  return copy;
}
template <class C, int kRoles>
void store_span(const C* x, const ListChunk<kRoles>& chunk, int role) {
  converter(dtype_of<C>, chunk.dtype[role])(x, 1, span_of(chunk, role), 1, chunk.end - chunk.begin);
}

// Calls f(chunk) for every chunk of the list, in any order. There are count_chunks(entries,
// kListChunk) chunks.
template <int kRoles, class F>
void for_each_chunk(const std::vector<ListEntry<kRoles>>& entries, const F& f) {
  std::vector<int64_t> chunk_end;  // end of each entry's chunks
  int64_t chunks = 0;
  for (const ListEntry<kRoles>& e : entries) {
    chunks += (e.numel + kListChunk - 1) / kListChunk;
    chunk_end.push_back(chunks);
  }
  parallel_for(chunks, host::grain_of(4 * kListChunk), [&](int64_t begin, int64_t end) {
    auto it = std::upper_bound(chunk_end.begin(), chunk_end.end(), begin);
    for (int64_t c = begin; c < end; ++c) {
      while (*it <= c) ++it;
      const ListEntry<kRoles>& e = entries[size_t(it - chunk_end.begin())];
      const int64_t first = (c - (it == chunk_end.begin() ? 0 : *(it - 1))) * kListChunk;
      ListChunk<kRoles> chunk{{}, {}, first, std::min(first + kListChunk, e.numel), c};
      std::copy_n(e.data, kRoles, chunk.data);
      std::copy_n(e.dtype, kRoles, chunk.dtype);
      f(chunk);
    }
  });
}

}  // namespace taper::v0::kernels::cpu
