// Asynchronous copies: whoever accesses the result waits. The GPU is kept busy first, so that a
// missing wait becomes visible.
#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

const Shape kShape = {1 << 16};

// Runs some milliseconds of work on the current stream of a device. The result is 0.
Tensor long_work(Device device) {
  Tensor x = zeros({2048, 2048}, {.device = device});
  for (int i = 0; i < 40; ++i) x = matmul(x, x);
  return x.view({-1}).narrow(0, 0, kShape[0]);
}

Tensor pinned(double value) { return full(kShape, value).pin_memory(); }

bool all_are(const Tensor& x, double value) {
  for (const double v : values_of(x)) {
    if (v != value) return false;
  }
  return true;
}

struct HostAccess {
  const char* name;
  bool (*sees_three)(const Tensor&);
};

class AsyncCopy : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!skip_without_cuda()) (void)long_work("cuda");  // loads what is loaded only once
  }
};

TEST_F(AsyncCopy, EveryHostAccessToAResultInFlightWaitsForIt) {
  if (!cuda::is_available()) return;
  const HostAccess accesses[] = {
      {"to_vector", [](const Tensor& x) { return x.to_vector<float>().back() == 3; }},
      {"data", [](const Tensor& x) { return x.data<float>()[kShape[0] - 1] == 3; }},
      {"span", [](const Tensor& x) { return x.span<float>().back() == 3; }},
      {"item", [](const Tensor& x) { return x[kShape[0] - 1].item<float>() == 3; }},
      {"an op", [](const Tensor& x) { return all_are(x + 1, 4); }},
      {"a view",
       [](const Tensor& x) {
         return all_are(x.view({256, 256}).t(), 3);
       }},
      {"a dtype", [](const Tensor& x) { return all_are(x.to(kFloat64), 3); }},
  };
  for (const HostAccess& access : accesses) {
    const Tensor y = (long_work("cuda") + 3).to("cpu", {.non_blocking = true});
    EXPECT_TRUE(y.is_pinned());
    EXPECT_TRUE(access.sees_three(y)) << access.name;
  }
}

TEST_F(AsyncCopy, ASourceInFlightIsNotOverwritten) {
  if (!cuda::is_available()) return;
  const Tensor x = pinned(1);
  const Tensor busy = long_work("cuda");
  const Tensor y = x.to("cuda", {.non_blocking = true});
  x.fill_(2);
  EXPECT_TRUE(all_are(y, 1));
  y.copy_(x, true);
  x.fill_(5);
  EXPECT_TRUE(all_are(y, 2));
  EXPECT_TRUE(all_are(busy, 0));
}

TEST_F(AsyncCopy, MemoryFreedInFlightIsNotHandedOut) {
  if (!cuda::is_available()) return;
  const Tensor busy = long_work("cuda");
  const Tensor y = pinned(7).to("cuda", {.non_blocking = true});
  const Tensor z = pinned(8);
  EXPECT_TRUE(all_are(y, 7));
  EXPECT_TRUE(all_are(z, 8));
}

TEST_F(AsyncCopy, SeveralCopiesIntoOneResultAreAllWaitedFor) {
  if (!cuda::is_available()) return;
  const Tensor y = pinned(0);
  const cuda::Stream first = cuda::Stream::create(), second = cuda::Stream::create();
  {
    const cuda::StreamGuard guard(first);
    y.narrow(0, 0, 100).copy_((long_work("cuda") + 1).narrow(0, 0, 100), true);
  }
  {
    const cuda::StreamGuard guard(second);
    y.narrow(0, 100, 100).copy_(full({100}, 2., {.device = "cuda"}), true);
  }
  EXPECT_EQ(y[0].item<float>(), 1);
  EXPECT_EQ(y[199].item<float>(), 2);
}

TEST_F(AsyncCopy, AWaitThrowsWhatAKernelRefused) {
  if (!cuda::is_available()) return;
  const Tensor table = ones({4, 8}, {.device = "cuda"});
  const Tensor y =
      embedding(table, tensor({1, 4}, {.device = "cuda"})).to("cpu", {.non_blocking = true});
  EXPECT_TRUE(refuses<IndexError>([&] { return y.to_vector<float>(); },
                                  "index 4 is out of bounds for a dimension with size 4"));
  EXPECT_TRUE(all_are(embedding(table, tensor({3}, {.device = "cuda"})), 1)) << "the GPU goes on";
}

TEST_F(AsyncCopy, CopiesBetweenGpusKeepTheOrderOfBothStreams) {
  if (cuda::device_count() < 2) GTEST_SKIP() << "needs two GPUs";
  for (const bool on_streams : {false, true}) {
    const cuda::StreamGuard guard(on_streams ? cuda::Stream::create(1)
                                             : cuda::Stream::default_stream(1));
    // The copy waits for the kernel that computes its source.
    const Tensor x = long_work("cuda:0") + 3;
    const Tensor y = x.to("cuda:1");
    // The source may be changed immediately.
    x.fill_(9);
    EXPECT_TRUE(all_are(y + 1, 4));
    // The target may still be read by earlier work.
    const Tensor target = full(kShape, 5., {.device = "cuda:1"});
    const Tensor reader = long_work("cuda:1") + target;
    target.copy_(x);
    EXPECT_TRUE(all_are(reader, 5));
    EXPECT_TRUE(all_are(target, 9));
  }
}

TEST_F(AsyncCopy, EveryDtypeAndLayoutMovesBetweenGpus) {
  if (cuda::device_count() < 2) GTEST_SKIP() << "needs two GPUs";
  for (const DType dtype : kAllDTypes) {
    const Tensor x = arange(24).to(dtype).view({4, 6});
    const Tensor there = x.to("cuda:0").t().to("cuda:1");
    EXPECT_EQ(there.strides(), x.t().strides()) << name_of(dtype);
    EXPECT_TRUE(same_bits(there.cpu(), x.t())) << name_of(dtype);
    EXPECT_TRUE(same_bits(there.narrow(0, 1, 3).to("cuda:0").cpu(), x.t().narrow(0, 1, 3)));
  }
}

}  // namespace
}  // namespace taper::v0::test
