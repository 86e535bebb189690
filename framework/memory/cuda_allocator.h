// GPU memory and page-locked host memory, kept and handed out again: cudaMalloc waits for the
// device and costs more than most kernels. Needs no header of the CUDA runtime.
#pragma once

#include <cstddef>
#include <string>

#include "framework/memory/storage.h"

namespace taper::v0::cuda {

class Stream;

// Memory for the current stream of a device. It returns to that stream's free list as soon as the
// last tensor goes: work given to the stream before still runs before whatever uses it next.
// Sizes are rounded up to 512 bytes; addresses are aligned to 512. Zero bytes give null data. What
// else holds where allocates_plainly(): framework/memory/small_blocks.h.
// Throws OutOfMemoryError, which says what is held.
StoragePtr allocate(size_t nbytes, int device);

// Page-locked host memory of any GPU. It is handed out again when the work is done that the
// current stream had when it was freed (and the streams named by record_stream).
StoragePtr allocate_pinned(size_t nbytes);

// Says that work of another stream uses this memory: after it is freed, it is not handed out again
// before the stream has passed that point. Nothing to do for memory of other owners.
void record_stream(const StoragePtr& storage, const Stream& stream);

// Says that the current stream of a device copies to or from this page-locked memory: access by the
// host waits until it has passed that point.
void mark_in_flight(const StoragePtr& storage, int device);

// Whether unused memory of a stream is kept, come what may: for a graph that was captured there.
void hold_memory(const Stream& stream, bool on);

struct MemoryStats {
  size_t allocated = 0;  // bytes in tensors now
  size_t peak_allocated = 0;
  size_t reserved = 0;  // bytes taken from the driver
  size_t peak_reserved = 0;
  size_t segments = 0;  // pieces that reserved memory is made of
};
MemoryStats memory_stats(int device);
void reset_peaks(int device);
// "4096.00 GiB", with the unit that PyTorch would take.
std::string format_bytes(size_t n);

// Gives everything unused back to the driver, on all devices and on the host; waits for them.
void release_unused_blocks();

}  // namespace taper::v0::cuda
