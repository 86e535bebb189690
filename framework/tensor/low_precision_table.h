// The table behind framework/factory/low_precision_cache.h, which maps parameters to their
// low-precision copies. It is declared below the kernels, because a parameter that is destroyed
// removes its entry.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "framework/tensor/tensor.h"

namespace taper::v0 {
namespace detail {

struct LowPrecisionEntry {
  Tensor copy;
  uint32_t version;     // of the parameter's memory when the copy was made or updated
  uint64_t handed_out;  // the table's clock when the copy was last returned
};

struct LowPrecisionTable {
  std::mutex mutex;  // guards `entries`
  std::unordered_map<const TensorImpl*, LowPrecisionEntry> entries;
  // The number of entries. Programs without autocast only read this number and never take the lock.
  std::atomic<size_t> size{0};
  std::atomic<uint64_t> clock{0}, changes{0};
};

// Returns the table of this process. It is never destroyed, because parameters with static lifetime
// may be destroyed after main().
LowPrecisionTable& low_precision_table();

}  // namespace detail

// Removes a parameter's copy. Called when the parameter is destroyed or its memory is replaced.
void forget_low_precision_copy(const TensorImpl* parameter) noexcept;

}  // namespace taper::v0
