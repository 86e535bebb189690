// Datasets of single samples, subsets, concatenations, and streams.
#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/shape_ops.h"
#include "data/loader.h"
#include "data/source.h"
#include "data/split.h"
#include "framework/factory/factories.h"
#include "tests/data_files.h"
#include "tests/testing.h"

namespace taper::v0::data {
namespace {

using test::all_devices;
using Ids = std::vector<int64_t>;

// Sample i has the inputs {i, -i}, the target i % 3, and i as a further tensor.
Batch numbered_sample(int64_t i) { return {tensor({i, -i}), tensor(i % 3), {tensor(i)}}; }
DatasetPtr numbered(int64_t n) { return std::make_shared<FunctionDataset>(n, numbered_sample); }

Ids ids_of(DataLoader& loader, int64_t epoch) {
  Ids out;
  for (const Batch& b : loader.epoch(epoch)) {
    const Ids ids = b.others.at(0).cpu().to_vector<int64_t>();
    EXPECT_EQ(b.inputs.shape(), (Shape{std::ssize(ids), 2}));
    EXPECT_EQ(b.targets.cpu().to_vector<int64_t>(), remainder(tensor(ids), 3).to_vector<int64_t>());
    out.insert(out.end(), ids.begin(), ids.end());
  }
  return out;
}

Ids numbers(int64_t n) {
  Ids out(size_t(n), 0);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

TEST(Sets, SamplesOfAFunctionAreStackedInAnyOrder) {
  for (const Device device : all_devices()) {
    DataLoader in_turn(numbered(11), {.batch_size = 4}, device);
    EXPECT_EQ(ids_of(in_turn, 0), numbers(11));
    DataLoader plain(numbered(11), {.batch_size = 4, .shuffle = true}, "cpu", 5);
    const Ids wanted = ids_of(plain, 3);
    EXPECT_TRUE(std::ranges::is_permutation(wanted, numbers(11)));
    for (const int64_t workers : {1, 3}) {
      DataLoader loader(numbered(11),
                        {.batch_size = 4, .shuffle = true, .workers = workers, .prefetch = 1},
                        device, 5);
      EXPECT_EQ(ids_of(loader, 3), wanted) << workers;
    }
  }
}

struct Squares : MapDataset {
  int64_t size() const override { return 10; }
  Batch sample(int64_t i) const override {
    if (i == 7) throw InputError("no such file");
    if (i == 8) throw std::runtime_error("odd");
    return {tensor(i), tensor(i * i)};
  }
};

TEST(Sets, WhatFailsNamesItsSample) {
  for (const int64_t workers : {0, 2}) {
    DataLoader loader(Squares(), {.batch_size = 4, .workers = workers});
    loader.start(0);
    EXPECT_EQ(loader.next()->targets.to_vector<int64_t>(), (Ids{0, 1, 4, 9}));
    EXPECT_EQ(refusal_of<InputError>([&] { (void)loader.next(); }), "sample 7: no such file");
    EXPECT_EQ(refusal_of<std::runtime_error>([&] { (void)loader.next(); }), "odd");
    EXPECT_FALSE(loader.next());
  }
  EXPECT_EQ(refusal_of<IndexError>([&] { (void)Squares().get(tensor({10})); }),
            "no sample 10 of 10");
  const FunctionDataset ragged(3, [](int64_t i) -> Batch { return {zeros({i + 1})}; });
  EXPECT_EQ(
      refusal_of<Error>([&] {
        (void)ragged.get(tensor({2, 1}));
      })
          .find("stack expects each tensor to be equal size, but got [3] of float32 at entry 0 "
                "and [2] of float32 at entry 1 (samples 2 and 1)"),
      0u);
}

TEST(Sets, SamplesOfDifferentSizesAreJoinedByACollateOfOnesOwn) {
  const FunctionDataset ragged(5, [](int64_t i) -> Batch { return {arange(i + 1), tensor(i)}; });
  const auto padded = [](const std::vector<Batch>& samples) {
    int64_t most = 0;
    for (const Batch& b : samples) most = std::max(most, b.inputs.size(0));
    const Tensor out = full({std::ssize(samples), most}, int64_t(-1));
    for (size_t i = 0; i < samples.size(); ++i) {
      const Tensor& x = samples[i].inputs;
      out[int64_t(i)].narrow(0, 0, x.size(0)).copy_(x);
    }
    return Batch{out, {}, {tensor(std::ssize(samples))}};
  };
  for (const Device device : all_devices()) {
    DataLoader loader(ragged, {.batch_size = 2, .workers = 2, .collate = padded}, device);
    std::vector<Ids> seen;
    for (const Batch& b : loader.epoch(0)) seen.push_back(b.inputs.cpu().to_vector<int64_t>());
    EXPECT_EQ(seen, (std::vector<Ids>{{0, -1, 0, 1}, {0, 1, 2, -1, 0, 1, 2, 3}, {0, 1, 2, 3, 4}}));
  }
}

TEST(Sets, ALastBatchThatIsNotFullMayBeLeftOut) {
  DataLoader loader(numbered(11), {.batch_size = 4, .drop_last = true});
  EXPECT_EQ(loader.steps_per_epoch(), 2);
  EXPECT_EQ(loader.samples_per_epoch(), 8);
  EXPECT_EQ(ids_of(loader, 0), numbers(8));
  DataLoader none(numbered(3), {.batch_size = 4, .drop_last = true});
  EXPECT_EQ(ids_of(none, 0), Ids{});
}

// --- streams ---

// Epoch e has the 10 samples e, e + 1, ...; epoch 9 throws after five of them.
SampleStream counting(int64_t epoch) {
  return [epoch, i = int64_t(0)]() mutable -> std::optional<Batch> {
    if (i == 10) return std::nullopt;
    if (epoch == 9 && i == 5) {
      ++i;
      throw ValueError("torn");
    }
    return numbered_sample(epoch + i++);
  };
}

TEST(Streams, AreReadInTurnWhateverTheWorkers) {
  for (const Device device : all_devices()) {
    for (const int64_t workers : {0, 1, 4}) {
      DataLoader loader(counting, {.batch_size = 4, .workers = workers}, device);
      EXPECT_EQ(ids_of(loader, 0), numbers(10));
      EXPECT_EQ(ids_of(loader, 3), (Ids{3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
      EXPECT_FALSE(loader.next());
      loader.start(0, 2);
      EXPECT_EQ(loader.next()->others[0].cpu().to_vector<int64_t>(), (Ids{8, 9}));
      EXPECT_FALSE(loader.next());
      DataLoader full(counting, {.batch_size = 4, .workers = workers, .drop_last = true}, device);
      EXPECT_EQ(ids_of(full, 0), numbers(8));
      DataLoader first(counting, {.batch_size = 4, .batches = 1, .workers = workers}, device);
      EXPECT_EQ(ids_of(first, 0), numbers(4));
    }
  }
}

TEST(Streams, TellWhatFailedAndRefuseAnOrder) {
  DataLoader loader(counting, {.batch_size = 4, .workers = 1});
  loader.start(9);
  EXPECT_TRUE(loader.next());
  EXPECT_EQ(refusal_of<ValueError>([&] { (void)loader.next(); }), "sample 5: torn");
  EXPECT_THROW((void)loader.steps_per_epoch(), Error);
  EXPECT_EQ(
      refusal_of<ValueError>([] { DataLoader(counting, {.shuffle = true}); }),
      "DataLoader of streams: shuffle is set, but the order of samples is that of the stream; "
      "leave the option out");
}

// --- subsets ---

Ids targets_of(const DatasetPtr& set) {
  return set->get(arange(set->size())).targets.cpu().to_vector<int64_t>();
}
Ids all_ids(const DatasetPtr& set) {
  return set->get(arange(set->size())).others.at(0).to_vector<int64_t>();
}

TEST(Subsets, NameSamplesOfTheirSet) {
  const auto rows = std::make_shared<TensorDataset>(Batch{arange(6), arange(6) * 10});
  const DatasetPtr part = std::make_shared<Subset>(rows, Ids{4, 1, 1});
  EXPECT_EQ(part->size(), 3);
  EXPECT_EQ(targets_of(part), (Ids{40, 10, 10}));
  const DatasetPtr inner = std::make_shared<Subset>(part, Ids{2, 0});
  EXPECT_EQ(targets_of(inner), (Ids{10, 40}));
  for (const Device device : all_devices()) {
    DataLoader loader(inner, {.batch_size = 2}, device);
    EXPECT_EQ(loader.is_resident(), device.is_cuda());
    loader.start(0);
    EXPECT_EQ(loader.next()->targets.cpu().to_vector<int64_t>(), (Ids{10, 40}));
  }
  EXPECT_THROW(Subset(rows, Ids{6}), IndexError);
  EXPECT_THROW((void)part->get(tensor({3})), IndexError);
}

TEST(ConcatDatasets, GiveRowsOfAllTheirSetsInTheOrderAskedFor) {
  const ConcatDataset all(
      {numbered(3), numbered(4), std::make_shared<Subset>(numbered(9), Ids{8})});
  EXPECT_EQ(all.size(), 8);
  const Batch b = all.get(tensor({7, 0, 3, 2, 6, 3}));
  EXPECT_EQ(b.others.at(0).to_vector<int64_t>(), (Ids{8, 0, 0, 2, 3, 0}));
  EXPECT_EQ(b.inputs.select(1, 1).to_vector<int64_t>(), (Ids{-8, 0, 0, -2, -3, 0}));
  EXPECT_THROW((void)all.get(tensor({8})), IndexError);
  EXPECT_THROW(ConcatDataset({}), ValueError);
}

TEST(RandomSplit, CutsByNumbersAndFractions) {
  const DatasetPtr set = numbered(10);
  const auto sizes = [&](const std::vector<double>& lengths) {
    Ids out, seen;
    for (const DatasetPtr& part : random_split(set, lengths, 1)) {
      out.push_back(part->size());
      const Ids ids = all_ids(part);
      seen.insert(seen.end(), ids.begin(), ids.end());
    }
    EXPECT_TRUE(std::ranges::is_permutation(seen, numbers(10)));
    return out;
  };
  EXPECT_EQ(sizes({7, 3}), (Ids{7, 3}));
  EXPECT_EQ(sizes({0.3, 0.3, 0.4}), (Ids{3, 3, 4}));
  EXPECT_EQ(sizes({0.25, 0.25, 0.5}), (Ids{3, 2, 5}));  // the remainder goes to the first subset
  EXPECT_EQ(all_ids(random_split(set, {5, 5}, 1)[0]), all_ids(random_split(set, {5, 5}, 1)[0]));
  EXPECT_NE(all_ids(random_split(set, {5, 5}, 1)[0]), all_ids(random_split(set, {5, 5}, 2)[0]));
  EXPECT_EQ(refusal_of<ValueError>([&] {
              (void)random_split(set, {5, 4});
            }).find("Sum of input lengths does not equal the length of the input dataset!"),
            0u);
  const std::vector<std::pair<std::vector<double>, const char*>> wrong = {
      {{0.8, 0.4}, "got the sum 1.2"}, {{0.5, 0.2}, "got the sum 0.7"}, {{11, -1}, "got -1"}};
  for (const auto& [lengths, says] : wrong) {
    const std::string refusal =
        refusal_of<ValueError>([&] { (void)random_split(set, lengths, 1); });
    EXPECT_TRUE(refusal.ends_with(says)) << refusal;
  }
}

TEST(Sets, OfNothingAreRefused) {
  const std::string text = "expected a data set, got nullptr";
  const Ids rows = {0};
  EXPECT_EQ(refusal_of<ValueError>([] { (void)random_split(nullptr, {1}); }), text);
  EXPECT_EQ(refusal_of<ValueError>([&] { (void)Subset(nullptr, rows); }), text);
  EXPECT_EQ(refusal_of<ValueError>([] { ConcatDataset({nullptr}); }), text);
}

TEST(RandomSplit, KeepsTheSharesOfClasses) {
  std::vector<int64_t> classes(100, 0);
  for (size_t i = 0; i < 100; ++i) classes[i] = i < 60 ? 0 : i < 90 ? 1 : 2;
  const Tensor y = tensor(classes);
  const DatasetPtr set = std::make_shared<TensorDataset>(Batch{arange(100), y});
  const auto parts = random_split(set, {0.7, 0.2, 0.1}, 3, y);
  const double shares[] = {0.6, 0.3, 0.1};
  std::set<int64_t> seen;
  for (size_t k = 0; k < parts.size(); ++k) {
    const Ids of_part = targets_of(parts[k]);
    EXPECT_EQ(parts[k]->size(), (Ids{70, 20, 10}[k]));
    for (int64_t c = 0; c < 3; ++c) {
      EXPECT_NEAR(double(std::ranges::count(of_part, c)), shares[c] * double(of_part.size()), 1.01);
    }
    for (const int64_t i : parts[k]->get(arange(parts[k]->size())).inputs.to_vector<int64_t>()) {
      seen.insert(i);
    }
  }
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_THROW((void)random_split(set, {50, 50}, 3, arange(99)), ValueError);
}

TEST(Source, ClassesAreNamedOneByOne) {
  struct Misnamed {
    Splits load(uint64_t) const {
      return {{.input_shape = {1}, .outputs = 3, .class_names = {"a", "b"}}, {}, {}};
    }
  };
  EXPECT_EQ(refusal_of<ValueError>([] { (void)SourceOf(Misnamed()).load(0); }),
            "the data have 3 outputs, but 2 class_names");
}

TEST(WeightedSampler, DrawsByItsWeights) {
  const auto sampler =
      std::make_shared<WeightedRandomSampler>(std::vector<double>{1, 0, 3}, 4000, true, 2);
  for (const Device device : all_devices()) {
    const Ids rows = sampler->order(0, device).cpu().to_vector<int64_t>();
    EXPECT_EQ(std::ranges::count(rows, 1), 0);
    EXPECT_NEAR(double(std::ranges::count(rows, 2)), 3000, 100);
    EXPECT_EQ(rows, sampler->order(0, "cpu").to_vector<int64_t>());
    EXPECT_NE(rows, sampler->order(1, "cpu").to_vector<int64_t>());
  }
  DataLoader loader(numbered(3), {.batch_size = 1000, .sampler = sampler});
  EXPECT_EQ(loader.steps_per_epoch(), 4);
  const WeightedRandomSampler each({1, 2, 3}, 3, false);
  EXPECT_TRUE(std::ranges::is_permutation(each.order(0, "cpu").to_vector<int64_t>(), numbers(3)));
  EXPECT_THROW(WeightedRandomSampler({1, 0}, 2, false), ValueError);
  EXPECT_THROW(WeightedRandomSampler({1, -1}, 2), ValueError);
  EXPECT_TRUE(refusal_of<ValueError>([] {
                WeightedRandomSampler({0, 0}, 2);
              }).ends_with("they must be finite, not negative and not all 0"));
  EXPECT_THROW(WeightedRandomSampler({1}, 0), ValueError);
}

// --- transforms ---

// The random numbers of a sample do not depend on the batch, the workers or the device.
TEST(Transforms, DrawByTheSampleAndTheEpoch) {
  const auto noise = [](const Batch& b, SampleRng& draws) {
    const Tensor one = draws.uniform(1);
    return Batch{cat({one, draws.uniform(2, -1, 1)}, 1), b.targets, b.others};
  };
  std::vector<Tensor> wanted[2];
  for (const int64_t epoch : {0, 1}) {
    DataLoader loader(numbered(9), {.transform = noise}, "cpu", 4);
    for (const Batch& b : loader.epoch(epoch)) wanted[epoch].push_back(b.inputs[0]);
  }
  EXPECT_NE(wanted[0][3].to_floats(), wanted[1][3].to_floats());
  EXPECT_NE(wanted[0][3].to_floats(), wanted[0][4].to_floats());
  const auto rows = std::make_shared<TensorDataset>(Batch{zeros({9, 2}), zeros({9}), {arange(9)}});
  for (const Device device : all_devices()) {
    for (const int64_t workers : {0, 3}) {
      for (const DatasetPtr& set : {numbered(9), DatasetPtr(rows)}) {
        DataLoader loader(
            set, {.batch_size = 4, .shuffle = true, .workers = workers, .transform = noise}, device,
            4);
        for (const Batch& b : loader.epoch(1)) {
          const Ids ids = b.others[0].cpu().to_vector<int64_t>();
          for (size_t k = 0; k < ids.size(); ++k) {
            EXPECT_EQ(b.inputs[int64_t(k)].cpu().to_floats(),
                      wanted[1][size_t(ids[k])].to_floats());
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace taper::v0::data
