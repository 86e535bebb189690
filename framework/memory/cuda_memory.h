// Counters of the GPU's caching allocator (PyTorch: torch.cuda), in bytes. They are 0 if no GPU can
// be used. A device of -1 is the current one.
#pragma once

#include <cstddef>
#include <string>

#include "framework/base/namespace.h"

namespace taper::v0::cuda {

size_t memory_allocated(int device = -1);      // in tensors now
size_t max_memory_allocated(int device = -1);  // maximum since the start or the last reset
size_t memory_reserved(int device = -1);       // taken from the driver
size_t max_memory_reserved(int device = -1);
void reset_peak_memory_stats(int device = -1);
// Returns the counters as a small table, or one line with the reason if no GPU can be used.
std::string memory_summary(int device = -1);
// Returns unused blocks to the driver, including those of page-locked host memory.
void empty_cache();

}  // namespace taper::v0::cuda
