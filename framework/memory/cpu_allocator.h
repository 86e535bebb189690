// Host memory that is kept and handed out again: a training step asks for the same sizes each
// time, and fresh pages from the system cost more than the arithmetic done on them.
#pragma once

#include <cstddef>

#include "framework/base/namespace.h"

namespace taper::v0::cpu {

// Aligned to 64 bytes. Throws OutOfMemoryError, saying how much was asked for and is held.
void* allocate(size_t nbytes);
// `nbytes` as it was asked for.
void free(void* block, size_t nbytes) noexcept;

// The same past the caches, uncounted, after the cached blocks made room.
void* from_system(size_t nbytes);
void to_system(void* block) noexcept;

struct MemoryStats {
  size_t allocated;  // bytes in tensors now
  size_t peak;       // the most there ever were
  size_t cached;     // bytes kept for later
};
MemoryStats memory_stats();
// `peak` begins again at what is allocated now.
void reset_peak();
// Gives the cached blocks back to the system.
void empty_cache();

}  // namespace taper::v0::cpu
