// Every collective operation on every rank, for several dtypes and sizes.
#include <bit>
#include <cmath>
#include <functional>
#include <map>

#include "autograd/ops/binary_ops.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "tests/distributed/ranks.h"
#include "tests/locale_guard.h"
#include "tests/testing.h"

namespace taper::v0::distributed {
namespace {

using test::refuses;
using test::test_device;
using test::world;

const std::vector<int64_t> kSizes = {0, 1, 7, 1000, 100003};

// Returns small whole numbers that are exact in every dtype and differ by rank and position.
Tensor numbers(int64_t n, DType dtype, int rank) {
  const Tensor at = arange(n, {.dtype = kInt64});
  const Tensor values = (at * 3 + rank * 5) - floor_divide(at * 3 + rank * 5, wrap_scalar(7)) * 7;
  if (dtype == kBool) return (values > 3).to(test_device());
  return values.to(dtype).to(test_device());
}

bool same_values(const Tensor& got, const Tensor& want) {
  return got.shape() == want.shape() && got.dtype() == want.dtype() &&
         got.cpu().to_vector<double>() == want.cpu().to_vector<double>();
}

// Compares with a reduction in float64. NCCL multiplies by 1 / size() before it adds. If the number
// of ranks is not a power of two, its averages are therefore rounded more than once.
testing::AssertionResult is_reduction(const Tensor& got, const Tensor& want, ReduceOp op) {
  const bool is_rounded_once = op != ReduceOp::kAvg || test_device().is_cpu() ||
                               std::has_single_bit(unsigned(world().size()));
  if (is_rounded_once) {
    if (same_values(got, want.to(got.dtype()))) return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << "some of the " << want.numel() << " values differ from the expected ones";
  }
  const std::map<DType, double> roundings = {
      {kFloat64, 1e-14}, {kFloat32, 1e-6}, {kFloat16, 4e-3}, {kBFloat16, 0.03}};
  return test::close(got, want.to(got.dtype()), roundings.at(got.dtype()));
}

Tensor reduced(int64_t n, DType dtype, ReduceOp op) {
  Tensor all = numbers(n, dtype, 0).to(kFloat64);
  for (int r = 1; r < world().size(); ++r) {
    const Tensor next = numbers(n, dtype, r).to(kFloat64);
    if (op == ReduceOp::kMax) all = maximum(all, next);
    if (op == ReduceOp::kMin) all = minimum(all, next);
    if (op == ReduceOp::kSum || op == ReduceOp::kAvg) all = all + next;
  }
  return op == ReduceOp::kAvg ? all / world().size() : all;
}

class Collectives : public testing::TestWithParam<DType> {};

TEST_P(Collectives, AllReduceIsEveryRanksSum) {
  const DType dtype = GetParam();
  for (const int64_t n : kSizes) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kAvg}) {
      if (op == ReduceOp::kAvg && !is_floating_point(dtype)) continue;
      const Tensor x = numbers(n, dtype, world().rank());
      world().all_reduce(x, op).wait();
      EXPECT_TRUE(is_reduction(x, reduced(n, dtype, op), op)) << n << " op " << int(op);
    }
  }
}

TEST_P(Collectives, ReduceScatterGivesEachRankItsPart) {
  const DType dtype = GetParam();
  for (const int64_t n : kSizes) {
    const Tensor in = numbers(n * world().size(), dtype, world().rank());
    const Tensor out = numbers(n, dtype, 6);
    world().reduce_scatter(out, in).wait();
    const Tensor all = reduced(n * world().size(), dtype, ReduceOp::kSum).to(dtype);
    EXPECT_TRUE(same_values(out, all.narrow(0, world().rank() * n, n))) << n;
  }
}

TEST_P(Collectives, AllGatherIsInTheOrderOfRanks) {
  const DType dtype = GetParam();
  for (const int64_t n : kSizes) {
    const Tensor out = numbers(n * world().size(), dtype, 6);
    world().all_gather(out, numbers(n, dtype, world().rank())).wait();
    for (int r = 0; r < world().size(); ++r) {
      EXPECT_TRUE(same_values(out.narrow(0, r * n, n), numbers(n, dtype, r))) << n << " of " << r;
    }
  }
}

TEST_P(Collectives, AllToAllTransposesParts) {
  const DType dtype = GetParam();
  for (const int64_t n : kSizes) {
    const int64_t all = n * world().size();
    const Tensor out = numbers(all, dtype, 6);
    world().all_to_all(out, numbers(all, dtype, world().rank())).wait();
    for (int r = 0; r < world().size(); ++r) {
      const Tensor theirs = numbers(all, dtype, r).narrow(0, world().rank() * n, n);
      EXPECT_TRUE(same_values(out.narrow(0, r * n, n), theirs)) << n << " of " << r;
    }
  }
}

TEST_P(Collectives, BroadcastIsTheRoots) {
  const DType dtype = GetParam();
  for (const int64_t n : kSizes) {
    for (int root = 0; root < world().size(); ++root) {
      const Tensor x = numbers(n, dtype, world().rank());
      world().broadcast(x, root).wait();
      EXPECT_TRUE(same_values(x, numbers(n, dtype, root))) << n << " from " << root;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Collectives, testing::ValuesIn(kAllDTypes),
                         [](const auto& tested) { return to_string(tested.param); });

TEST(Communicators, ManyTensorsAreBroadcastFromTheirRoots) {
  std::vector<Tensor> xs;
  std::vector<int> roots;
  for (int i = 0; i < 10; ++i) {
    xs.push_back(numbers(10 + i, kAllDTypes[i], world().rank()));
    roots.push_back(i % world().size());
  }
  world().broadcast(xs, roots).wait();
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(same_values(xs[size_t(i)], numbers(10 + i, kAllDTypes[i], i % world().size())))
        << i;
  }
}

TEST(Communicators, ManyTensorsAreReducedAtOnce) {
  const int r = world().rank();
  for (const DType dtype : {kFloat32, kInt16, kBFloat16}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
      if (op == ReduceOp::kAvg && !is_floating_point(dtype)) continue;
      std::vector<Tensor> xs;
      for (const int64_t n : kSizes) xs.push_back(numbers(n, dtype, r));
      world().all_reduce(xs, op).wait();
      for (size_t i = 0; i < xs.size(); ++i) {
        EXPECT_TRUE(is_reduction(xs[i], reduced(kSizes[i], dtype, op), op))
            << i << " " << int(dtype);
      }
    }
  }
  world().all_reduce(std::vector<Tensor>()).wait();
  const Tensor x = zeros({1}, {.device = test_device()});
  EXPECT_TRUE(refuses<Error>(
      [&] {
        world().all_reduce({x, x.to(kInt16)}).wait();
      },
      "all_reduce(sum) of float32 [1] and 1 more ("));
}

TEST(Communicators, CollectivesGoOnInTheBackgroundInTheirOrder) {
  std::vector<Tensor> xs;
  std::vector<Work> works;
  for (int i = 0; i < 20; ++i) {
    xs.push_back(
        full({1000 + i}, i + world().rank(), {.dtype = kFloat32, .device = test_device()}));
    works.push_back(world().all_reduce(xs.back(), ReduceOp::kSum, /*async_op=*/i % 3 > 0));
  }
  while (!works.empty()) {
    works.back().wait();
    works.pop_back();
  }
  const int n = world().size();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(xs[size_t(i)].cpu().to_floats()[999], float(i * n + n * (n - 1) / 2)) << i;
  }
}

TEST(Communicators, AnyStreamWaitsForAResult) {
  if (!test_device().is_cuda()) GTEST_SKIP() << "needs a GPU: the CPU has no streams";
  const int n = world().size();
  for (const bool async_op : {false, true}) {
    const Tensor x = full({10000000}, world().rank(), {.device = test_device()});
    Work work = world().all_reduce(x, ReduceOp::kSum, async_op);
    const cuda::StreamGuard elsewhere(cuda::Stream::create(test_device().index()));
    work.wait();
    EXPECT_EQ(x.narrow(0, 9999999, 1).cpu().item<float>(), float(n * (n - 1) / 2)) << async_op;
  }
}

TEST(Communicators, HalfSumsAreTheSameBitsOnAllRanksAndAgain) {
  for (const DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    std::vector<float> first;
    for (int run = 0; run < 3; ++run) {
      Generator generator(uint64_t(world().rank() + 1));
      const Tensor x = normal(0, 1, {50000}, {.dtype = dtype, .device = test_device()}, &generator);
      world().all_reduce(x).wait();
      const std::vector<float> got = x.cpu().to_floats();
      if (run == 0) first = got;
      EXPECT_EQ(got, first) << name_of(dtype);
      const Tensor of_rank_0 = x.clone();
      world().broadcast(of_rank_0).wait();
      EXPECT_EQ(of_rank_0.cpu().to_floats(), got) << name_of(dtype);
    }
  }
}

TEST(Communicators, ResultsCountAsWrittenTo) {
  const Tensor x = zeros({3}, {.device = test_device()});
  const uint32_t before = x.version();
  world().all_reduce(x).wait();
  EXPECT_GT(x.version(), before);
}

TEST(Communicators, GroupsHaveRanksOfTheirOwn) {
  const int color = world().rank() % 2;
  const Communicator half = world().split(color, -world().rank());
  const int members = (world().size() + 1 - color) / 2;
  EXPECT_EQ(half.size(), members);
  EXPECT_EQ(half.rank(), members - 1 - world().rank() / 2);  // ranks in reverse order
  const Tensor x = full({4}, world().rank(), {.dtype = kInt64, .device = test_device()});
  half.all_reduce(x).wait();
  int64_t sum = 0;
  for (int r = color; r < world().size(); r += 2) sum += r;
  EXPECT_EQ(x.cpu().to_vector<int64_t>(), std::vector<int64_t>(4, sum));
}

TEST(Communicators, WhatTheRootNamesIsThereOnAllRanksInEveryLocale) {
  const test::GroupedLocaleGuard locale(' ');
  for (int root = 0; root < world().size(); ++root) {
    std::vector<NamedTensor> given;
    if (world().rank() == root) {
      given = {{"a name of words", numbers(6, kInt64, root).view({2, 3})},
               {"scalar", numbers(1, kFloat32, root).view({})},
               {"none", numbers(0, kBool, root)}};
    }
    const std::vector<NamedTensor> got = world().broadcast_named(given, root);
    ASSERT_EQ(got.size(), 3u);
    EXPECT_EQ(got[0].name, "a name of words");
    EXPECT_TRUE(same_values(got[0].tensor, numbers(6, kInt64, root).view({2, 3}).cpu()));
    EXPECT_TRUE(same_values(got[1].tensor, numbers(1, kFloat32, root).view({}).cpu()));
    EXPECT_EQ(got[2].tensor.dtype(), kBool);
  }
}

TEST(Communicators, TextsOfAnyLengthAreGathered) {
  const auto text = [](int r) { return std::string(size_t(r * 1000), char('a' + r)); };
  const std::vector<std::string> all = world().all_gather_text(text(world().rank()));
  ASSERT_EQ(all.size(), size_t(world().size()));
  for (int r = 0; r < world().size(); ++r) EXPECT_EQ(all[size_t(r)], text(r));
}

std::string host_of(int rank) {
  return world().name_of(rank).substr(concat_to_string("rank ", rank).size());
}

TEST(Communicators, RanksKnowTheirHosts) {
  EXPECT_NE(world().name_of(0).find("rank 0 ("), std::string::npos);
  int before = 0;
  for (int r = 0; r < world().rank(); ++r) before += host_of(r) == host_of(world().rank());
  EXPECT_EQ(world().local_rank(), before);
  world().barrier();
}

TEST(Communicators, OneRankAloneCopies) {
  const Communicator alone = Communicator::alone(test_device());
  EXPECT_EQ(alone.rank() + alone.local_rank(), 0);
  EXPECT_EQ(alone.size(), 1);
  EXPECT_EQ(alone.device(), test_device());
  EXPECT_EQ(alone.split(3).size(), 1);
  const Tensor x = numbers(7, kFloat32, 1), y = numbers(7, kFloat32, 2);
  alone.all_reduce(x, ReduceOp::kAvg).wait();
  EXPECT_TRUE(same_values(x, numbers(7, kFloat32, 1)));
  alone.broadcast(x).wait();
  alone.all_to_all(y, x).wait();
  EXPECT_TRUE(same_values(y, x));
  Work work = alone.reduce_scatter(y, numbers(7, kFloat32, 2));
  EXPECT_TRUE(work.done());
  work.wait();
  EXPECT_TRUE(same_values(y, numbers(7, kFloat32, 2)));
  EXPECT_EQ(alone.all_gather_text("own"), std::vector<std::string>{"own"});
  alone.barrier();
  alone.check();
}

TEST(Communicators, TensorsInAnyOrderOfMemoryAreBroadcast) {
  const Tensor x = numbers(12, kFloat32, world().rank()).view({3, 4});
  const Tensor every_second = numbers(12, kInt64, world().rank()).view({6, 2}).select(1, 0);
  world().broadcast_strided({x.t(), every_second}, {0, world().size() - 1});
  EXPECT_TRUE(same_values(x, numbers(12, kFloat32, 0).view({3, 4})));
  const Tensor want = numbers(12, kInt64, world().size() - 1).view({6, 2}).select(1, 0);
  EXPECT_TRUE(same_values(every_second, want));
}

// --- misuse throws an error on every rank, and the next call works ---

// Returns the message of the exception that f throws.
template <class F> std::string message_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
void expect_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << part << "\nis not in: " << message;
  }
  const Tensor x = ones({2}, {.device = test_device()});
  world().all_reduce(x).wait();
  EXPECT_EQ(x.cpu().to_floats()[1], float(world().size()));
}
std::string other() { return world().name_of(world().rank() == 0 ? 1 : 0); }
Tensor some(const Shape& shape, DType dtype = kFloat32) {
  return zeros(shape, {.dtype = dtype, .device = test_device()});
}

testing::AssertionResult ends_by_rank(int rank, const std::function<void()>& call) {
  try {
    call();
  } catch (const RankError& error) {
    const std::string message = error.what(), name = world().name_of(rank);
    const bool is_certain = message.find(name + " has not called it") != std::string::npos;
    if (is_certain && error.rank == rank) return testing::AssertionSuccess();
    // For a rank of another host the name may be all that is known.
    const bool is_here = host_of(rank) == host_of(world().rank());
    if (!is_here && message.find(name) != std::string::npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "the error names rank " << error.rank << ": " << message;
  }
  return testing::AssertionFailure() << "nothing was thrown";
}

class BadUse : public testing::Test {
  void SetUp() override {
    if (world().size() < 2) GTEST_SKIP() << "needs two ranks";
  }
};

TEST_F(BadUse, ShapesThatDifferAreNamed) {
  const bool first = world().rank() == 0;
  const std::string message = message_of([&] { world().all_reduce(some({first ? 3 : 4})).wait(); });
  expect_parts(
      message,
      {concat_to_string("all_reduce(sum) of float32 [", first ? 3 : 4, "] at "),
       "collectives_test.cpp:", concat_to_string("on ", world().name_of(world().rank())),
       concat_to_string(other(), " calls all_reduce(sum) of float32 [", first ? 4 : 3, "] at ")});
}

TEST_F(BadUse, DTypesThatDifferAreNamed) {
  const bool first = world().rank() == 0;
  const std::string message =
      message_of([&] { world().all_reduce(some({3}, first ? kInt64 : kFloat32)).wait(); });
  expect_parts(message, {concat_to_string(other(), " calls all_reduce(sum) of ",
                                          first ? "float32" : "int64")});
}

TEST_F(BadUse, AnotherCollectiveIsNamed) {
  const bool first = world().rank() == 0;
  const std::string message = message_of([&] {
    if (first) world().all_reduce(some({3}), ReduceOp::kMax).wait();
    if (!first) world().barrier();
  });
  expect_parts(message,
               {first ? "all_reduce(max)" : "barrier at ",
                concat_to_string(other(), " calls ", first ? "barrier at " : "all_reduce(max)")});
}

TEST_F(BadUse, ARankThatRefusesItsOwnCallTellsTheOthers) {
  const bool first = world().rank() == 0;
  const Tensor matrix = some({4, 4});
  const std::string message =
      message_of([&] { world().all_reduce(first ? matrix.t() : matrix).wait(); });
  expect_parts(message, {first ? "the tensor is not contiguous" : "calls a call that it refuses"});
}

TEST_F(BadUse, TensorsOfAnotherDeviceAreRefused) {
  if (test_device().is_cpu() && test::skip_without_cuda()) return;
  const Device elsewhere = test_device().is_cpu() ? Device("cuda:0") : Device();
  const Tensor x = zeros({3}, {.device = elsewhere});
  expect_parts(
      message_of([&] { world().all_reduce(x).wait(); }),
      {"all_reduce(sum) of float32 [3] at ", concat_to_string("the tensor is on ", elsewhere),
       test_device().is_cpu() ? "MPI is for CPU tensors" : "NCCL is for CUDA tensors"});
}

TEST_F(BadUse, SizesAndOpsThatDoNotFitAreRefused) {
  const int n = world().size();
  expect_parts(message_of([&] { world().all_gather(some({3}), some({3})).wait(); }),
               {"all_gather of float32 [3]", "does not fit"});
  expect_parts(message_of([&] { world().all_to_all(some({n + 1}), some({n + 1})).wait(); }),
               {"all_to_all of float32", "does not fit"});
  expect_parts(message_of([&] { world().all_reduce(some({3}, kInt32), ReduceOp::kAvg).wait(); }),
               {"averages are for floating tensors"});
  expect_parts(message_of([&] { world().broadcast(some({3}), n).wait(); }), {"there is no rank"});
  const Tensor twice = some({3});
  expect_parts(message_of([&] {
                 world().all_reduce({twice, some({3}), twice}).wait();
               }),
               {"one of the tensors is there twice"});
  expect_parts(message_of([&] { world().reduce_scatter(some({3}, kInt32), some({3 * n})).wait(); }),
               {"the result has dtype int32"});
}

TEST_F(BadUse, ARankThatDoesNotComeIsNamed) {
  for (const bool checked : {true, false}) {
    const Communicator pair =
        Communicator::world(test_device(), {.timeout = 3, .checked = checked}).split(0);
    const int last = world().size() - 1;
    // The last rank skips the call and waits for the others in the next line.
    if (world().rank() != last) {
      const auto call = [&] {
        pair.all_reduce(some({3})).wait();
        pair.barrier();
      };
      EXPECT_TRUE(ends_by_rank(last, call));
      EXPECT_TRUE(
          refuses<RankError>(call, test_device().is_cpu() ? "this communicator has failed" : ""));
    }
    expect_parts("", {});
  }
}

}  // namespace
}  // namespace taper::v0::distributed
