// Index computation of strided loops: from a thread's number to the offsets of its elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "framework/base/host_device.h"
#include "framework/kernels/common/elements.cuh"
#include "framework/kernels/elementwise/broadcast.h"

namespace taper::v0::kernels::cuda {

// Indices within one launch must fit in 31 bits. A longer loop is split.
inline constexpr int64_t kMaxPiece = (int64_t(1) << 31) - 1;
// Number of adjacent elements of the innermost dimension per thread.
inline constexpr int kGroup = 4;

// Divides numbers below 2^31 by a multiplication and a shift (Granlund and Montgomery 1994).
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

// Maps the number of a group (kWidth adjacent elements of the innermost dimension) to the offset of
// its first element in every operand. The innermost dimension comes first; operand 0 is the output.
template <int kOperands, int kWidth = kGroup> struct OffsetCalculator {
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
  // Returns the number of elements of the group that exist.
  TAPER_HD int count(int inner) const {
    return inner_size - inner < kWidth ? inner_size - inner : kWidth;
  }
};

// iter.numel must be at most kMaxPiece. Dimensions are ordered by the output's strides, so that one
// thread writes adjacent elements.
template <int kOperands, int kWidth = kGroup>
OffsetCalculator<kOperands, kWidth> make_offsets(const TensorIterator& iter) {
  int order[kMaxDims] = {};
  for (int d = 0; d < iter.dims; ++d) order[d] = iter.dims - 1 - d;
  std::stable_sort(order, order + iter.dims, [&](int a, int b) {
    return std::abs(iter.out.strides[a]) < std::abs(iter.out.strides[b]);
  });
  OffsetCalculator<kOperands, kWidth> offsets;
  offsets.dims = iter.dims;
  offsets.inner_size = int(iter.sizes[order[0]]);
  int64_t groups = 1;
  for (int d = 0; d < iter.dims; ++d) {
    const int64_t size = iter.sizes[order[d]];
    const int64_t steps = d == 0 ? ceil_div(size, kWidth) : size;
    offsets.size[d] = FastDivisor(uint32_t(steps));
    groups *= steps;
    for (int k = 0; k < kOperands; ++k) {
      const int64_t stride = operand_of(iter, k).strides[order[d]];
      offsets.stride[k][d] = d == 0 ? stride * kWidth : stride;
      if (d == 0) offsets.inner_stride[k] = stride;
    }
  }
  offsets.groups = uint32_t(groups);
  return offsets;
}

// Returns whether whole groups of operand k can be accessed as vectors.
template <int kOperands>
bool has_vectors(const OffsetCalculator<kOperands>& offsets, int k, const Operand& x) {
  bool yes = x.data && offsets.inner_size % kGroup == 0 && offsets.inner_stride[k] == 1 &&
             is_aligned(x.data, std::min<size_t>(16, kGroup * size_of(x.dtype)));
  for (int d = 1; d < offsets.dims; ++d) yes = yes && offsets.stride[k][d] % kGroup == 0;
  return yes;
}

// Calls run(piece) for parts of the iteration whose numel is at most kMaxPiece.
template <class Run> void for_each_piece(const TensorIterator& iter, const Run& run) {
  if (iter.numel <= kMaxPiece) return run(iter);
  const int longest = int(std::max_element(iter.sizes, iter.sizes + iter.dims) - iter.sizes);
  TensorIterator head = iter, tail = iter;
  head.sizes[longest] = iter.sizes[longest] / 2;
  tail.sizes[longest] = iter.sizes[longest] - head.sizes[longest];
  head.numel = iter.numel / iter.sizes[longest] * head.sizes[longest];
  tail.numel = iter.numel - head.numel;
  for (int k = 0; k <= iter.inputs; ++k) {
    Operand& x = operand_of(tail, k);
    if (!x.data) continue;
    const int64_t skipped = head.sizes[longest] * x.strides[longest] * int64_t(size_of(x.dtype));
    x.data = static_cast<char*>(x.data) + skipped;
  }
  for_each_piece(head, run);
  for_each_piece(tail, run);
}

}  // namespace taper::v0::kernels::cuda
