// Sums, means and maxima of rows of a table
// (https://pytorch.org/docs/stable/generated/torch.nn.functional.embedding_bag.html).
#pragma once

#include <optional>

#include "framework/tensor.h"

namespace taper::v0 {

enum class BagMode : uint8_t { sum, mean, max };
inline constexpr const char* kBagModeNames[] = {"sum", "mean", "max"};
struct BagOptions {
  BagMode mode = BagMode::mean;
  Tensor per_sample_weights = {};    // of index's shape: factors of its rows, for sums
  bool include_last_offset = false;  // the last offset is the end of the last bag
  std::optional<int64_t> padding_idx = std::nullopt;  // this row does not take part
};
// index [B, n], or [n] with offsets [B], where each bag begins, the first at 0 (int64 or int32);
// weight [rows, dim] to [B, dim]. A bag without rows gives zeros.
Tensor embedding_bag(const Tensor& index, const Tensor& weight, const Tensor& offsets = {},
                     const BagOptions& options = {});

}  // namespace taper::v0
