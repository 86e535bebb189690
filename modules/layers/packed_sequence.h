// Sequences of several lengths, packed for recurrent layers
// (https://pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pack_padded_sequence.html).
#pragma once

#include <optional>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

// The first steps of all sequences, then their second ones, ...: those of longer sequences first.
struct PackedSequence {
  Tensor data;  // [sum of lengths, ...]
  std::vector<int64_t>
      batch_sizes;  // how many sequences have a step, never more than the one before
  // The sequences that were sorted, and back; undefined where they came so. int64, beside data.
  Tensor sorted_indices = {}, unsorted_indices = {};
  void tensors(const auto& each) { each(data); }
};

// x [T, B, ...], or [B, T, ...] with batch_first, of B sequences with these lengths, which fall
// unless enforce_sorted is false.
PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<int64_t>& lengths,
                                    BoolArg batch_first = false, BoolArg enforce_sorted = true);

// What pad_packed_sequence gives.
struct PaddedSequence {
  Tensor output;  // [T, B, ...] or [B, T, ...]
  std::vector<int64_t> lengths;
};
// The inverse: padding_value behind the ends, up to the longest one's or to total_length.
PaddedSequence pad_packed_sequence(const PackedSequence& sequence, BoolArg batch_first = false,
                                   RealArg padding_value = 0,
                                   std::optional<IntArg> total_length = std::nullopt);

}  // namespace taper::v0
