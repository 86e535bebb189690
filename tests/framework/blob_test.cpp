// Memory of other owners: from_blob and DLPack.
#include <vector>

#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include "framework/factory/factories.h"
#include "framework/io/dlpack.h"
#include "tests/testing.h"

namespace taper::v0 {
namespace {

TEST(FromBlob, SharesTheMemoryUntilTheLastTensorGoes) {
  std::vector<float> memory = {1, 2, 3, 4, 5, 6};
  int freed = 0;
  void* seen = nullptr;
  Tensor row;
  {
    const Tensor x = from_blob(memory.data(), {2, 3}, [&](void* data) { ++freed, seen = data; });
    EXPECT_EQ(x.to_floats(), memory);
    memory[4] = 50;
    EXPECT_EQ(x[1][1].item<float>(), 50);
    x[0][0] = 7;
    EXPECT_EQ(memory[0], 7);
    row = x[1];
  }
  EXPECT_EQ(freed, 0);
  row = {};
  EXPECT_EQ(freed, 1);
  EXPECT_EQ(seen, memory.data());
}

TEST(FromBlob, TakesStridesADtypeAndGradients) {
  std::vector<double> memory = {1, 2, 3, 4, 5, 6};
  const Tensor t =
      from_blob(memory.data(), {3, 2}, Shape{1, 3}, {.dtype = kFloat64, .requires_grad = true});
  EXPECT_EQ(t.to_vector<double>(), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_TRUE(t.requires_grad());
  EXPECT_EQ(t.storage()->nbytes, 48u);
  EXPECT_EQ(from_blob(nullptr, {0, 3}).numel(), 0);
}

TEST(FromBlob, RefusesWhatHasNoExtent) {
  float x = 0;
  EXPECT_TRUE(test::refuses<ValueError>(
      [&] {
        return from_blob(&x, {2, 3}, Shape{1});
      },
      "sizes [2, 3] and strides [1] of given memory must have the same length"));
  EXPECT_TRUE(
      test::refuses<ValueError>([&] { return from_blob(&x, {2}, Shape{-1}); },
                                "sizes [2] and strides [-1] of given memory must not be negative"));
  EXPECT_TRUE(test::refuses<Error>(
      [&] {
        return from_blob(&x, {INT64_MAX, 2}, Shape{INT64_MAX, 1});
      },
      ""));
}

TEST(Dlpack, GoesOutAndComesBackWithTheSameMemory) {
  for (const DType dtype : kAllDTypes) {
    const Tensor x = ones({3, 4}, {.dtype = dtype}).transpose(0, 1);
    DLManagedTensor* const managed = to_dlpack(x);
    EXPECT_EQ(managed->dl_tensor.ndim, 2);
    EXPECT_EQ(managed->dl_tensor.strides[0], 1);
    EXPECT_EQ(managed->dl_tensor.data, x.data_ptr());
    const int before = x.impl()->refs;
    {
      const Tensor back = from_dlpack(managed);
      EXPECT_EQ(back.dtype(), dtype);
      EXPECT_EQ(back.shape(), x.shape());
      EXPECT_EQ(back.strides(), x.strides());
      EXPECT_EQ(back.data_ptr(), x.data_ptr());
    }
    EXPECT_EQ(x.impl()->refs, before - 1) << "the deleter was called";
  }
}

// A tensor of another framework: rows of three elements, with an offset in bytes; null strides mean
// contiguous.
struct Foreign {
  float memory[7] = {0, 1, 2, 3, 4, 5, 6};
  int64_t shape[2] = {2, 3};
  int deleted = 0;
  DLManagedTensor managed = {};
  Foreign() {
    managed.dl_tensor = {memory, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 4};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* m) { ++static_cast<Foreign*>(m->manager_ctx)->deleted; };
  }
};

TEST(Dlpack, TakesForeignMemory) {
  Foreign foreign;
  {
    const Tensor x = from_dlpack(&foreign.managed);
    EXPECT_EQ(x.to_floats(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(foreign.deleted, 0);
  }
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(Dlpack, GivesBackWhatItRefuses) {
  const auto refused = [](auto change, const char* text) {
    Foreign foreign;
    change(foreign.managed.dl_tensor);
    EXPECT_TRUE(test::refuses<Error>([&] { return from_dlpack(&foreign.managed); }, text));
    EXPECT_EQ(foreign.deleted, 1);
  };
  refused(
      [](DLTensor& t) {
        t.dtype = {kDLComplex, 64, 1};
      },
      "from_dlpack: elements of type code 5, 64 bits and 1 lanes have no dtype in Taper");
  refused([](DLTensor& t) { t.dtype.lanes = 4; }, "from_dlpack: elements of type code 2");
  refused([](DLTensor& t) { t.device.device_type = kDLMetal; },
          "from_dlpack: memory of DLPack's device type 8 cannot be used");
  refused([](DLTensor& t) { t.shape[0] = -2; }, "sizes [-2, 3] and strides");
  EXPECT_TRUE(test::refuses<ValueError>([] { return from_dlpack(nullptr); },
                                        "from_dlpack: there is no tensor"));
  EXPECT_TRUE(
      test::refuses<Error>([&] { return to_dlpack(ones({2}, {.requires_grad = true})); },
                           "Can't export tensors that require gradient, use tensor.detach()"));
}

}  // namespace
}  // namespace taper::v0
