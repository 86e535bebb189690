// Free lists for the small objects that a training step creates by the thousands: tensors,
// storages, tape nodes.
#pragma once

#include <cstddef>

#include "framework/base/namespace.h"

namespace taper::v0 {

// Returns at least `bytes` bytes aligned to 64. Blocks up to 2 KiB are taken from lists of the
// calling thread, without a lock. Larger blocks are requested from the system. A block may be freed
// on another thread. Throws OutOfMemoryError.
void* allocate_block(size_t bytes);
void free_block(void* block, size_t bytes) noexcept;

// Returns whether allocations are exact and uncached: every tensor, storage and node gets an
// allocation of exactly its size, on every device, which is returned to the system when it is
// freed. Sanitizers can then find errors. This is the mode of builds with a sanitizer and of
// TAPER_ALLOCATOR=plain in the environment. (The default is caching; any other value throws
// ValueError.) It is slow, because freeing waits for the GPU, and no CUDA graphs are captured.
bool uses_uncached_allocator();

}  // namespace taper::v0
