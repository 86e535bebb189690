#include "framework/storage.h"

#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "framework/cpu_allocator.h"
#include "framework/cuda.h"
#include "framework/error.h"

namespace taper {
namespace {

TEST(Storage, EverySizeIsAlignedAndWritable) {
  for (const size_t nbytes : {1, 63, 64, 65, 1984, 1985, 2048, 2049, 100'000, 5'000'000}) {
    const StoragePtr storage = allocate(nbytes, Device());
    EXPECT_EQ(storage->nbytes, nbytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(storage->data) % 64, 0u) << nbytes;
    EXPECT_TRUE(storage->device.is_cpu());
    EXPECT_FALSE(storage->pinned);
    std::memset(storage->data, 0x5a, nbytes);
  }
}

TEST(Storage, ZeroBytesGiveNullData) {
  const StoragePtr storage = allocate(0, Device());
  ASSERT_TRUE(storage);
  EXPECT_EQ(storage->data, nullptr);
  EXPECT_EQ(storage->nbytes, 0u);
}

TEST(Storage, AllBytesAreGivenBack) {
  const size_t before = cpu::memory_stats().allocated;
  {
    std::vector<StoragePtr> held;
    for (size_t n = 0; n < 5000; n += 97) held.push_back(allocate(n, Device()));
    EXPECT_GT(cpu::memory_stats().allocated, before);
  }
  EXPECT_EQ(cpu::memory_stats().allocated, before);
}

TEST(Storage, MayBeFreedOnAnotherThread) {
  const size_t before = cpu::memory_stats().allocated;
  std::vector<StoragePtr> held;
  for (size_t n = 1; n < 4000; n += 501) held.push_back(allocate(n, Device()));
  std::thread([moved = std::move(held)]() mutable { moved.clear(); }).join();
  EXPECT_EQ(cpu::memory_stats().allocated, before);
}

TEST(Storage, TooMuchIsRefused) {
  EXPECT_THROW((void)allocate(size_t(1) << 60, Device()), OutOfMemoryError);
}

TEST(Storage, BorrowedMemoryGoesBackToItsOwnerOnce) {
  int value = 7, freed = 0;
  const auto count = [](Storage& s) noexcept { ++*static_cast<int*>(s.context); };
  {
    const StoragePtr storage = borrow(&value, sizeof value, Device(), count, &freed);
    const StoragePtr second = storage;
    EXPECT_EQ(second->data, &value);
    EXPECT_EQ(freed, 0);
  }
  EXPECT_EQ(freed, 1);
  EXPECT_EQ(value, 7);
}

TEST(Storage, PinnedMemoryIsPlainWithoutAGpu) {
  const StoragePtr storage = allocate_pinned(1000);
  EXPECT_EQ(storage->pinned, cuda::is_available());
  EXPECT_TRUE(storage->device.is_cpu());
  std::memset(storage->data, 1, 1000);
}

TEST(Storage, GpuMemoryWithoutAGpuSaysWhy) {
  if (cuda::is_available()) GTEST_SKIP() << "this machine has a GPU";
  try {
    (void)allocate(16, Device("cuda:0"));
    FAIL() << "was not refused";
  } catch (const AcceleratorError& e) {
    EXPECT_EQ(e.what(), cuda::unavailable_reason());
  }
}

}  // namespace
}  // namespace taper
