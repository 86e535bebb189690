// The caching allocator of one GPU. Segments from cudaMalloc are split into blocks, and free blocks
// are cached per stream.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <set>
#include <unordered_map>

#include <cuda_runtime.h>

#include "framework/cuda/cuda.h"
#include "framework/cuda/fence.h"
#include "framework/cuda/runtime.h"
#include "framework/memory/cuda_allocator.h"

namespace taper::v0::cuda {

struct Block;
struct BySizeThenAddress {
  using is_transparent = void;
  bool operator()(const Block* a, const Block* b) const;
  bool operator()(const Block* a, size_t size) const;
};
using FreeBlocks = std::set<Block*, BySizeThenAddress>;

// A part of a segment. Neighbors are linked, so that free ones can be joined.
struct Block {
  char* data = nullptr;
  size_t size = 0;
  size_t used = 0;  // the requested size, rounded up to kGrain
  Block* before = nullptr;
  Block* after = nullptr;
  FreeBlocks* home = nullptr;  // the free list of its stream
  bool is_free = false;
  // The node of this block in the set `home`. It is stored here while the block is in use, so that
  // allocating and freeing a block need no host memory.
  FreeBlocks::node_type node{};
  Block* next = nullptr;  // next block in the list of waiting or of spare blocks
  int device = 0;
  cudaStream_t stream = nullptr;
  Fence fence{};  // other streams that use it
};

// Calls allocate() and returns whether it provided memory. If it did not, calls release() to free
// some and tries again.
template <class Allocate, class Release>
bool allocated(const char* call, Allocate allocate, Release release) {
  cudaError_t status = allocate();
  for (int tries = 0; status == cudaErrorMemoryAllocation; ++tries) {
    cudaGetLastError();
    if (tries > 0) return false;
    release();
    status = allocate();
  }
  throw_on_error(status, call, __FILE__, __LINE__);
  return true;
}

class DeviceAllocator {
 public:
  explicit DeviceAllocator(int device) : device_(device) {}

  // Returns the free block of the stream that fits best. Throws OutOfMemoryError with the state of
  // the allocator.
  Block* take(size_t nbytes, cudaStream_t stream);
  void give(Block* block) noexcept;
  // After the block is freed, also keeps it until this stream has finished its current work.
  void add_stream(Block* block, const Stream& stream);
  // Sets whether unused memory of a stream must be kept, because a graph captured on it uses the
  // memory.
  void hold(cudaStream_t stream, bool on);
  // Returns unused segments to the driver. Waits for the device.
  void release_unused();
  MemoryStats stats();
  void reset_peaks();

 private:
  struct StreamBlocks {
    FreeBlocks small, large;
    bool held = false;
  };

  // The functions below are called with the mutex held.
  Block* new_segment(size_t size, size_t nbytes, cudaStream_t stream, FreeBlocks& home);
  Block* new_block();
  void recycle(Block* block) noexcept;
  void split(Block& block, size_t size);
  void take_out(Block& block) noexcept;
  void put_back(Block* block) noexcept;
  void join(Block& left, Block* right) noexcept;
  void reclaim_waiting() noexcept;
  void release_segments() noexcept;
  [[noreturn]] void throw_out_of_memory(size_t nbytes);

  const int device_;
  std::mutex mutex_;
  std::unordered_map<cudaStream_t, StreamBlocks> streams_;
  std::deque<Block> blocks_;  // all blocks that were ever created; unused ones are in spare_
  Block* spare_ = nullptr;
  Block* waiting_ = nullptr;  // freed, but another stream still uses them
  MemoryStats stats_;
};

}  // namespace taper::v0::cuda
