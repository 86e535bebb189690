// Half-precision copies of float32 parameters, cached between steps. Autocast multiplies by them,
// and an optimizer's kernel refreshes them in the pass that updates the parameter.
#pragma once

#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

// The parameter's values in `dtype`, outside the tape; made anew when the parameter's memory has
// changed otherwise than by half_copy_updated. Kept while the parameter lives.
Tensor half_copy(const Tensor& parameter, DType dtype);

// For optimizers. The copy, for a kernel to write the new values to, where there is one on the
// parameter's device; else undefined.
Tensor half_copy_to_update(const Tensor& parameter);
// To be called after it was written and the parameter's version has been counted up.
void half_copy_updated(const Tensor& parameter);

// For CUDA graphs, which read and write the memory of the copies that they were captured with.
struct HalfCopy {
  Tensor parameter, copy;
};
// Those handed out since `mark`, an earlier half_copy_mark().
uint64_t half_copy_mark();
std::vector<HalfCopy> half_copies_since(uint64_t mark);
// How often a parameter was given another copy: a graph's copies may be out of date when that has
// changed, and are to be restored before its replay.
uint64_t half_copy_changes();
void restore_half_copies(const std::vector<HalfCopy>& copies);

// Called when a parameter dies or its memory is replaced.
void forget_half_copy(const TensorImpl* parameter) noexcept;

}  // namespace taper::v0
