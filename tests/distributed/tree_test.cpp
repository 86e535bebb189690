// With gradients added in a fixed tree, any number of ranks gives the same bits.
#include "modules/data_parallel.h"
#include "optim/algorithms/optimizers.h"
#include "optim/clip.h"
#include "optim/state_shards.h"
#include "tests/distributed/net.h"

namespace taper::v0 {
namespace {

using distributed::Communicator;
using test::bytes_of;
using test::close;
using test::kBatch;
using test::Net;
using test::refuses;
using test::test_device;
using test::whole_batch;
using test::world;

constexpr int kShards = 8;

// Returns the group sizes that a tree supports: powers of two that divide the number of ranks.
std::vector<int> tree_sizes() {
  std::vector<int> sizes;
  for (int ranks = 1; world().size() % ranks == 0; ranks *= 2) sizes.push_back(ranks);
  return sizes;
}

// Returns the group of `ranks` neighboring ranks that includes this rank.
Communicator group_of(int ranks) {
  return ranks == 1 ? Communicator::alone(test_device()) : world().split(world().rank() / ranks);
}

// Returns one shard of the whole batch of a step.
Tensor shard(int step, int number) {
  const int64_t n = kBatch / kShards;
  return whole_batch(step).narrow(0, number * n, n);
}

// Returns the weights after some steps on `ranks` ranks. The leaf `empty`, if any, has no samples.
std::vector<Tensor> trained(int ranks, DataParallelOptions options, int empty = -1) {
  const Communicator group = group_of(ranks);
  options.order = ReduceOrder::kTree;
  options.shards = kShards;
  Net net(uint64_t(group.rank() + 1), options.allow_unused);
  DataParallel parallel(net, group, options);
  optim::AdamW optimizer(net.named_parameters(), {.lr = 1e-2});
  optim::StateShards state(optimizer, group);
  const int leaves = kShards / ranks, first = group.rank() * leaves;
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    for (int leaf = first; leaf < first + leaves; ++leaf) {
      std::optional<DataParallel::NoSyncGuard> more_come;
      if (leaf + 1 < first + leaves) more_come.emplace(parallel);
      if (leaf == empty) {
        parallel.skip_leaf();
        continue;
      }
      (square(net(shard(step, leaf))).sum() / double(kBatch * 16)).backward();
      parallel.finish();
    }
    optim::clip_grad_norm_(net.parameters(), 0.5);
    state.step();
  }
  return net.parameters();
}

void expect_same_bits(const DataParallelOptions& options, int empty = -1) {
  const std::string want = bytes_of(trained(1, options, empty));
  for (const int ranks : tree_sizes()) {
    EXPECT_TRUE(bytes_of(trained(ranks, options, empty)) == want) << ranks << " ranks";
  }
}

TEST(Tree, GivesTheSameBitsForAnyNumberOfRanks) {
  expect_same_bits({});
  expect_same_bits({.bucket_bytes = 1});
  expect_same_bits({.bucket_bytes = 1000, .reduce_dtype = kBFloat16});
  expect_same_bits({.allow_unused = true});
}

TEST(Tree, CountsAnEmptyShardAsZero) {
  for (const int empty : {0, 3, 7}) expect_same_bits({.bucket_bytes = 500}, empty);
}

TEST(Tree, SumsAreThoseOfTheWholeBatch) {
  Net net(1);
  optim::AdamW optimizer(net.named_parameters(), {.lr = 1e-2});
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    test::loss_of(net, whole_batch(step)).backward();
    optim::clip_grad_norm_(net.parameters(), 0.5);
    optimizer.step();
  }
  const std::vector<Tensor> got = trained(tree_sizes().back(), {}), want = net.parameters();
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(close(got[i], want[i], 1e-4)) << i;
}

// These sums cancel, so the result depends on the order of the additions.
TEST(Tree, AddsLeavesTwoByTwo) {
  const float leaves[kShards] = {1e8f, 1, -1e8f, 1, 3, -1e8f, 1e8f, 1};
  const float want = ((leaves[0] + leaves[1]) + (leaves[2] + leaves[3])) +
                     ((leaves[4] + leaves[5]) + (leaves[6] + leaves[7]));
  struct Scale : Module {
    Parameter weight{*this, "weight", zeros({1})};
    std::string type_name() const override { return "Scale"; }
    Tensor forward(const Tensor& x) override { return weight * x; }
  };
  for (const int ranks : tree_sizes()) {
    const Communicator group = group_of(ranks);
    Scale scale;
    scale.to(test_device());
    DataParallel parallel(scale, group, {.order = ReduceOrder::kTree, .shards = kShards});
    const int each = kShards / ranks, first = group.rank() * each;
    for (int leaf = first; leaf < first + each; ++leaf) {
      std::optional<DataParallel::NoSyncGuard> more_come;
      if (leaf + 1 < first + each) more_come.emplace(parallel);
      const Tensor x = full({1}, leaves[leaf], {.dtype = kFloat32, .device = test_device()});
      scale(x).sum().backward();
    }
    EXPECT_EQ(scale.weight->grad().cpu().to_floats(), std::vector<float>{want}) << ranks;
  }
}

TEST(Tree, RefusesShardsAndLeavesThatDoNotFit) {
  Net net(1);
  const Communicator group = group_of(tree_sizes().back());
  std::vector<int> refused = {3, 6, -8};
  if (group.size() > 1) refused.push_back(group.size() / 2);
  for (const int shards : refused) {
    EXPECT_TRUE(refuses<ValueError>(
        [&] { DataParallel(net, group, {.order = ReduceOrder::kTree, .shards = shards}); },
        "DataParallel: shards must be a power of two and a multiple of the "))
        << shards;
  }
  DataParallel parallel(net, group, {.order = ReduceOrder::kTree, .shards = 2 * group.size()});
  EXPECT_TRUE(refuses<Error>([&] { test::loss_of(net, shard(0, 0)).backward(); },
                             "DataParallel: leaf 1 of the 2 of this rank runs outside of a "
                             "no_sync() scope"));
}

TEST(DataParallelTraining, ARankWithoutSamplesTakesPartWithZeros) {
  const bool is_first = world().rank() == 0;
  Net net(1), one(1);
  DataParallel parallel(net, world());
  for (int step = 0; step < 2; ++step) {
    net.zero_grad();
    one.zero_grad();
    if (is_first) test::loss_of(net, whole_batch(step)).backward();
    if (!is_first) parallel.skip_leaf();
    test::loss_of(one, whole_batch(step)).backward();
    const Tensor want = one.in->weight->grad() / world().size();
    EXPECT_TRUE(close(net.in->weight->grad(), want, 1e-6));
  }
}

}  // namespace
}  // namespace taper::v0
