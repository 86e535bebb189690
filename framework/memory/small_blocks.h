// Free lists for the small objects of which a step makes thousands: tensors, storages, tape nodes.
#pragma once

#include <cstddef>

#include "framework/base/namespace.h"

namespace taper::v0 {

// At least `bytes` bytes aligned to 64. Blocks up to 2 KiB come from lists of the calling thread,
// without a lock; larger ones from the system. A block may be freed on another thread. Throws
// OutOfMemoryError.
void* allocate_block(size_t bytes);
void free_block(void* block, size_t bytes) noexcept;

// For sanitizers: whether each tensor, storage and node has an allocation of its own and of exactly
// its size, on every device, that goes back at once when it is freed. So in a build with a
// sanitizer, and where the environment says TAPER_ALLOCATOR=plain (the other value is caching;
// ValueError for any else). Slow, for freeing waits for the GPU; no CUDA graphs are made then.
bool allocates_plainly();

}  // namespace taper::v0
