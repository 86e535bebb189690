#include "framework/memory/small_blocks.h"

#include <array>
#include <cstdlib>
#include <new>
#include <string_view>

#include "framework/base/error.h"
#include "framework/memory/cpu_allocator.h"

namespace taper::v0 {
namespace {

constexpr size_t kStep = 64, kLargest = 2048, kClasses = kLargest / kStep;
// Maximum number of blocks in one list. Further blocks are returned to the system.
constexpr int kMost = 4096;

#if defined(__has_feature)
#define TAPER_HAS(what) __has_feature(what)
#else
#define TAPER_HAS(what) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    TAPER_HAS(address_sanitizer) || TAPER_HAS(thread_sanitizer) || TAPER_HAS(memory_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

struct FreeBlock {
  FreeBlock* next;
};

struct FreeList {
  FreeBlock* head = nullptr;
  int count = 0;
};

// Trivially destructible, so that it can be read while the thread's other objects are being
// destroyed.
thread_local bool lists_gone = false;

struct Lists {
  std::array<FreeList, kClasses + 1> of;
  const bool in_use = !uses_uncached_allocator();
  ~Lists() {
    lists_gone = true;
    for (FreeList& list : of) {
      while (FreeBlock* block = list.head) {
        list.head = block->next;
        cpu::to_system(block);
      }
    }
  }
};

FreeList* list_for(size_t bytes) {
  static thread_local Lists lists;
  if (bytes > kLargest || lists_gone || !lists.in_use) return nullptr;
  return &lists.of[(bytes + kStep - 1) / kStep];
}

size_t rounded(size_t bytes) { return (bytes + kStep - 1) / kStep * kStep; }

}  // namespace

bool uses_uncached_allocator() {
  static const bool plainly = [] {
    const char* set = std::getenv("TAPER_ALLOCATOR");
    const std::string_view wanted = set ? set : "caching";
    require<ValueError>(wanted == "plain" || wanted == "caching" || wanted == "",
                        "TAPER_ALLOCATOR is '", wanted, "'; it can be caching or plain");
    return kSanitized || wanted == "plain";
  }();
  return plainly;
}

void* allocate_block(size_t bytes) {
  FreeList* list = list_for(bytes);
  if (!list || !list->head) return cpu::from_system(list ? rounded(bytes) : bytes);
  FreeBlock* block = list->head;
  list->head = block->next;
  --list->count;
  return block;
}

void free_block(void* block, size_t bytes) noexcept {
  FreeList* list = list_for(bytes);
  if (!list || list->count >= kMost) return cpu::to_system(block);
  list->head = new (block) FreeBlock{list->head};
  ++list->count;
}

}  // namespace taper::v0
