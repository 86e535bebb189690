#include "framework/memory/device_allocator.h"

#include <algorithm>
#include <map>
#include <string>

#include "framework/base/error.h"
#include "framework/memory/small_blocks.h"

namespace taper::v0::cuda {
namespace {

constexpr size_t kMiB = size_t(1) << 20;
// The size and address of every block are multiples of this.
constexpr size_t kGrain = 512;
// Requests up to kSmall share segments of kSmallSegment, requests up to kMedium share segments of
// kMediumSegment. Larger requests get their own segment, rounded up to kSegmentStep. Small and
// large blocks never share a segment.
constexpr size_t kSmall = kMiB, kSmallSegment = 2 * kMiB;
constexpr size_t kMedium = 10 * kMiB, kMediumSegment = 20 * kMiB;
constexpr size_t kSegmentStep = 2 * kMiB;
// A limit above the memory of any GPU. Below it, rounding up cannot overflow.
constexpr size_t kMostBytes = size_t(1) << 50;

size_t round_up(size_t n, size_t step) { return (n + step - 1) / step * step; }

size_t block_size(size_t nbytes) {
  return uses_uncached_allocator() ? nbytes : round_up(nbytes, kGrain);
}

size_t segment_size(size_t size) {
  if (uses_uncached_allocator()) return size;
  if (size <= kSmall) return kSmallSegment;
  return size <= kMedium ? kMediumSegment : round_up(size, kSegmentStep);
}

}  // namespace

bool BySizeThenAddress::operator()(const Block* a, const Block* b) const {
  return a->size != b->size ? a->size < b->size : a->data < b->data;
}
bool BySizeThenAddress::operator()(const Block* a, size_t size) const { return a->size < size; }

Block* DeviceAllocator::take(size_t nbytes, cudaStream_t stream) {
  std::lock_guard lock(mutex_);
  reclaim_waiting();
  if (nbytes > kMostBytes) throw_out_of_memory(nbytes);
  const size_t size = block_size(nbytes);
  StreamBlocks& lists = streams_[stream];
  FreeBlocks& home = size <= kSmall ? lists.small : lists.large;
  auto found = home.lower_bound(size);
  if (found == home.end()) found = home.insert(new_segment(size, nbytes, stream, home)).first;
  Block* block = *found;
  take_out(*block);
  split(*block, size);
  block->used = size;
  stats_.allocated += size;
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  return block;
}

void DeviceAllocator::give(Block* block) noexcept {
  std::lock_guard lock(mutex_);
  stats_.allocated -= block->used;
  block->used = 0;
  if (block->fence.empty()) {
    put_back(block);
  } else {
    block->fence.record();
    block->next = waiting_;
    waiting_ = block;
  }
  if (uses_uncached_allocator()) release_segments();
}

void DeviceAllocator::add_stream(Block* block, const Stream& stream) {
  std::lock_guard lock(mutex_);
  const auto handle = static_cast<cudaStream_t>(stream.handle());
  if (stream.device() == block->device && handle == block->stream) return;
  block->fence.add(stream.device(), handle);
}

void DeviceAllocator::hold(cudaStream_t stream, bool on) {
  std::lock_guard lock(mutex_);
  streams_[stream].held = on;
}

// Returns a block that spans a new segment. It is marked free but not in the free list yet.
Block* DeviceAllocator::new_segment(size_t size, size_t nbytes, cudaStream_t stream,
                                    FreeBlocks& home) {
  const DeviceGuard guard(device_);
  const RelaxedCaptureGuard relaxed;
  const size_t whole = segment_size(size);
  void* data = nullptr;
  const auto allocate = [&] { return cudaMalloc(&data, whole); };
  if (!allocated("cudaMalloc", allocate, [&] { release_segments(); })) throw_out_of_memory(nbytes);
  Block* block = new_block();
  block->data = static_cast<char*>(data);
  block->size = whole;
  block->home = &home;
  block->device = device_;
  block->stream = stream;
  block->is_free = true;
  ++stats_.segments;
  stats_.reserved += whole;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  return block;
}

Block* DeviceAllocator::new_block() {
  if (!spare_) return &blocks_.emplace_back();
  Block* block = spare_;
  spare_ = block->next;
  block->next = nullptr;
  return block;
}

void DeviceAllocator::recycle(Block* block) noexcept {
  *block = Block{};
  block->next = spare_;
  spare_ = block;
}

// Splits off the rest of the block, unless the rest is too small for the requests that this kind of
// segment serves.
void DeviceAllocator::split(Block& block, size_t size) {
  const size_t rest = block.size - size;
  if (rest < (size <= kSmall ? kGrain : kSmall + kGrain)) return;
  Block* tail = new_block();
  tail->data = block.data + size;
  tail->size = rest;
  tail->before = &block;
  tail->after = block.after;
  tail->home = block.home;
  tail->device = block.device;
  tail->stream = block.stream;
  if (tail->after) tail->after->before = tail;
  block.after = tail;
  block.size = size;
  tail->home->insert(tail);
  tail->is_free = true;
}

void DeviceAllocator::take_out(Block& block) noexcept {
  block.node = block.home->extract(&block);
  block.is_free = false;
}

void DeviceAllocator::put_back(Block* block) noexcept {
  if (Block* right = block->after; right && right->is_free) {
    take_out(*right);
    join(*block, right);
  }
  if (Block* left = block->before; left && left->is_free) {
    take_out(*left);
    join(*left, block);
    block = left;
  }
  block->is_free = true;
  block->home->insert(std::move(block->node));
}

// Joins neighbors. Neither may be in the free list.
void DeviceAllocator::join(Block& left, Block* right) noexcept {
  left.size += right->size;
  left.after = right->after;
  if (left.after) left.after->before = &left;
  recycle(right);
}

void DeviceAllocator::reclaim_waiting() noexcept {
  if (!waiting_) return;
  const RelaxedCaptureGuard relaxed;
  Block** link = &waiting_;
  while (Block* block = *link) {
    if (!block->fence.passed()) {
      link = &block->next;
      continue;
    }
    *link = block->next;
    block->next = nullptr;
    put_back(block);
  }
}

void DeviceAllocator::release_segments() noexcept {
  const RelaxedCaptureGuard relaxed;
  const DeviceGuard guard(device_);
  for (Block* block = waiting_; block; block = block->next) block->fence.wait();
  reclaim_waiting();
  // Blocks are free in stream order only, and work that uses them may still be running, so wait for
  // the device.
  cudaDeviceSynchronize();
  const auto release = [this](Block* block) {
    if (block->before || block->after) return false;
    cudaFree(block->data);
    stats_.reserved -= block->size;
    --stats_.segments;
    recycle(block);
    return true;
  };
  for (auto& [stream, lists] : streams_) {
    if (lists.held) continue;
    std::erase_if(lists.small, release);
    std::erase_if(lists.large, release);
  }
  cudaGetLastError();
}

void DeviceAllocator::release_unused() {
  std::lock_guard lock(mutex_);
  if (stats_.segments > 0) release_segments();
}

MemoryStats DeviceAllocator::stats() {
  std::lock_guard lock(mutex_);
  return stats_;
}

void DeviceAllocator::reset_peaks() {
  std::lock_guard lock(mutex_);
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_reserved = stats_.reserved;
}

void DeviceAllocator::throw_out_of_memory(size_t nbytes) {
  const DeviceGuard guard(device_);
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  std::map<size_t, int, std::greater<>> held;
  for (const Block& block : blocks_) {
    if (block.used > 0) ++held[block.used];
  }
  std::string message = concat_to_string(
      "CUDA out of memory. Tried to allocate ", format_bytes(nbytes), ". GPU ", device_,
      " has a total capacity of ", format_bytes(total), " of which ", format_bytes(free),
      " is free. Tensors hold ", format_bytes(stats_.allocated), ", and ",
      format_bytes(stats_.reserved - stats_.allocated), " is cached in unused blocks (",
      stats_.segments, stats_.segments == 1 ? " segment in all)." : " segments in all).");
  if (!held.empty()) message += " The largest tensors:";
  int listed = 0;
  for (const auto& [size, count] : held) {
    if (listed == 5) break;
    message += concat_to_string(listed++ ? ", " : " ", count, " of ", format_bytes(size));
  }
  if (!held.empty()) message += '.';
  message += " Use smaller batches, or let go of tensors that are no longer needed.";
  throw OutOfMemoryError(message);
}

}  // namespace taper::v0::cuda
