// The caching allocators, busy streams, and the report of bad indices. All tests need a GPU.
#include "framework/cuda/cuda.h"

#ifdef TAPER_WITH_CUDA

#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/cuda/runtime.h"
#include "framework/kernels/common/kernel_launch.h"
#include "framework/memory/cuda_allocator.h"
#include "framework/memory/cuda_memory.h"
#include "framework/memory/small_blocks.h"

namespace taper::v0::cuda {
namespace {

constexpr size_t kMiB = size_t(1) << 20;

// Keeps a stream busy until open() is called. While a gate is closed, nothing that may wait for the
// device (cudaMalloc) can be called.
class Gate {
 public:
  explicit Gate(const Stream& stream) : stream_(stream) {
    TAPER_CUDA_CHECK(cudaLaunchHostFunc(static_cast<cudaStream_t>(stream.handle()), wait, &open_));
  }
  ~Gate() { open(); }
  void open() {
    open_.store(true);
    stream_.synchronize();
  }

 private:
  static void wait(void* open) {
    while (!static_cast<std::atomic<bool>*>(open)->load()) std::this_thread::yield();
  }
  Stream stream_;
  std::atomic<bool> open_{false};
};

class CudaMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_available()) GTEST_SKIP() << "needs a GPU: " << unavailable_reason();
    if (uses_uncached_allocator()) GTEST_SKIP() << "each tensor has an allocation of its own";
    set_device(0);
    empty_cache();
    reset_peak_memory_stats();
  }
};

TEST_F(CudaMemory, CountersFollowAllocations) {
  const size_t allocated = memory_allocated(), reserved = memory_reserved();
  {
    const StoragePtr x = allocate(4 * kMiB, 0);
    EXPECT_EQ(memory_reserved(), reserved + 20 * kMiB);
    const StoragePtr y = allocate(1, 0);
    EXPECT_EQ(memory_allocated(), allocated + 4 * kMiB + 512);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(y->data) % 512, 0u);
  }
  EXPECT_EQ(memory_allocated(), allocated);
  EXPECT_EQ(max_memory_allocated(), allocated + 4 * kMiB + 512);
  EXPECT_GE(memory_reserved(), reserved + 20 * kMiB);
  empty_cache();
  EXPECT_EQ(memory_reserved(), reserved);
  EXPECT_GE(max_memory_reserved(), reserved + 20 * kMiB);
  reset_peak_memory_stats();
  EXPECT_EQ(max_memory_allocated(), allocated);
  EXPECT_EQ(max_memory_reserved(), reserved);
}

TEST_F(CudaMemory, ZeroBytesGiveNullData) {
  const size_t before = memory_allocated();
  const StoragePtr x = allocate(0, 0);
  EXPECT_EQ(x->data, nullptr);
  EXPECT_EQ(x->device, Device(0));
  EXPECT_EQ(memory_allocated(), before);
}

TEST_F(CudaMemory, AFreedBlockIsUsedAgainAtOnce) {
  StoragePtr x = allocate(64 * kMiB, 0);
  const void* address = x->data;
  x.reset();
  const size_t reserved = memory_reserved();
  EXPECT_EQ(allocate(64 * kMiB, 0)->data, address);
  EXPECT_EQ(memory_reserved(), reserved);
}

TEST_F(CudaMemory, FreedNeighboursAreJoined) {
  const size_t reserved = memory_reserved();
  std::vector<StoragePtr> parts;
  for (int i = 0; i < 10; ++i) parts.push_back(allocate(2 * kMiB, 0));
  EXPECT_EQ(memory_reserved(), reserved + 20 * kMiB);
  for (const size_t i : {1, 3, 2, 0, 9, 8, 4, 6, 5, 7}) parts[i].reset();
  const StoragePtr whole = allocate(10 * kMiB, 0), rest = allocate(10 * kMiB, 0);
  EXPECT_EQ(memory_reserved(), reserved + 20 * kMiB);
}

TEST_F(CudaMemory, BlocksInUseNeverOverlap) {
  const size_t before = memory_allocated();
  std::mt19937 random(1);
  std::map<char*, StoragePtr> live;
  for (int step = 0; step < 5000; ++step) {
    if (live.size() > 100 || (step % 3 == 2 && !live.empty())) {
      live.erase(std::next(live.begin(), long(random() % live.size())));
      continue;
    }
    const size_t nbytes = 1 + random() % (size_t(1) << (9 + random() % 14));
    const StoragePtr x = allocate(nbytes, 0);
    char* data = static_cast<char*>(x->data);
    const auto right = live.lower_bound(data);
    if (right != live.end()) {
      ASSERT_LE(data + nbytes, right->first);
    }
    if (right != live.begin()) {
      const auto left = std::prev(right);
      ASSERT_LE(left->first + left->second->nbytes, data);
    }
    live.emplace(data, x);
  }
  live.clear();
  EXPECT_EQ(memory_allocated(), before);
}

TEST_F(CudaMemory, ThreadsShareTheAllocator) {
  const size_t before = memory_allocated();
  const auto work = [] {
    std::vector<StoragePtr> held(8);
    for (size_t i = 0; i < 2000; ++i) held[i % 8] = allocate(1 + i * 977 % (3 * kMiB), 0);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(memory_allocated(), before);
}

TEST_F(CudaMemory, ABlockStaysWithItsStream) {
  const Stream stream = Stream::create();
  const void* address = nullptr;
  {
    const StreamGuard guard(stream);
    address = allocate(64 * kMiB, 0)->data;
  }
  EXPECT_NE(allocate(64 * kMiB, 0)->data, address);
  const StreamGuard guard(stream);
  EXPECT_EQ(allocate(64 * kMiB, 0)->data, address);
}

TEST_F(CudaMemory, ARecordedStreamDelaysReuse) {
  const Stream stream = Stream::create();
  StoragePtr x = allocate(64 * kMiB, 0), y = allocate(64 * kMiB, 0);
  const void* x_address = x->data;
  const void* y_address = y->data;
  y.reset();
  const size_t reserved = memory_reserved();
  {
    Gate gate(stream);
    record_stream(x, stream);
    x.reset();
    const StoragePtr next = allocate(64 * kMiB, 0);
    EXPECT_EQ(next->data, y_address);
  }
  const StoragePtr a = allocate(64 * kMiB, 0), b = allocate(64 * kMiB, 0);
  EXPECT_EQ((std::set<const void*>{a->data, b->data}),
            (std::set<const void*>{x_address, y_address}));
  EXPECT_EQ(memory_reserved(), reserved);
}

TEST_F(CudaMemory, OutOfMemorySaysWhatIsHeld) {
  const StoragePtr x = allocate(8 * kMiB, 0), y = allocate(8 * kMiB, 0);
  try {
    (void)allocate(size_t(1) << 42, 0);
    FAIL() << "was not refused";
  } catch (const OutOfMemoryError& e) {
    const std::string text = e.what();
    EXPECT_EQ(text.find("CUDA out of memory. Tried to allocate 4096.00 GiB. GPU 0 has a total "
                        "capacity of "),
              0u)
        << text;
    EXPECT_NE(text.find("2 of 8.00 MiB"), std::string::npos) << text;
  }
  EXPECT_THROW((void)allocate(~size_t(0), 0), OutOfMemoryError);
  EXPECT_NE(allocate(8 * kMiB, 0)->data, nullptr);
}

TEST_F(CudaMemory, UnusedSegmentsAreGivenUpBeforeMemoryRunsOut) {
  const size_t free = get_device_properties(0).free_memory;
  (void)allocate(free / 10 * 6, 0);
  const StoragePtr larger = allocate(free / 10 * 7, 0);
  EXPECT_NE(larger->data, nullptr);
}

TEST_F(CudaMemory, PinnedBlocksWaitForTheStreamThatWasCurrent) {
  const Stream stream = Stream::create();
  StoragePtr x = taper::allocate_pinned(100'000), y = taper::allocate_pinned(100'000);
  const void* x_address = x->data;
  const void* y_address = y->data;
  EXPECT_TRUE(x->pinned);
  y.reset();
  synchronize();
  StoragePtr next;
  {
    const StreamGuard guard(stream);
    Gate gate(stream);
    x.reset();
    next = taper::allocate_pinned(100'000);
    EXPECT_EQ(next->data, y_address);
  }
  EXPECT_EQ(taper::allocate_pinned(100'000)->data, x_address);
}

TEST_F(CudaMemory, PinnedMemoryTravelsBothWays) {
  const size_t nbytes = 1 << 20;
  const StoragePtr in = taper::allocate_pinned(nbytes), out = taper::allocate_pinned(nbytes);
  const StoragePtr device = allocate(nbytes, 0);
  const cudaStream_t stream = current_stream(0);
  std::memset(in->data, 0x37, nbytes);
  std::memset(out->data, 0, nbytes);
  TAPER_CUDA_CHECK(cudaMemcpyAsync(device->data, in->data, nbytes, cudaMemcpyDefault, stream));
  TAPER_CUDA_CHECK(cudaMemcpyAsync(out->data, device->data, nbytes, cudaMemcpyDefault, stream));
  Stream::current().synchronize();
  EXPECT_EQ(std::memcmp(in->data, out->data, nbytes), 0);
}

TEST_F(CudaMemory, StreamsAndEventsOrderWork) {
  const Stream first = Stream::create(), second = Stream::create();
  Event start(true), end(true);
  start.record(first);
  {
    Gate gate(first);
    end.record(first);
    end.wait(second);
    EXPECT_FALSE(first.query());
    EXPECT_FALSE(second.query());
    EXPECT_FALSE(end.query());
    try {
      start.elapsed_time(end);
      FAIL() << "was not refused";
    } catch (const ValueError& e) {
      EXPECT_STREQ(e.what(), "Both events must be completed before calculating elapsed time.");
    }
  }
  second.synchronize();
  EXPECT_TRUE(second.query());
  EXPECT_GE(start.elapsed_time(end), 0.0);
}

TEST_F(CudaMemory, ABadIndexIsThrownOnceByTheNextSynchronisingCall) {
  // The host writes what a kernel would have written.
  *bad_index_report(0) = {.index = 12, .bound = 10, .op = "cross_entropy"};
  try {
    synchronize(0);
    FAIL() << "was not thrown";
  } catch (const IndexError& e) {
    EXPECT_STREQ(e.what(),
                 "index 12 is out of bounds for a dimension with size 10 (reported by "
                 "cross_entropy on cuda:0)");
  }
  EXPECT_EQ(bad_index_report(0)->op, nullptr);
  synchronize(0);
  *bad_index_report(0) = {.index = -1, .bound = 3, .op = "embedding"};
  EXPECT_THROW(Stream::current().synchronize(), IndexError);
  Stream::current().synchronize();
}

TEST_F(CudaMemory, AFailedCallNamesItselfAndLeavesNoErrorBehind) {
  try {
    TAPER_CUDA_CHECK(cudaSetDevice(9999));
    FAIL() << "was not refused";
  } catch (const AcceleratorError& e) {
    const std::string text = e.what();
    EXPECT_EQ(text.find("CUDA error: invalid device ordinal\nGPU device may be out of range"), 0u);
    EXPECT_NE(text.find("cudaSetDevice(9999) at "), std::string::npos) << text;
  }
  Launch(0).check("nothing");
}

}  // namespace
}  // namespace taper::v0::cuda

#endif
