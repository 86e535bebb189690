#include "framework/memory/storage.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <malloc.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/base/error.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "framework/memory/cpu_allocator.h"
#include "framework/memory/small_blocks.h"

namespace taper::v0 {
namespace {

// Returns the results of a small step as a text.
std::string numbers() {
  manual_seed(3);
  const Tensor x = randn({40, 30}), w = randn({30, 20}).requires_grad_();
  tanh(matmul(x, w)).sum().backward();
  const auto bytes = std::as_bytes(w.grad().span<float>());
  return concat_to_string(
      std::hash<std::string_view>{}({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

// Runs one test of this program in a separate process.
int run_again(const std::string& environment, const std::string& test) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string to = " --gtest_brief=1 --gtest_filter=" + test + " >/dev/null 2>&1";
  return std::system((environment + " '" + program + "'" + to).c_str());
}

TEST(PlainAllocator, GivesEachTensorMemoryOfItsOwnAndTheSameNumbers) {
  if (!std::getenv("TAPER_TEST_NUMBERS")) {
    const std::string given = "TAPER_ALLOCATOR=plain TAPER_TEST_NUMBERS=" + numbers();
    EXPECT_EQ(run_again(given, "PlainAllocator.GivesEachTensorMemoryOfItsOwnAndTheSameNumbers"), 0);
    return;
  }
  EXPECT_TRUE(uses_uncached_allocator());
  EXPECT_EQ(numbers(), std::getenv("TAPER_TEST_NUMBERS"));
  for (const size_t nbytes : {4, 100, 2000, 5000, 100'000}) {
    const StoragePtr a = allocate(nbytes, Device());
    EXPECT_NE(a->context, a.get()) << "inside its header's block";
    // The system returns a few words more than requested, not the next size class.
    EXPECT_LT(malloc_usable_size(a->data), nbytes + 192) << nbytes;
  }
  EXPECT_EQ(cpu::memory_stats().cached, 0u);
}

TEST(PlainAllocator, AnUnknownAllocatorIsRefused) {
  if (std::getenv("TAPER_TEST_REFUSED")) {
    EXPECT_THROW((void)zeros({3}), ValueError);
    return;
  }
  const std::string given = "TAPER_TEST_REFUSED=1 TAPER_ALLOCATOR=plian";
  EXPECT_EQ(run_again(given, "PlainAllocator.AnUnknownAllocatorIsRefused"), 0);
}

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
}  // namespace taper::v0
