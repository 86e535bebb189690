// The tensors that a training step computes, in the order of their computation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/runner/gate/gate.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::runner {

// Repeats a run up to the step (counted from 1) and returns the step's tensors on the CPU: weights
// before the step, the batch, each module's output, the loss, the gradients, weights after the
// step. A name says what the tensor is.
std::vector<NamedTensor> trace_step(const std::vector<Phase>& run, int64_t step);

// Describes the first tensor of the step in which two traces differ.
std::string first_different_tensor(const std::vector<NamedTensor>& a,
                                   const std::vector<NamedTensor>& b, int64_t step);

// Writes a trace to a safetensors file, and reads it. load_trace() throws InputError.
void save_trace(const std::vector<NamedTensor>& trace, const fs::path& file);
std::vector<NamedTensor> load_trace(const fs::path& file);

}  // namespace taper::v0::runner
