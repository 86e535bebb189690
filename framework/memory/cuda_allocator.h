// GPU memory and page-locked host memory that are cached and reused, because cudaMalloc waits for
// the device and costs more than most kernels. This header includes no header of the CUDA runtime.
#pragma once

#include <cstddef>
#include <string>

#include "framework/memory/storage.h"

namespace taper::v0::cuda {

class Stream;

// Allocates memory for the current stream of a device. When the last tensor is destroyed, the
// memory returns to that stream's free list. Work that was queued on the stream earlier still runs
// before any later use of the memory. Sizes are rounded up to 512 bytes, addresses are aligned to
// 512 bytes, and zero bytes give null data. See framework/memory/small_blocks.h for the mode
// without caching. Throws OutOfMemoryError with the state of the allocator.
StoragePtr allocate(size_t nbytes, int device);

// Allocates page-locked host memory that any GPU can access. After it is freed, it is reused only
// when two kinds of work have finished: the work of the current stream at the time of freeing, and
// the work of the streams given to record_stream().
StoragePtr allocate_pinned(size_t nbytes);

// Records that another stream uses this memory. After it is freed, it is reused only when the
// stream has passed this point. Has no effect on borrowed memory.
void record_stream(const StoragePtr& storage, const Stream& stream);

// Records that the current stream of a device copies to or from this page-locked memory. Access by
// the host waits until the stream has passed this point.
void mark_in_flight(const StoragePtr& storage, int device);

// Sets whether unused memory of a stream is kept and never released, because a captured graph uses
// it.
void hold_memory(const Stream& stream, bool on);

struct MemoryStats {
  size_t allocated = 0;  // bytes in tensors now
  size_t peak_allocated = 0;
  size_t reserved = 0;  // bytes taken from the driver
  size_t peak_reserved = 0;
  size_t segments = 0;  // number of pieces of reserved memory
};
MemoryStats memory_stats(int device);
void reset_peaks(int device);
// Returns for example "4096.00 GiB", in the unit that PyTorch would choose.
std::string format_bytes(size_t n);

// Returns all unused memory to the driver, on all devices and on the host. Waits for the devices.
void release_unused_blocks();

}  // namespace taper::v0::cuda
