// The position of a DataLoader, saved and restored.
#include <atomic>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "data/loader.h"
#include "framework/factory/factories.h"
#include "tests/testing.h"

namespace taper::v0::data {
namespace {

using test::refuses;
using Ids = std::vector<int64_t>;

DataLoader loader_of(const DataLoaderOptions& options, int64_t n = 23, uint64_t seed = 3) {
  return {TensorDataset(Batch{arange(n).view({n, 1}), arange(n)}), options, Device(), seed};
}
void append(Ids& to, const Batch& batch) {
  for (const int64_t id : batch.targets.to_vector<int64_t>()) to.push_back(id);
}
// Returns the samples of all epochs up to `epochs`, from the loader's position on. Stops after
// `most` batches.
Ids rest_of(DataLoader& loader, int64_t epochs, int64_t most = 1000) {
  Ids out;
  for (int64_t e = loader.current_epoch(); e < epochs; ++e) {
    for (const Batch& batch : loader.epoch(e)) {
      append(out, batch);
      if (--most == 0) return out;
    }
  }
  return out;
}

TEST(LoaderState, ContinuesAfterAnyBatchWithTheSameSamples) {
  const DataLoaderOptions rows[] = {
      {.batch_size = 5},
      {.batch_size = 5, .shuffle = true},
      {.batch_size = 5, .shuffle = true, .workers = 3},
      {.batch_size = 5, .shuffle = true, .drop_last = true},
      {.batch_size = 4, .shuffle = true, .batches = 3},
  };
  for (const DataLoaderOptions& options : rows) {
    DataLoader whole = loader_of(options);
    const Ids want = rest_of(whole, 3);
    const int64_t batches = 3 * whole.steps_per_epoch();
    for (int64_t done = 1; done <= batches; ++done) {
      DataLoader first = loader_of(options), second = loader_of(options);
      Ids got = rest_of(first, 3, done);
      second.load_state_dict(first.state_dict());
      for (const int64_t id : rest_of(second, 3)) got.push_back(id);
      EXPECT_EQ(got, want) << "after batch " << done;
    }
  }
}

TEST(LoaderState, IsTheBeginningBeforeTheFirstBatch) {
  DataLoader fresh = loader_of({.batch_size = 5, .shuffle = true});
  DataLoader other = loader_of({.batch_size = 5, .shuffle = true});
  other.load_state_dict(fresh.state_dict());
  EXPECT_EQ(other.current_epoch(), 0);
  EXPECT_EQ(rest_of(other, 2), rest_of(fresh, 2));
}

TEST(LoaderState, NextContinuesWithoutAnEpoch) {
  DataLoader first = loader_of({.batch_size = 5}), second = loader_of({.batch_size = 5});
  first.start(2);
  (void)first.next();
  second.load_state_dict(first.state_dict());
  EXPECT_EQ(second.next()->targets.to_vector<int64_t>(), (Ids{5, 6, 7, 8, 9}));
  EXPECT_EQ(second.current_epoch(), 2);
}

TEST(LoaderState, IsKeptByALoaderThatWasRestoredButNotUsed) {
  DataLoader first = loader_of({.batch_size = 5}), second = loader_of({.batch_size = 5});
  first.start(1, 2);
  second.load_state_dict(first.state_dict());
  const std::vector<NamedTensor> again = second.state_dict();
  EXPECT_EQ(again[0].tensor.item<int64_t>(), 1);
  EXPECT_EQ(again[1].tensor.item<int64_t>(), 2);
}

TEST(LoaderState, AnotherEpochThatWouldSkipBatchesIsRefused) {
  DataLoader first = loader_of({.batch_size = 5}), second = loader_of({.batch_size = 5});
  first.start(1, 2);
  second.load_state_dict(first.state_dict());
  EXPECT_TRUE(refuses<Error>([&] { return second.epoch(0), 0; },
                             "DataLoader: epoch(0) would skip the rest of epoch 1, which was "
                             "restored after 2 batches: begin with epoch(loader.current_epoch())"));
  second.start(0);
  EXPECT_EQ(second.next()->targets.to_vector<int64_t>(), (Ids{0, 1, 2, 3, 4}));
  // At the end of an epoch nothing is left to skip.
  first.start(1, first.steps_per_epoch());
  second.load_state_dict(first.state_dict());
  EXPECT_EQ((*second.epoch(2).begin()).targets.numel(), 5);
}

TEST(LoaderState, OfAnotherOrderIsRefusedWithTheList) {
  DataLoader first = loader_of({.batch_size = 5, .shuffle = true});
  const std::vector<NamedTensor> state = first.state_dict();
  DataLoader other = loader_of({.batch_size = 4, .drop_last = true}, 24, 5);
  EXPECT_TRUE(refuses<ValueError>(
      [&] { return other.load_state_dict(state), 0; },
      "DataLoader: the position cannot be restored:\n\tseed was 3, and is 5 here\n\tbatch_size was "
      "5, and is 4 here\n\tshuffle was 1, and is 0 here\n\tdrop_last was 0, and is 1 here\n\t"
      "samples was 23, and is 24 here"));
  EXPECT_TRUE(
      refuses<ValueError>([&] { return first.load_state_dict({}), 0; },
                          "DataLoader: the position cannot be restored:\n\tthe state has no "
                          "int64 number \"epoch\"\n\tthe state has no int64 number "
                          "\"batch\""));
  EXPECT_EQ(rest_of(first, 1).size(), 23U);
}

TEST(LoaderState, AStreamIsReadAgainUpToThePosition) {
  std::atomic<int> read = 0;
  const auto open = [&](int64_t epoch) -> SampleStream {
    return [&, i = epoch * 100, end = epoch * 100 + 10]() mutable -> std::optional<Batch> {
      ++read;
      if (i == end) return std::nullopt;
      const Tensor one = tensor(i++);
      return Batch{one, one};
    };
  };
  DataLoader first(open, {.batch_size = 3}), second(open, {.batch_size = 3});
  Ids want = rest_of(first, 2), got;
  DataLoader third(open, {.batch_size = 3});
  got = rest_of(third, 2, 5);
  second.load_state_dict(third.state_dict());
  for (const int64_t id : rest_of(second, 2)) got.push_back(id);
  EXPECT_EQ(got, want);
}

}  // namespace
}  // namespace taper::v0::data
