// Free lists for the small objects of which a step makes thousands: tensors, storages, tape nodes.
#pragma once

#include <cstddef>

namespace taper {

// At least `bytes` bytes aligned to 64. Blocks up to 2 KiB come from lists of the calling thread,
// without a lock; larger ones from the system. A block may be freed on another thread.
// Under a sanitizer every block is the system's, so that use after free is seen.
void* pool_allocate(size_t bytes);
void pool_free(void* block, size_t bytes) noexcept;

}  // namespace taper
