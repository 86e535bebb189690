// Ops on a whole list of tensors at once: optimizer updates, the norm of all gradients, averages of
// weights. Every tensor is cut into chunks, counted through the whole list; a chunk is one block's
// work on the GPU (one launch for all) and one task's on the CPU.
//
//   cpu::for_each_chunk(entries, f);             framework/kernels/optim/tensor_list_cpu.h
//   cuda::for_each_chunk(op, on, entries, f);    framework/kernels/optim/tensor_list.cuh
#pragma once

#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// Tensors of one size and memory order, each in its role: a parameter, its gradient, its state ...
template <int kRoles> struct ListEntry {
  void* data[size_t(kRoles)];  // null where undefined
  DType dtype[size_t(kRoles)];
  int64_t numel;
};

// The first tensor is defined; the others may be undefined.
template <class... T>
ListEntry<int(1 + sizeof...(T))> list_entry(const Tensor& first, const T&... rest) {
  const auto data = [](const Tensor& x) { return x.defined() ? x.data_ptr() : nullptr; };
  const auto dtype = [](const Tensor& x) { return x.defined() ? x.dtype() : kFloat32; };
  return {{data(first), data(rest)...}, {dtype(first), dtype(rest)...}, first.numel()};
}

// Elements [begin, end) of one entry.
template <int kRoles> struct ListChunk {
  void* data[size_t(kRoles)];  // where the whole tensors start
  DType dtype[size_t(kRoles)];
  int64_t begin, end;
  int64_t number;  // counted through the list
};

template <int kRoles>
int64_t count_chunks(const std::vector<ListEntry<kRoles>>& entries, int64_t chunk) {
  int64_t chunks = 0;
  for (const ListEntry<kRoles>& e : entries) chunks += (e.numel + chunk - 1) / chunk;
  return chunks;
}

}  // namespace taper::v0::kernels
