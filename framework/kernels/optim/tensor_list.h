// Ops on a whole list of tensors: optimizer updates, the norm of all gradients, averages of
// weights. Every tensor is split into chunks that are numbered through the list. A chunk is the
// work of one block on the GPU (one launch for all) and of one task on the CPU.
//
//   cpu::for_each_chunk(entries, f);                 framework/kernels/optim/tensor_list_cpu.h
//   cuda::for_each_chunk(op, on, entries, chunk, f); framework/kernels/optim/tensor_list.cuh
#pragma once

#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// Tensors with the same size and memory order, one for each role: parameter, gradient, states, ...
template <int kRoles> struct ListEntry {
  void* data[size_t(kRoles)];  // null where undefined
  DType dtype[size_t(kRoles)];
  int64_t numel;
};

// Makes an entry of these tensors. The first one must be defined; the others may be undefined.
template <class... T>
ListEntry<int(1 + sizeof...(T))> list_entry(const Tensor& first, const T&... rest) {
  const auto data = [](const Tensor& x) { return x.defined() ? x.data_ptr() : nullptr; };
  const auto dtype = [](const Tensor& x) { return x.defined() ? x.dtype() : kFloat32; };
  return {{data(first), data(rest)...}, {dtype(first), dtype(rest)...}, first.numel()};
}

// Elements [begin, end) of one entry.
template <int kRoles> struct ListChunk {
  void* data[size_t(kRoles)];  // start of the whole tensors
  DType dtype[size_t(kRoles)];
  int64_t begin, end;
  int64_t number;  // counted through the whole list
};

template <int kRoles>
int64_t count_chunks(const std::vector<ListEntry<kRoles>>& entries, int64_t chunk) {
  int64_t chunks = 0;
  for (const ListEntry<kRoles>& e : entries) chunks += (e.numel + chunk - 1) / chunk;
  return chunks;
}

}  // namespace taper::v0::kernels
