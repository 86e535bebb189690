// Training on several ranks gives the same as training on one, within rounding. All ranks, and
// repeated runs, give equal bits.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "autograd/autocast.h"
#include "autograd/step_graph.h"
#include "autograd/tensor_hooks.h"
#include "data/sampler.h"
#include "framework/factory/low_precision_cache.h"
#include "modules/data_parallel.h"
#include "modules/layers/containers.h"
#include "optim/algorithms/optimizers.h"
#include "optim/clip.h"
#include "optim/ema.h"
#include "optim/grad_scaler.h"
#include "optim/state_shards.h"
#include "tests/distributed/net.h"
#include "tests/testing.h"

namespace taper::v0 {
namespace {

using test::bytes_of;
using test::close;
using test::expect_equal_on_all_ranks;
using test::loss_of;
using test::Net;
using test::part_of;
using test::refuses;
using test::test_device;
using test::whole_batch;
using test::world;

// AdamW divides small gradients by their own magnitude, which amplifies differences in the order of
// sums.
constexpr double kClose = 1e-4;

struct Setup {
  DataParallelOptions options = {};
  int micro_batches = 1;
  double clip = 0;
};

// Returns the weights after five steps of AdamW, on all ranks or, as a reference, on this rank with
// the whole batch.
std::vector<Tensor> trained(bool parallel, const Setup& setup = {}) {
  Net net(parallel ? uint64_t(world().rank() + 1) : 1);  // all ranks start with rank 0's weights
  std::optional<DataParallel> ranks;
  if (parallel) ranks.emplace(net, world(), setup.options);
  optim::AdamW optimizer(net.named_parameters(), {.lr = 1e-2});
  for (int step = 0; step < 5; ++step) {
    const Tensor batch = whole_batch(step), own = parallel ? part_of(batch) : batch;
    optimizer.zero_grad();
    const int64_t n = own.size(0) / setup.micro_batches;
    const auto run = [&](int64_t micro) {
      (loss_of(net, own.narrow(0, micro * n, n)) / setup.micro_batches).backward();
    };
    for (int micro = 0; micro + 1 < setup.micro_batches; ++micro) {
      std::optional<DataParallel::NoSyncGuard> own_gradients;
      if (ranks) own_gradients.emplace(*ranks);
      run(micro);
    }
    run(setup.micro_batches - 1);
    if (setup.clip > 0) optim::clip_grad_norm_(net.parameters(), setup.clip);
    optimizer.step();
  }
  return net.parameters();
}

void expect_close(const std::vector<Tensor>& got, const std::vector<Tensor>& want,
                  double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(close(got[i], want[i], tolerance)) << i;
}

TEST(DataParallelTraining, IsTrainingOnOneRank) {
  const std::vector<Tensor> got = trained(true);
  expect_close(got, trained(false), kClose);
  expect_equal_on_all_ranks(got);
}

TEST(DataParallelTraining, HasTheSameBitsAgain) {
  EXPECT_TRUE(bytes_of(trained(true)) == bytes_of(trained(true)));
}

TEST(DataParallelTraining, BucketsMayBeSmallOrBfloat16) {
  expect_close(trained(true, {{.bucket_bytes = 1}}), trained(false), kClose);
  const std::vector<Tensor> rounded = trained(true, {{.reduce_dtype = kBFloat16}});
  expect_close(rounded, trained(false), 0.05);
  expect_equal_on_all_ranks(rounded);
}

// A sum in bfloat16 would lose every 1, because it would be rounded to a multiple of 2.
TEST(DataParallelTraining, AveragesOfBfloat16AreComputedInFloat32) {
  const int64_t n = world().size();
  Sequential net(Linear(5, 3), Linear(3, 2));
  net.to(test_device());
  DataParallel parallel(net, world(), {.bucket_bytes = 16, .reduce_dtype = kBFloat16});
  for (int step = 0; step < 2; ++step) {
    net.zero_grad();
    Tensor loss = zeros({}, {.device = test_device()});
    for (const Tensor& p : net.parameters()) loss = loss + p.sum();
    (loss * (world().rank() == 0 ? 256 : 1)).backward();
    for (const Tensor& p : net.parameters()) {
      const double mean = double(256 + n - 1) / double(n);
      const Tensor want = full(p.shape(), mean, {.dtype = kFloat32}).to(kBFloat16).to(kFloat32);
      EXPECT_TRUE(close(p.grad().cpu(), want, 0));
    }
  }
}

TEST(DataParallelTraining, AccumulatesWithoutTheOthers) {
  expect_close(trained(true, {.micro_batches = 3}), trained(false, {.micro_batches = 3}), kClose);
}

TEST(DataParallelTraining, ClipsByTheNormOfAllRanks) {
  const std::vector<Tensor> got = trained(true, {.clip = 0.05});
  expect_close(got, trained(false, {.clip = 0.05}), kClose);
  expect_equal_on_all_ranks(got);
}

TEST(DataParallelTraining, GradientsAreViewsOfTheirBuckets) {
  Net net(1);
  DataParallel parallel(net, world());
  loss_of(net, part_of(whole_batch(0))).backward();
  std::set<const Storage*> storages;
  for (const Tensor& p : net.parameters()) {
    if (p.requires_grad()) storages.insert(p.grad().storage().get());
  }
  EXPECT_EQ(storages.size(), 1u);
}

// Checks, for two steps of `net`, which gradients the ranks reduce in place, that is, without a
// copy to a bucket.
void expect_reduced_where_they_lie(Module& net, const Tensor& x, const DataParallelOptions& options,
                                   const std::set<std::string>& where_they_lie) {
  std::map<std::string, const void*> made;
  std::vector<HookHandle> hooks;
  for (const auto& [name, p] : net.named_parameters()) {
    hooks.push_back(p.register_post_accumulate_grad_hook(
        [&made, path = name](const Tensor& own) { made[path] = own.grad().data_ptr(); }));
  }
  DataParallel parallel(net, world(), options);
  for (int step = 0; step < 2; ++step) {
    net.zero_grad();
    net(x).square().mean().backward();
    for (const auto& [name, p] : net.named_parameters()) {
      EXPECT_EQ(made.at(name) == p.grad().data_ptr(), where_they_lie.contains(name))
          << name << step;
    }
  }
  for (HookHandle& hook : hooks) hook.remove();  // they refer to `made`
}

TEST(DataParallelTraining, LargeGradientsAndThoseAloneInABucketAreReducedWhereTheyLie) {
  for (const bool is_large : {true, false}) {
    manual_seed(1);
    Sequential net(Linear(is_large ? 512 : 8, 512), Linear(512, 4));
    net.to(test_device());
    Sequential alone = clone(net);
    const Tensor x = randn({4 * world().size(), is_large ? 512 : 8}).to(test_device());
    const Tensor own = x.narrow(0, 4 * world().rank(), 4);
    const std::set<std::string> all = {"0.weight", "0.bias", "1.weight", "1.bias"}, none;
    expect_reduced_where_they_lie(net, own, {},
                                  is_large ? std::set<std::string>{"0.weight"} : none);
    alone(x).square().mean().backward();
    const auto expect_averages = [&] {
      for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_TRUE(close(net.parameters()[i].grad(), alone.parameters()[i].grad(), 1e-5)) << i;
      }
    };
    expect_averages();
    expect_reduced_where_they_lie(net, own, {.bucket_bytes = 1}, all);
    expect_averages();
    expect_reduced_where_they_lie(net, own, {.bucket_bytes = 1, .reduce_dtype = kBFloat16}, all);
    if (std::has_single_bit(unsigned(world().size()))) {
      expect_reduced_where_they_lie(net, own, {.order = ReduceOrder::kTree}, none);
    }
  }
}

TEST(DataParallelTraining, BucketsSayWhatTravels) {
  Sequential net(Linear(512, 512), Linear(512, 4));
  net.to(test_device());
  const int64_t first = 4 * 512 * 512, others = 4 * (512 + 4 * 512 + 4);
  const auto bytes = [&](const DataParallelOptions& options) {
    return DataParallel(net, world(), options).bucket_bytes();
  };
  EXPECT_EQ(bytes({}), (std::vector<int64_t>{others, first}));
  EXPECT_EQ(bytes({.bucket_bytes = 1 << 30}), (std::vector<int64_t>{others + first}));
  EXPECT_EQ(bytes({.bucket_bytes = 1 << 30, .reduce_dtype = kBFloat16}),
            (std::vector<int64_t>{(others + first) / 2}));
}

TEST(DataParallelTraining, NamesParametersWithoutAGradient) {
  Net net(1, true);
  DataParallel parallel(net, world());
  const Tensor x = part_of(whole_batch(0));
  loss_of(net, x).backward();
  EXPECT_TRUE(refuses<Error>([&] { parallel.finish(); },
                             "DataParallel: no gradient came to unused.weight, unused.bias;"));
  EXPECT_TRUE(refuses<Error>([&] { net(x); },
                             "DataParallel: the backward pass before gave no gradient to "
                             "unused.weight, unused.bias;"));
}

TEST(DataParallelTraining, CountsUnusedParametersAsZeroWhereThatIsMeant) {
  Net net(1, true), alone(1, true);
  DataParallel parallel(net, world(), {.allow_unused = true});
  for (int step = 0; step < 2; ++step) {
    net.zero_grad();
    loss_of(net, part_of(whole_batch(step))).backward();
    parallel.finish();
    alone.zero_grad();
    loss_of(alone, whole_batch(step)).backward();
    EXPECT_TRUE(close(net.in->weight->grad(), alone.in->weight->grad(), 1e-5));
    EXPECT_EQ(net.unused->weight->grad().cpu().to_floats(), std::vector<float>(9, 0));
  }
}

TEST(DataParallelTraining, RefusesModulesThatDiffer) {
  if (world().size() < 2) GTEST_SKIP() << "needs two ranks with different modules";
  Sequential net(Linear(4, world().rank() == 0 ? 5 : 6));
  net.to(test_device());
  EXPECT_TRUE(
      refuses<Error>([&] { DataParallel(net, world()); },
                     concat_to_string("DataParallel: the module of ", world().name_of(1),
                                      " differs from rank 0's: 0.weight float32 [6, 4], and not "
                                      "0.weight float32 [5, 4]")));
  Sequential fewer =
      world().rank() == 0 ? Sequential(Linear(4, 5), Linear(5, 2)) : Sequential(Linear(4, 5));
  fewer.to(test_device());
  EXPECT_TRUE(refuses<Error>(
      [&] { DataParallel(fewer, world()); },
      concat_to_string("DataParallel: the module of ", world().name_of(1),
                       " differs from rank 0's: nothing more, and not 1.weight float32 [2, 5]")));
}

TEST(DataParallelTraining, AnInfinityOnOneRankSkipsTheStepOnAll) {
  Net net(1);
  DataParallel parallel(net, world());
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  optim::GradScaler scaler({.init_scale = 1024});
  optim::EMA average(net.named_parameters(), {.decay = 0.5});
  const std::string before = bytes_of(net.parameters());
  for (int step = 0; step < 3; ++step) {
    Tensor x = part_of(whole_batch(step)).clone();
    if (step == 0 && world().rank() == world().size() - 1) {
      x.fill_(std::numeric_limits<float>::infinity());
    }
    optimizer.zero_grad();
    scaler.scale(loss_of(net, x)).backward();
    scaler.step(optimizer);
    scaler.update();
    average.update();
    EXPECT_EQ(bytes_of(net.parameters()) == before, step == 0);
    EXPECT_EQ(scaler.get_scale(), 512);
  }
  expect_equal_on_all_ranks(net.parameters());
  expect_equal_on_all_ranks(average.averages());
}

TEST(SyncBatchNorm, IsBatchNormOfTheWholeBatch) {
  Net net(1), alone(1);
  net.normalises = alone.normalises = true;
  for (Net* n : {&net, &alone}) n->norm->requires_grad_(true);
  sync_batch_norms(net, world());
  DataParallel parallel(net, world());
  for (int step = 0; step < 3; ++step) {
    net.zero_grad();
    alone.zero_grad();
    const Tensor x = part_of(whole_batch(step)).clone().requires_grad_();
    const Tensor all = whole_batch(step).requires_grad_();
    loss_of(net, x).backward();
    loss_of(alone, all).backward();
    EXPECT_TRUE(close(x.grad() / world().size(), part_of(all.grad()), 1e-5));
    for (size_t i = 0; i < net.parameters().size(); ++i) {
      const Tensor got = net.parameters()[i].grad(), want = alone.parameters()[i].grad();
      if (!want.defined()) continue;
      EXPECT_TRUE(close(got, want, 1e-5)) << i;
    }
  }
  EXPECT_TRUE(close(net.norm->running_mean, alone.norm->running_mean, 1e-6));
  EXPECT_TRUE(close(net.norm->running_var, alone.norm->running_var, 1e-6));
  net.eval();
  alone.eval();
  EXPECT_TRUE(close(net(whole_batch(9)), alone(whole_batch(9)), 1e-5));
}

// Every rank has a batch of another size, of samples [3, ...].
template <class Norm> void check_batches_of_ranks(Shape shape) {
  Generator generator(5);
  const int64_t rows = world().size() * (world().size() + 1) / 2;
  shape[0] = rows;
  const Tensor all = normal(1, 2, shape, {.device = test_device()}, &generator);
  const int64_t n = world().rank() + 1, first = n * (n - 1) / 2;
  for (const bool channels_last : {false, true}) {
    Tensor x = all.narrow(0, first, n).clone();
    if (channels_last) x = x.movedim(1, -1).contiguous().movedim(-1, 1);
    Norm one(3), several(3);
    one.to(test_device());
    several.to(test_device());
    sync_batch_norms(several, world());
    x.requires_grad_();
    const Tensor whole = all.clone().requires_grad_();
    const Tensor y = several(x), want = one(whole);
    EXPECT_TRUE(close(y, want.narrow(0, first, n), 1e-5));
    const Tensor weights = all * all;  // arbitrary output gradients
    y.backward(weights.narrow(0, first, n));
    want.backward(weights);
    EXPECT_TRUE(close(x.grad(), whole.grad().narrow(0, first, n), 1e-4));
  }
}

TEST(SyncBatchNorm, BatchesMayDifferInSizeAndLayout) {
  check_batches_of_ranks<BatchNorm2d>({0, 3, 4, 5});
  check_batches_of_ranks<BatchNorm3d>({0, 3, 2, 4, 5});
}

// --- sharded optimizer state ---

template <class Make>
void expect_shards_change_nothing(const Make& make, int64_t piece_bytes, DType dtype) {
  Net net(1), alone(1);
  net.to(dtype);
  alone.to(dtype);
  const auto sharded = make(net), whole = make(alone);
  optim::StateShards shards(*sharded, world(), {.piece_bytes = piece_bytes});
  const auto step = [&](int number) {
    for (Net* n : {&net, &alone}) {
      n->zero_grad();
      loss_of(*n, whole_batch(number).to(dtype)).backward();
    }
    shards.step();
    whole->step();
  };
  for (int i = 0; i < 3; ++i) step(i);
  EXPECT_TRUE(bytes_of(net.parameters()) == bytes_of(alone.parameters()));
  // The sharded state is saved like the unsharded state, and can be loaded into either.
  const std::vector<NamedTensor> got = shards.state_dict(), want = whole->state_dict();
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].name, want[i].name);
    EXPECT_TRUE(bytes_of({got[i].tensor}) == bytes_of({want[i].tensor})) << got[i].name;
  }
  shards.load_state_dict(got);
  whole->load_state_dict(got);
  step(3);
  EXPECT_TRUE(bytes_of(net.parameters()) == bytes_of(alone.parameters()));
}

TEST(StateShards, ChangeNothing) {
  for (const int64_t piece_bytes : {1, 64, 1 << 20}) {  // eight pieces, some, and one
    const auto check = [&](const auto& make, DType dtype = kFloat32) {
      expect_shards_change_nothing(make, piece_bytes, dtype);
    };
    check([](Net& net) {
      return std::make_unique<optim::AdamW>(net.named_parameters(), optim::AdamWOptions{.lr = 1e-2},
                                            std::vector{optim::no_decay()});
    });
    check([](Net& net) {
      return std::make_unique<optim::SGD>(net.parameters(),
                                          optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
    });
    check(
        [](Net& net) {
          return std::make_unique<optim::AdamW>(
              net.parameters(), optim::AdamWOptions{.lr = 1e-2, .master_weights = true});
        },
        kBFloat16);
  }
}

TEST(StateShards, CallAnOptimizerWithAStepOfItsOwnOnce) {
  struct Counted : optim::OptimizerOf<optim::SGDOptions> {
    using OptimizerOf::OptimizerOf;
    void step() override {
      ++calls;
      Optimizer::step();
    }
    int calls = 0;
  };
  Net net(1);
  Counted optimizer(net.parameters(), {.lr = 0.1});
  optim::StateShards shards(optimizer, world(), {.piece_bytes = 1});
  loss_of(net, whole_batch(0)).backward();
  shards.step();
  EXPECT_EQ(optimizer.calls, 1);
  expect_equal_on_all_ranks(net.parameters());
  optim::SGD fresh(net.parameters());
  EXPECT_TRUE(refuses<ValueError>([&] { optim::StateShards(fresh, world(), {.piece_bytes = 0}); },
                                  "StateShards: piece_bytes must be positive, got 0"));
}

// The copies of parameters that autocast multiplies by follow the parameters.
TEST(StateShards, KeepLowPrecisionCopiesUpToDate) {
  Net net(1), fresh(2);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  optim::StateShards shards(optimizer, world(), {.piece_bytes = 1});
  const auto loss = [](Net& n, int number) {
    const AutocastGuard autocast(test_device().type(), kBFloat16);
    return loss_of(n, whole_batch(number));
  };
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    loss(net, i).backward();
    const uint64_t changes = low_precision_changes();
    shards.step();
    fresh.load_state_dict(net.state_dict());
    const Tensor got = loss(net, i + 1);
    EXPECT_EQ(low_precision_changes(), changes) << "a copy was made anew";
    EXPECT_TRUE(bytes_of({got}) == bytes_of({loss(fresh, i + 1)}));
  }
}

TEST(StateShards, EachRankKeepsItsOwnPart) {
  Net net(1);
  optim::AdamW optimizer(net.named_parameters(), {.lr = 1e-2});
  optim::StateShards shards(optimizer, world());
  loss_of(net, whole_batch(0)).backward();
  shards.step();
  int64_t kept = 0, all = 0;
  for (const NamedTensor& entry : optimizer.state_dict()) {
    if (entry.name.ends_with(".exp_avg")) kept += entry.tensor.numel();
  }
  for (const Tensor& p : net.parameters()) all += p.grad().defined() ? p.numel() : 0;
  EXPECT_LE(kept, shards.num_owned());
  const Tensor sum = tensor(kept, {.device = test_device()});
  world().all_reduce(sum).wait();
  EXPECT_EQ(sum.item<int64_t>(), all);
  EXPECT_TRUE(refuses<ValueError>([&] { optim::StateShards(optimizer, world()); },
                                  "StateShards: the optimizer already has state"));
}

// --- the whole step as one CUDA graph ---

// Returns the losses and weights of ten steps as bytes.
std::string stepped(bool in_graph, const DataParallelOptions& options, bool half) {
  Net net(1);
  DataParallel parallel(net, world(), options);
  optim::AdamW optimizer(net.named_parameters(), {.lr = 1e-2});
  optim::StateShards shards(optimizer, world(), {.piece_bytes = 64});
  StepGraph step(
      [&](const std::vector<Tensor>& in) {
        optimizer.zero_grad();
        Tensor loss;
        {
          std::optional<AutocastGuard> autocast;
          if (half) autocast.emplace(DeviceType::kCuda, kBFloat16);
          loss = loss_of(net, in[0]);
        }
        loss.backward();
        const Tensor norm = optim::clip_grad_norm_(net.parameters(), 0.05);
        shards.step();
        return std::vector<Tensor>{loss, norm};
      },
      in_graph ? 2 : 100);
  std::string bytes;
  for (int i = 0; i < 10; ++i) bytes += bytes_of(step({part_of(whole_batch(i)).clone()}));
  EXPECT_EQ(step.num_graphs(), in_graph ? 1u : 0u) << step.reason();
  expect_equal_on_all_ranks(net.parameters());
  return bytes + bytes_of(net.parameters());
}

TEST(StepGraphs, HoldStepsOfSeveralRanksWithTheSameBits) {
  if (test_device().is_cpu()) GTEST_SKIP() << "needs a GPU: CUDA graphs do not exist on the CPU";
  const auto same = [](const DataParallelOptions& options, bool half) {
    return stepped(true, options, half) == stepped(false, options, half);
  };
  EXPECT_TRUE(same({}, false));
  EXPECT_TRUE(same({.bucket_bytes = 1000}, true));
  EXPECT_TRUE(same({.reduce_dtype = kBFloat16}, true));
  // A tree has a power of two of leaves, one for each rank here.
  if (std::has_single_bit(unsigned(world().size()))) {
    EXPECT_TRUE(same({.bucket_bytes = 1000, .order = ReduceOrder::kTree}, true));
  }
}

// --- samples ---

TEST(DistributedSampler, GivesEverySampleOnceAndEachBatchItsRows) {
  const int ranks = world().size();
  const int64_t batch = 4 * ranks;
  for (const int64_t rows : {int64_t{0}, int64_t{3}, 5 * batch, 5 * batch + 1, 6 * batch - 1}) {
    const auto all = std::make_shared<data::RandomSampler>(rows, 7);
    std::vector<int64_t> joined;
    std::multiset<int64_t> first_batch;
    for (int r = 0; r < ranks; ++r) {
      const data::DistributedSampler own(all, batch, r, ranks);
      const std::vector<int64_t> order = own.order(3, Device()).to_vector<int64_t>();
      EXPECT_EQ(std::ssize(order), own.size());
      joined.insert(joined.end(), order.begin(), order.end());
      if (rows >= batch) first_batch.insert(order.begin(), order.begin() + 4);
    }
    std::vector<int64_t> want = all->order(3, Device()).to_vector<int64_t>();
    if (rows >= batch) {
      EXPECT_EQ(first_batch, std::multiset<int64_t>(want.begin(), want.begin() + batch)) << rows;
    }
    std::sort(joined.begin(), joined.end());
    std::sort(want.begin(), want.end());
    EXPECT_EQ(joined, want) << rows;
  }
  EXPECT_TRUE(refuses<ValueError>(
      [] { data::DistributedSampler(std::make_shared<data::SequentialSampler>(9), 9, 0, 2); },
      "DistributedSampler: a batch of 9 samples is not cut into equal parts for 2 ranks"));
}

TEST(DistributedBatchSampler, GivesEveryBatchToOneRank) {
  for (const int64_t rows : {0, 3, 8, 40, 41, 47}) {
    for (const int ranks : {1, 2, 3, 4}) {
      const auto all = std::make_shared<data::RandomSampler>(rows, 7);
      const std::vector<int64_t> order = all->order(3, Device()).to_vector<int64_t>();
      for (int r = 0; r < ranks; ++r) {
        std::vector<int64_t> want;
        for (int64_t i = 0; i < rows; ++i) {
          if (i / 4 % ranks == r) want.push_back(order[size_t(i)]);
        }
        const data::DistributedBatchSampler own(all, 4, r, ranks);
        EXPECT_EQ(own.order(3, Device()).to_vector<int64_t>(), want) << rows << " " << r;
        EXPECT_EQ(own.size(), std::ssize(want)) << rows << " " << r;
      }
    }
  }
  EXPECT_TRUE(refuses<ValueError>(
      [] { data::DistributedBatchSampler(std::make_shared<data::SequentialSampler>(9), 3, 2, 2); },
      "DistributedBatchSampler: no batches of 3 for rank 2 of 2"));
}

}  // namespace
}  // namespace taper::v0
