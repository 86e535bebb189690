// Sums, means and maxima of groups (bags) of rows of a table
// (https://pytorch.org/docs/stable/generated/torch.nn.functional.embedding_bag.html).
#pragma once

#include <optional>

#include "framework/base/text_enum.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

struct BagModeValues {
  enum class Value : uint8_t { kSum, kMean, kMax };
  static constexpr Value kSum = Value::kSum, kMean = Value::kMean, kMax = Value::kMax;
  static constexpr const char* kOption = "mode";
  static constexpr const char* kWords[] = {"sum", "mean", "max"};
};
using BagMode = TextEnum<BagModeValues>;

struct BagOptions {
  BagMode mode = BagMode::kMean;
  Tensor per_sample_weights = {};    // of index's shape: factors of the rows; BagMode::kSum only
  bool include_last_offset = false;  // the last offset is the end of the last bag
  std::optional<int64_t> padding_idx = std::nullopt;  // excludes this row
};
// Returns one row [dim] per bag, [B, dim], from weight [rows, dim]. index is [B, n], or [n] with
// offsets [B] that hold the start of each bag, the first 0 (int64 or int32). A bag without rows
// gives zeros. An index out of range throws IndexError: on the CPU at once, on the GPU at the next
// synchronizing call. Differentiable with respect to weight and per_sample_weights.
//
//   // Row 1 + row 2, and row 4 + row 5:
//   embedding_bag(tensor({1, 2, 4, 5}), weight, tensor({0, 2}), {.mode = BagMode::kSum});
Tensor embedding_bag(const Tensor& index, const Tensor& weight, const Tensor& offsets = {},
                     const BagOptions& options = {});

}  // namespace taper::v0
