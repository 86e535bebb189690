// The order of batches does not depend on how they are gathered.
#include "data/loader.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "framework/factory/factories.h"
#include "tests/testing.h"

namespace taper::v0::data {
namespace {

using test::all_devices;
using Ids = std::vector<int64_t>;

// Sample i is {i, i + 0.5} with target 10 i.
DatasetPtr numbered(int64_t n) {
  std::vector<float> x;
  Ids y;
  for (int64_t i = 0; i < n; ++i) {
    x.insert(x.end(), {float(i), float(i) + 0.5F});
    y.push_back(10 * i);
  }
  return std::make_shared<TensorDataset>(
      Batch{tensor_of(x.data(), {n, 2}), tensor_of(y.data(), {n})});
}

DatasetPtr long_text(int64_t n, int64_t block) {
  return std::make_shared<WindowDataset>(arange(n), block);
}

// Returns the shapes and bytes of all batches.
std::string bytes_of(DataLoader& loader, int64_t epoch, int64_t first = 0) {
  std::string out;
  loader.start(epoch, first);
  while (const std::optional<Batch> b = loader.next()) {
    for (const Tensor& x : {b->inputs, b->targets}) {
      const Tensor host = x.cpu();
      out += to_string(host.shape());
      out.append(static_cast<const char*>(host.data_ptr()), host.nbytes());
    }
  }
  return out;
}

int threads_of_process() {
  std::ifstream status("/proc/self/status");
  std::string word;
  int count = 0;
  while (status >> word) {
    if (word == "Threads:") status >> count;
  }
  return count;
}

TEST(Loader, EverySampleComesOnceAnEpochWithItsTarget) {
  for (const bool shuffle : {false, true}) {
    DataLoader loader(numbered(23), {.batch_size = 5, .shuffle = shuffle}, Device(), 3);
    EXPECT_EQ(loader.steps_per_epoch(), 5);
    EXPECT_EQ(loader.samples_per_epoch(), 23);
    loader.start(0);
    Ids seen;
    std::vector<int64_t> sizes;
    while (const std::optional<Batch> b = loader.next()) {
      sizes.push_back(b->inputs.size(0));
      const std::vector<float> x = b->inputs.to_floats();
      const Ids y = b->targets.to_vector<int64_t>();
      for (size_t i = 0; i < y.size(); ++i) {
        EXPECT_EQ(x[2 * i] * 10, float(y[i]));
        seen.push_back(y[i] / 10);
      }
    }
    EXPECT_EQ(sizes, (Ids{5, 5, 5, 5, 3}));
    EXPECT_EQ(std::ranges::is_sorted(seen), !shuffle);
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 23u);
    EXPECT_FALSE(loader.next());
  }
}

// The number of workers, the device of the split and the first batch change no byte.
TEST(Loader, TheSameBytesHoweverTheyAreGathered) {
  const DatasetPtr splits[] = {numbered(101), long_text(500, 8)};
  for (const DatasetPtr& split : splits) {
    for (const bool shuffle : {false, true}) {
      const DataLoaderOptions plain = {.batch_size = 4, .shuffle = shuffle};
      DataLoader reference(split, plain, Device(), 7);
      const std::string wanted[] = {bytes_of(reference, 1), bytes_of(reference, 2)};
      const std::string from_third = bytes_of(reference, 2, 3);
      EXPECT_EQ(wanted[0] != wanted[1], shuffle);
      EXPECT_TRUE(wanted[1].ends_with(from_third));
      for (const Device device : all_devices()) {
        for (const OnDevice where : {OnDevice::kAuto, OnDevice::kAlways, OnDevice::kNever}) {
          for (const int64_t workers : {0, 1, 4}) {
            DataLoader loader(split, {4, shuffle, 0, workers, where}, device, 7);
            EXPECT_EQ(loader.is_resident(), device.is_cuda() && where != OnDevice::kNever);
            EXPECT_EQ(bytes_of(loader, 2, 3), from_third) << workers << to_string(device);
            for (const int epoch : {1, 2}) {
              EXPECT_EQ(bytes_of(loader, epoch), wanted[epoch - 1]) << workers;
            }
          }
        }
      }
      DataLoader other_seed(split, plain, Device(), 8);
      EXPECT_EQ(bytes_of(other_seed, 1) != wanted[0], shuffle);
    }
  }
}

TEST(Loader, WindowsOfATextAreDrawnAtRandomOrTakenInTurn) {
  const DatasetPtr text = long_text(41, 10);  // each token is its own position
  DataLoader in_turn(text, {.batch_size = 3}, Device(), 1);
  EXPECT_EQ(in_turn.steps_per_epoch(), 2);
  in_turn.start(0);
  Ids starts;
  while (const auto b = in_turn.next()) {
    for (const int64_t s : b->inputs.narrow(1, 0, 1).to_vector<int64_t>()) starts.push_back(s);
  }
  EXPECT_EQ(starts, (Ids{0, 10, 20, 30}));

  DataLoader random(text, {.batch_size = 7, .shuffle = true, .batches = 300}, Device(), 1);
  EXPECT_EQ(random.steps_per_epoch(), 300);
  EXPECT_EQ(random.samples_per_epoch(), 2100);
  random.start(0);
  std::set<int64_t> seen;
  while (const auto b = random.next()) {
    EXPECT_EQ(b->inputs.shape(), (Shape{7, 10}));
    const Ids x = b->inputs.to_vector<int64_t>(), y = b->targets.to_vector<int64_t>();
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(x[i], x[i / 10 * 10] + int64_t(i % 10));
      EXPECT_EQ(y[i], x[i] + 1);
    }
    for (size_t i = 0; i < x.size(); i += 10) seen.insert(x[i]);
  }
  EXPECT_EQ(seen.size(), 31u);  // all offsets from 0 to the last that has a target
  EXPECT_EQ(*seen.rbegin(), 30);
  EXPECT_EQ(DataLoader(text, {.batch_size = 64, .shuffle = true}, Device(), 1).steps_per_epoch(),
            1);
  EXPECT_EQ(DataLoader(text, {.batch_size = 2, .shuffle = true}, Device(), 1).steps_per_epoch(), 2);
}

TEST(Loader, NoThreadWithoutWorkers) {
  // the thread sanitizer starts its own thread together with the first one
  std::thread([] {}).join();
  const int before = threads_of_process();
  DataLoader loader(numbered(50), {.batch_size = 2, .shuffle = true}, Device(), 1);
  loader.start(0);
  EXPECT_TRUE(loader.next());
  EXPECT_EQ(threads_of_process(), before);
  DataLoader with(numbered(50), {.batch_size = 2, .workers = 3}, Device(), 1);
  with.start(0);
  EXPECT_EQ(threads_of_process(), before + 3);
}

TEST(Loader, WhatFailsInAWorkerReachesTheCallerAtItsBatch) {
  const auto broken = std::make_shared<FunctionDataset>(40, [](int64_t i) -> Batch {
    if (i >= 25) throw IndexError("no target");
    return {zeros({2}), zeros({})};
  });
  for (const int64_t workers : {0, 1, 4}) {
    DataLoader loader(broken, {.batch_size = 4, .workers = workers}, Device(), 1);
    loader.start(0);
    for (int i = 0; i < 6; ++i) EXPECT_TRUE(loader.next());
    EXPECT_THROW(loader.next(), IndexError) << workers;
    loader.start(0, 2);
    EXPECT_TRUE(loader.next());
  }
}

TEST(Loader, AnEpochWithinAnEpochIsRefusedAtTheOuterOnesNextStep) {
  DataLoader loader(numbered(8), {.batch_size = 2});
  const auto inner_loop = [&](int stop_at) {
    int steps = 0;
    for ([[maybe_unused]] const Batch& outer : loader.epoch(0)) {
      if (++steps < stop_at) continue;
      for ([[maybe_unused]] const Batch& inner : loader.epoch(1)) ++steps;
    }
    return steps;
  };
  for (const int stop_at : {1, 4}) {
    EXPECT_TRUE(test::refuses<Error>([&] { return inner_loop(stop_at); },
                                     "another epoch() of this DataLoader began within this one"));
  }
  EXPECT_EQ(inner_loop(5), 4);
}

TEST(Loader, WithoutASetOrMovedFromIsRefused) {
  EXPECT_TRUE(test::refuses<ValueError>([] { return DataLoader(DatasetPtr()).is_resident(); },
                                        "DataLoader: expected a data set, got nullptr"));
  DataLoader from(numbered(8), {.batch_size = 2});
  const auto epoch = from.epoch(0);
  DataLoader to = std::move(from);
  EXPECT_TRUE(to.next());
  const char* text = "this DataLoader was moved from";
  EXPECT_TRUE(test::refuses<Error>([&] { return from.next(); }, text));
  EXPECT_TRUE(test::refuses<Error>([&] { return from.epoch(1); }, text));
  EXPECT_TRUE(test::refuses<Error>([&] { return epoch.begin(); }, text));
  EXPECT_TRUE(test::refuses<Error>([&] { return from.steps_per_epoch(); }, text));
}

template <class Loader>
concept GivesEpochs = requires(Loader&& loader) {
  std::forward<Loader>(loader).epoch(0);
};

TEST(Loader, ATemporaryGivesNoEpochs) {
  static_assert(GivesEpochs<DataLoader&> && !GivesEpochs<DataLoader>);
}

TEST(Loader, StopsAnywhereAndStartsAgain) {
  for (int taken = 0; taken < 12; ++taken) {
    DataLoader loader(numbered(40), {.batch_size = 4, .shuffle = true, .workers = 4}, Device(), 1);
    loader.start(0);
    for (int i = 0; i < taken; ++i) EXPECT_EQ(bool(loader.next()), i < 10);
    loader.start(1, 5);
    EXPECT_TRUE(loader.next());
    DataLoader moved = std::move(loader);
    EXPECT_TRUE(moved.next());
  }
}

TEST(Loader, RefusesWhatGivesNoBatches) {
  const DatasetPtr some = numbered(3);
  const auto refuses = [&](const data::DataLoaderOptions& o, const char* why) {
    EXPECT_TRUE(test::refuses<ValueError>([&] { DataLoader(some, o, Device(), 1); }, why));
  };
  refuses({.batch_size = 0}, "DataLoader: expected batch_size of at least 1, got 0");
  refuses({.workers = -1}, "DataLoader: expected workers of at least 0, got -1");
  EXPECT_THROW(DataLoader(numbered(0), {}, Device(), 1), ValueError);
  DataLoader loader(some, {}, Device(), 1);
  EXPECT_THROW(loader.next(), Error);
}

}  // namespace
}  // namespace taper::v0::data
