#include "modules/layers/packed_sequence.h"

#include <algorithm>
#include <numeric>

#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"

namespace taper::v0 {
namespace {

using Numbers = std::vector<int64_t>;

Tensor index_of(const Numbers& numbers, const Tensor& like) {
  return tensor(numbers, {.dtype = kInt64, .device = like.device()});
}

}  // namespace

PackedSequence pack_padded_sequence(const Tensor& x, const Numbers& lengths,
                                    const PackOptions& options) {
  const bool batch_first = options.batch_first, enforce_sorted = options.enforce_sorted;
  require(x.dim() >= 2 && x.numel() > 0, "Cannot pack empty tensors.");
  const Tensor by_time = batch_first ? x.transpose(0, 1) : x;
  const int64_t T = by_time.size(0), B = by_time.size(1);
  require(std::ssize(lengths) == B, "Expected `len(lengths)` to be equal to batch_size, but got ",
          lengths.size(), " (batch_size=", B, ")");
  require(
      std::ranges::min(lengths) > 0,
      "Length of all samples has to be greater than 0, but found an element in 'lengths' that is "
      "<= 0");
  require(std::ranges::max(lengths) <= T, "pack_padded_sequence: a length of ",
          std::ranges::max(lengths), " in sequences of ", T);
  Numbers order(lengths.size()), back(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  if (enforce_sorted) {
    require(
        std::ranges::is_sorted(lengths, std::greater()),
        "`lengths` array must be sorted in decreasing order when `enforce_sorted` is true. Pass "
        "false for `enforce_sorted` to let pack_padded_sequence sort the sequences.");
  } else {
    std::ranges::stable_sort(order, std::greater(), [&](int64_t b) { return lengths[size_t(b)]; });
  }
  for (size_t i = 0; i < order.size(); ++i) back[size_t(order[i])] = int64_t(i);
  PackedSequence out;
  Numbers rows;
  for (int64_t t = 0; t < lengths[size_t(order[0])]; ++t) {
    const size_t before = rows.size();
    for (const int64_t b : order) {
      if (t < lengths[size_t(b)]) rows.push_back(t * B + b);
    }
    out.batch_sizes.push_back(int64_t(rows.size() - before));
  }
  out.data = index_select(flatten(by_time, 0, 1), 0, index_of(rows, x));
  if (!enforce_sorted) {
    out.sorted_indices = index_of(order, x);
    out.unsorted_indices = index_of(back, x);
  }
  return out;
}

PaddedSequence pad_packed_sequence(const PackedSequence& sequence, const UnpackOptions& options) {
  const bool batch_first = options.batch_first;
  const double padding_value = options.padding_value;
  const std::optional<int64_t> total_length = options.total_length;
  const Numbers& sizes = sequence.batch_sizes;
  require<ValueError>(!sizes.empty(), "pad_packed_sequence: the packed sequence has no steps: its ",
                      "batch_sizes are empty");
  const int64_t longest = std::ssize(sizes), T = total_length.value_or(longest), B = sizes[0];
  require<ValueError>(
      T >= longest,
      "Expected total_length to be at least the length of the longest sequence in input, but got "
      "total_length=",
      T, " and max sequence length being ", longest);
  Numbers place(static_cast<size_t>(B));  // position of each sequence among the sorted ones
  std::iota(place.begin(), place.end(), 0);
  if (sequence.unsorted_indices.defined()) {
    place = sequence.unsorted_indices.cpu().to_vector<int64_t>();
  }
  // Indices of rows of data. An index beyond the last row selects the padding.
  const int64_t padding = sequence.data.size(0);
  Numbers rows(static_cast<size_t>(T * B), padding), lengths(static_cast<size_t>(B));
  for (int64_t t = 0, start = 0; t < longest; start += sizes[size_t(t++)]) {
    for (size_t b = 0; b < place.size(); ++b) {
      if (place[b] >= sizes[size_t(t)]) continue;
      rows[size_t(t * B) + b] = start + place[b];
      lengths[b] = t + 1;
    }
  }
  const Tensor& data = sequence.data;
  Shape one = data.shape();
  one[0] = 1;
  const Tensor row = full(one, padding_value, {.dtype = data.dtype(), .device = data.device()});
  const Tensor padded =
      unflatten(index_select(cat({data, row}, 0), 0, index_of(rows, data)), 0, {T, B});
  return {batch_first ? padded.transpose(0, 1) : padded, lengths};
}

}  // namespace taper::v0
