// Sequences of different lengths, packed for recurrent layers
// (https://pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pack_padded_sequence.html).
#pragma once

#include <optional>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

// Sequences whose steps are concatenated: the first steps of all sequences, then their second
// steps, and so on. Longer sequences come first.
struct PackedSequence {
  Tensor data;                       // [sum of lengths, ...]
  std::vector<int64_t> batch_sizes;  // number of sequences that have each step; never increases
  // The permutation that sorted the sequences, and its inverse, int64 on the device of data.
  // Undefined if the sequences were already sorted.
  Tensor sorted_indices = {}, unsorted_indices = {};
  void tensors(const auto& each) { each(data); }
};

struct PackOptions {
  bool batch_first = false;
  bool enforce_sorted = true;
};
// Packs B sequences with these lengths. x is [T, B, ...], or [B, T, ...] with batch_first. The
// lengths must not increase, unless enforce_sorted is false.
//
//   pack_padded_sequence(x, lengths, {.batch_first = true, .enforce_sorted = false});
PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<int64_t>& lengths,
                                    const PackOptions& options = {});
// A template, so that options in braces select the function above.
template <class = void>
PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<int64_t>& lengths,
                                    BoolArg batch_first, BoolArg enforce_sorted = true) {
  return pack_padded_sequence(x, lengths, PackOptions{batch_first, enforce_sorted});
}

// The result of pad_packed_sequence().
struct PaddedSequence {
  Tensor output;  // [T, B, ...] or [B, T, ...]
  std::vector<int64_t> lengths;
};
struct UnpackOptions {
  bool batch_first = false;
  double padding_value = 0;
  std::optional<int64_t> total_length = std::nullopt;
};
// The inverse of pack_padded_sequence(). Writes padding_value after the end of each sequence, up to
// the longest length or to total_length.
PaddedSequence pad_packed_sequence(const PackedSequence& sequence,
                                   const UnpackOptions& options = {});
// A template, so that options in braces select the function above.
template <class = void>
PaddedSequence pad_packed_sequence(const PackedSequence& sequence, BoolArg batch_first,
                                   RealArg padding_value = 0,
                                   std::optional<IntArg> total_length = std::nullopt) {
  return pad_packed_sequence(sequence, UnpackOptions{batch_first, padding_value, total_length});
}

}  // namespace taper::v0
