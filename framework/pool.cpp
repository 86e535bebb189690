#include "framework/pool.h"

#include <array>
#include <new>

#include "framework/cpu_allocator.h"

namespace taper {
namespace {

constexpr size_t kStep = 64, kLargest = 2048, kClasses = kLargest / kStep;
// Blocks one list may hold; what comes back beyond goes to the system.
constexpr int kMost = 4096;
constexpr std::align_val_t kAlign{kStep};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kPooled = false;
#else
constexpr bool kPooled = true;
#endif

struct FreeBlock {
  FreeBlock* next;
};

struct FreeList {
  FreeBlock* head = nullptr;
  int count = 0;
};

// Trivial, so it can still be read while the thread's other objects are being destroyed.
thread_local bool lists_gone = false;

struct Lists {
  std::array<FreeList, kClasses + 1> of;
  ~Lists() {
    lists_gone = true;
    for (FreeList& list : of) {
      while (FreeBlock* block = list.head) {
        list.head = block->next;
        ::operator delete(block, kAlign);
      }
    }
  }
};

FreeList* list_for(size_t bytes) {
  static thread_local Lists lists;
  if (!kPooled || bytes > kLargest || lists_gone) return nullptr;
  return &lists.of[(bytes + kStep - 1) / kStep];
}

size_t rounded(size_t bytes) { return (bytes + kStep - 1) / kStep * kStep; }

}  // namespace

void* pool_allocate(size_t bytes) {
  FreeList* list = list_for(bytes);
  if (!list || !list->head) return cpu::from_system(rounded(bytes));
  FreeBlock* block = list->head;
  list->head = block->next;
  --list->count;
  return block;
}

void pool_free(void* block, size_t bytes) noexcept {
  FreeList* list = list_for(bytes);
  if (!list || list->count >= kMost) return ::operator delete(block, kAlign);
  list->head = new (block) FreeBlock{list->head};
  ++list->count;
}

}  // namespace taper
