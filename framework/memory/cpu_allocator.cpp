#include "framework/memory/cpu_allocator.h"

#include <array>
#include <atomic>
#include <bit>
#include <mutex>
#include <new>
#include <vector>

#include "framework/base/device.h"
#include "framework/base/error.h"
#include "framework/memory/small_blocks.h"

namespace taper::v0::cpu {
namespace {

constexpr size_t kSmall = 2048;
constexpr size_t kMostCached = size_t(4) << 30;
constexpr std::align_val_t kAlign{64};

// Returns the size class of a block. There are four classes per doubling, so at most a quarter of a
// block is unused.
size_t class_of(size_t nbytes) {
  const int log = std::bit_width(nbytes - 1) - 1;
  return size_t(log) * 4 + ((nbytes - 1) >> (log - 2)) - 4;
}
size_t class_size(size_t c) { return (c % 4 + 5) << (c / 4 - 2); }

struct Cache {
  std::mutex mutex;
  std::array<std::vector<void*>, 4 * 48> blocks;
  size_t cached = 0;
};

// Returns the cache. It is never destroyed, because tensors with static lifetime may be freed after
// main().
Cache& cache() {
  static Cache& instance = *::new Cache;
  return instance;
}

std::atomic<size_t> allocated{0}, peak{0};
// The part of `allocated` that is on "cpu:1", "cpu:2" and so on.
std::array<std::atomic<std::ptrdiff_t>, Device::kMaxIndex + 1> on_others{};

CpuAllocator source = {
    [](size_t nbytes, size_t align) noexcept {
      return ::operator new(nbytes, std::align_val_t(align), std::nothrow);
    },
    [](void* block, size_t align) noexcept { ::operator delete(block, std::align_val_t(align)); }};
std::atomic<bool> has_begun{false};

// Memory that is released when memory is exhausted, so that freeing caches and composing the error
// message still find some.
constexpr size_t kReserve = size_t(1) << 16;
std::atomic<void*> reserve{nullptr};

void keep_reserve() {
  void *block = ::operator new(kReserve, std::nothrow), *none = nullptr;
  if (!reserve.compare_exchange_strong(none, block)) ::operator delete(block);
}

void count(size_t nbytes) {
  const size_t now = allocated.fetch_add(nbytes, std::memory_order_relaxed) + nbytes;
  size_t seen = peak.load(std::memory_order_relaxed);
  while (now > seen && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
}

void* take_cached(size_t c) {
  Cache& held = cache();
  std::lock_guard lock(held.mutex);
  if (held.blocks[c].empty()) return nullptr;
  void* block = held.blocks[c].back();
  held.blocks[c].pop_back();
  held.cached -= class_size(c);
  return block;
}

bool put_cached(void* block, size_t c) noexcept try {
  Cache& held = cache();
  std::lock_guard lock(held.mutex);
  if (held.cached + class_size(c) > kMostCached) return false;
  held.blocks[c].push_back(block);
  held.cached += class_size(c);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace

void* from_system(size_t nbytes) {
  has_begun.store(true, std::memory_order_relaxed);
  if (!reserve.load(std::memory_order_relaxed)) keep_reserve();
  void* block = source.allocate(nbytes, size_t(kAlign));
  if (block) return block;
  ::operator delete(reserve.exchange(nullptr));
  empty_cache();
  block = source.allocate(nbytes, size_t(kAlign));
  if (block) return block;
  throw OutOfMemoryError("CPU out of memory. Tried to allocate ", nbytes, " bytes; tensors hold ",
                         allocated.load(), " bytes");
}

void to_system(void* block) noexcept { source.free(block, size_t(kAlign)); }

void* allocate(size_t nbytes) {
  void* block;
  if (nbytes <= kSmall) {
    block = allocate_block(nbytes);
  } else if (nbytes > (size_t(1) << 46)) {
    throw OutOfMemoryError("CPU out of memory. Tried to allocate ", nbytes, " bytes");
  } else if (uses_uncached_allocator()) {
    block = from_system(nbytes);
  } else {
    const size_t c = class_of(nbytes);
    block = take_cached(c);
    if (!block) block = from_system(class_size(c));
  }
  count(nbytes);
  return block;
}

void free(void* block, size_t nbytes) noexcept {
  allocated.fetch_sub(nbytes, std::memory_order_relaxed);
  if (nbytes <= kSmall) return free_block(block, nbytes);
  if (uses_uncached_allocator() || !put_cached(block, class_of(nbytes))) to_system(block);
}

MemoryStats memory_stats() {
  std::lock_guard lock(cache().mutex);
  return {allocated.load(), peak.load(), cache().cached};
}

size_t allocated_on(int index) {
  if (index > 0) return size_t(on_others[size_t(index)].load());
  std::ptrdiff_t others = 0;
  for (const auto& bytes : on_others) others += bytes.load();
  return allocated.load() - size_t(others);
}

void count_on(int index, std::ptrdiff_t nbytes) noexcept {
  on_others[size_t(index)].fetch_add(nbytes, std::memory_order_relaxed);
}

void reset_peak() { peak = allocated.load(); }

void empty_cache() {
  std::lock_guard lock(cache().mutex);
  for (auto& list : cache().blocks) {
    for (void* block : list) to_system(block);
    list.clear();
  }
  cache().cached = 0;
}

}  // namespace taper::v0::cpu

namespace taper::v0 {

void set_cpu_allocator(const CpuAllocator& allocator) {
  require(!cpu::has_begun,
          "set_cpu_allocator: memory of tensors was taken already; call it before there are any");
  cpu::source = allocator;
}

}  // namespace taper::v0
