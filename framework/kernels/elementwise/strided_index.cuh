// The index walk of strided loops: from a thread's number to the offsets of its elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "framework/host_device.h"
#include "framework/kernels/elements.cuh"
#include "framework/kernels/elementwise/broadcast.h"

namespace taper::kernels::cuda {

// Indices of one launch fit 31 bits: longer loops are split.
inline constexpr int64_t kMaxPiece = (int64_t(1) << 31) - 1;
// Neighbours of the innermost dimension that a thread owns.
inline constexpr int kGroup = 4;

// Quotients of numbers below 2^31 by a product and a shift (Granlund and Montgomery 1994).
struct FastDivisor {
  uint32_t divisor = 1, multiplier = 1, shift = 0;

  FastDivisor() = default;
  explicit FastDivisor(uint32_t d) : divisor(d) {
    while ((uint64_t(1) << shift) < d) ++shift;
    multiplier = uint32_t(((uint64_t(1) << 32) * ((uint64_t(1) << shift) - d)) / d + 1);
  }
  TAPER_HD uint32_t divide(uint32_t n) const {
    const uint32_t high = uint32_t((uint64_t(n) * multiplier) >> 32);
    return (high + n) >> shift;
  }
};

template <int kOperands> struct Place {
  int64_t offset[kOperands];
  int inner;  // position in the innermost dimension
};

// From the number of a group (kWidth neighbours of the innermost dimension) to the offset of its
// first element in every operand. The innermost dimension comes first; operand 0 is the output.
template <int kOperands, int kWidth = kGroup> struct Walk {
  int dims = 1;
  uint32_t groups = 0;
  int inner_size = 1;
  int64_t inner_stride[kOperands] = {};
  FastDivisor size[kMaxDims];
  int64_t stride[kOperands][kMaxDims] = {};

  TAPER_HD Place<kOperands> at(uint32_t group) const {
    Place<kOperands> place{};
    uint32_t rest = group;
    for (int d = 0; d < dims; ++d) {
      const uint32_t next = d + 1 < dims ? size[d].divide(rest) : 0;
      const uint32_t i = rest - next * size[d].divisor;
      rest = next;
      for (int k = 0; k < kOperands; ++k) place.offset[k] += int64_t(i) * stride[k][d];
      if (d == 0) place.inner = int(i) * kWidth;
    }
    return place;
  }
  // Elements of the group that exist.
  TAPER_HD int count(int inner) const {
    return inner_size - inner < kWidth ? inner_size - inner : kWidth;
  }
};

inline const Operand& operand_of(const Loop& loop, int k) {
  return k == 0 ? loop.out : loop.in[k - 1];
}
inline Operand& operand_of(Loop& loop, int k) { return k == 0 ? loop.out : loop.in[k - 1]; }

// loop.numel is at most kMaxPiece. Dimensions are ordered by the output's strides, so that its
// neighbours belong to one thread.
template <int kOperands, int kWidth = kGroup> Walk<kOperands, kWidth> make_walk(const Loop& loop) {
  int order[kMaxDims] = {};
  for (int d = 0; d < loop.dims; ++d) order[d] = loop.dims - 1 - d;
  std::stable_sort(order, order + loop.dims, [&](int a, int b) {
    return std::abs(loop.out.strides[a]) < std::abs(loop.out.strides[b]);
  });
  Walk<kOperands, kWidth> walk;
  walk.dims = loop.dims;
  walk.inner_size = int(loop.sizes[order[0]]);
  int64_t groups = 1;
  for (int d = 0; d < loop.dims; ++d) {
    const int64_t size = loop.sizes[order[d]];
    const int64_t steps = d == 0 ? ceil_div(size, kWidth) : size;
    walk.size[d] = FastDivisor(uint32_t(steps));
    groups *= steps;
    for (int k = 0; k < kOperands; ++k) {
      const int64_t stride = operand_of(loop, k).strides[order[d]];
      walk.stride[k][d] = d == 0 ? stride * kWidth : stride;
      if (d == 0) walk.inner_stride[k] = stride;
    }
  }
  walk.groups = uint32_t(groups);
  return walk;
}

// Whole groups of operand k can be moved by one vector access.
template <int kOperands> bool has_vectors(const Walk<kOperands>& walk, int k, const Operand& x) {
  bool yes = x.data && walk.inner_size % kGroup == 0 && walk.inner_stride[k] == 1 &&
             is_aligned(x.data, std::min<size_t>(16, kGroup * size_of(x.dtype)));
  for (int d = 1; d < walk.dims; ++d) yes = yes && walk.stride[k][d] % kGroup == 0;
  return yes;
}

// Calls run(piece) for parts of the loop whose numel is at most kMaxPiece.
template <class Run> void for_each_piece(const Loop& loop, const Run& run) {
  if (loop.numel <= kMaxPiece) return run(loop);
  const int longest = int(std::max_element(loop.sizes, loop.sizes + loop.dims) - loop.sizes);
  Loop head = loop, tail = loop;
  head.sizes[longest] = loop.sizes[longest] / 2;
  tail.sizes[longest] = loop.sizes[longest] - head.sizes[longest];
  head.numel = loop.numel / loop.sizes[longest] * head.sizes[longest];
  tail.numel = loop.numel - head.numel;
  for (int k = 0; k <= loop.inputs; ++k) {
    Operand& x = operand_of(tail, k);
    if (!x.data) continue;
    const int64_t skipped = head.sizes[longest] * x.strides[longest] * int64_t(size_of(x.dtype));
    x.data = static_cast<char*>(x.data) + skipped;
  }
  for_each_piece(head, run);
  for_each_piece(tail, run);
}

}  // namespace taper::kernels::cuda
