// Copies of float32 parameters in float16 or bfloat16 that are kept from step to step. Autocast
// multiplies by them, and an optimizer's kernel refreshes them in the pass that updates the
// parameter.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/tensor/low_precision_table.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

// Returns the parameter's values in `dtype`, outside the tape. The copy is kept while the parameter
// lives. It is made again when the parameter's memory has changed without a call of
// low_precision_copy_updated.
Tensor low_precision_copy(const Tensor& parameter, DType dtype);

// Returns the copy, to which an optimizer's kernel writes the new values on the parameter's device.
// Returns an undefined tensor if there is no copy, or if it is outdated.
Tensor low_precision_copy_to_update(const Tensor& parameter);
// Call it after the copy was written and the parameter's version was incremented.
void low_precision_copy_updated(const Tensor& parameter);

// A parameter and its copy, for CUDA graphs, which read and write the memory of the copies that
// were captured.
struct LowPrecisionCopy {
  Tensor parameter, copy;
};
// low_precision_copies_since(mark) returns the copies that were handed out since
// low_precision_mark() returned `mark`.
uint64_t low_precision_mark();
std::vector<LowPrecisionCopy> low_precision_copies_since(uint64_t mark);
// Returns how often a parameter was given another copy. If the number has changed since a capture,
// call restore_low_precision_copies() with the graph's copies before its replay, because they may
// be outdated.
uint64_t low_precision_changes();
void restore_low_precision_copies(const std::vector<LowPrecisionCopy>& copies);

}  // namespace taper::v0
