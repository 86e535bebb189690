// Batches of samples of similar length.
#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "data/loader.h"
#include "data/text/labeled_text.h"
#include "data/text/length_sampler.h"
#include "framework/factory/factories.h"
#include "tests/data_files.h"
#include "tests/testing.h"

namespace taper::v0::data {
namespace {

using Ids = std::vector<int64_t>;

// Lengths from 1 to 40, of which short ones are frequent.
Ids lengths_of(int64_t count) {
  Ids out;
  for (int64_t i = 0; i < count; ++i) out.push_back(1 + (i * 7919 % 1601) * (i * 31 % 41) / 1601);
  return out;
}

// Returns the sum over all batches of the longest length times the number of samples.
int64_t padded_size(const Ids& lengths, const Ids& rows, int64_t batch) {
  int64_t sum = 0;
  for (size_t at = 0; at < rows.size(); at += size_t(batch)) {
    int64_t longest = 0;
    const size_t end = std::min(rows.size(), at + size_t(batch));
    for (size_t i = at; i < end; ++i) longest = std::max(longest, lengths[size_t(rows[i])]);
    sum += longest * int64_t(end - at);
  }
  return sum;
}

TEST(LengthGroupedSampler, HasEachSampleOnceInAnOrderOfTheSeedAndEpoch) {
  const struct {
    int64_t samples, batch;
  } rows[] = {{1000, 8}, {1003, 8}, {7, 8}, {1, 1}, {16, 2}, {63, 8}, {5000, 16}};
  for (const auto& row : rows) {
    const Ids lengths = lengths_of(row.samples);
    const LengthGroupedSampler sampler(lengths, row.batch, 3);
    EXPECT_EQ(sampler.size(), row.samples);
    Ids all(static_cast<size_t>(row.samples));
    std::iota(all.begin(), all.end(), int64_t(0));
    const Ids first = sampler.order(0, "cpu").to_vector<int64_t>();
    EXPECT_TRUE(std::ranges::is_permutation(first, all)) << row.samples;
    EXPECT_EQ(first,
              LengthGroupedSampler(lengths, row.batch, 3).order(0, "cpu").to_vector<int64_t>());
    for (const Device device : test::all_devices()) {
      EXPECT_EQ(first, sampler.order(0, device).cpu().to_vector<int64_t>());
    }
    if (row.samples < 3) continue;
    EXPECT_NE(first, sampler.order(1, "cpu").to_vector<int64_t>());
    EXPECT_NE(first,
              LengthGroupedSampler(lengths, row.batch, 4).order(0, "cpu").to_vector<int64_t>());
  }
  EXPECT_THROW(LengthGroupedSampler({1, 2}, 0, 0), ValueError);
}

TEST(LengthGroupedSampler, NeedsLittlePaddingAndFindsTheLongestOfEachBatch) {
  const Ids lengths = lengths_of(4003);
  const int64_t used = std::accumulate(lengths.begin(), lengths.end(), int64_t(0));
  const LengthGroupedSampler sampler(lengths, 16, 1);
  const Ids grouped = sampler.order(2, "cpu").to_vector<int64_t>();
  const Ids shuffled = RandomSampler(4003, 1).order(2, "cpu").to_vector<int64_t>();
  EXPECT_LT(double(padded_size(lengths, grouped, 16)), 1.1 * double(used));
  EXPECT_GT(double(padded_size(lengths, shuffled, 16)), 2.0 * double(used));
  for (const int64_t batch : {16, 5}) {  // a loader may have another batch size
    const Ids found = sampler.batch_lengths(2, batch);
    ASSERT_EQ(std::ssize(found), (4003 + batch - 1) / batch);
    for (size_t i = 0; i < grouped.size(); ++i) {
      EXPECT_LE(lengths[size_t(grouped[i])], found[i / size_t(batch)]);
    }
  }
  // The batches are not in the order of their lengths.
  const Ids found = sampler.batch_lengths(2, 16);
  EXPECT_FALSE(std::ranges::is_sorted(found));
  EXPECT_FALSE(std::is_sorted(found.begin(), found.begin() + 50));
}

// Few batches are too few to be grouped: a group would always have the same samples.
TEST(LengthGroupedSampler, IsARandomOrderForFewBatches) {
  const LengthGroupedSampler sampler(lengths_of(56), 8, 1);
  EXPECT_EQ(sampler.order(1, "cpu").to_vector<int64_t>(),
            RandomSampler(56, 1).order(1, "cpu").to_vector<int64_t>());
}

class LengthGroups : public DataFiles {
 protected:
  // Texts of 1 to 40 words.
  LabeledText texts() const {
    std::string rows = "text,y\n";
    const Ids lengths = lengths_of(600);
    for (int64_t i = 0; i < 600; ++i) {
      for (int64_t k = 0; k < lengths[size_t(i)]; ++k)
        rows += concat_to_string("w", (i + k) % 9, " ");
      rows += concat_to_string(",", i % 2, "\n");
    }
    LabeledText out;
    out.path = {write("t.csv", rows)};
    out.text = "text";
    out.target = {"y"};
    out.length = 32;
    return out;
  }
  static std::vector<Batch> batches_of(DataLoader& loader, int64_t epoch, int64_t first = 0) {
    std::vector<Batch> out;
    loader.start(epoch, first);
    while (auto batch = loader.next()) out.push_back(*batch);
    return out;
  }
};

TEST_F(LengthGroups, BatchesAreCutToTheirLongestText) {
  const Splits parts = texts().load(0);
  const int64_t padding = *parts.tokenizer->special_id(Tokenizer::kPadding);
  const DataLoaderOptions options{.batch_size = 8, .shuffle = true, .group_by_length = true};
  DataLoader loader(parts.train, options, {}, 5);
  const std::vector<Batch> batches = batches_of(loader, 1);
  int64_t samples = 0, tokens = 0;
  std::vector<int64_t> widths;
  for (const Batch& batch : batches) {
    const int64_t width = batch.inputs.size(1);
    widths.push_back(width);
    samples += batch.inputs.size(0);
    tokens += batch.inputs.numel();
    if (width <= 3) continue;
    // At least one text does not fit the next shorter length.
    const Tensor tail = batch.inputs.narrow(1, int64_t(double(width) / 1.42) - 1, 1).contiguous();
    const auto ids = tail.to(kInt64).to_vector<int64_t>();
    EXPECT_TRUE(std::ranges::any_of(ids, [&](int64_t id) { return id != padding; })) << width;
  }
  EXPECT_EQ(samples, parts.train->size());
  EXPECT_LT(tokens, samples * 32 / 2);
  std::ranges::sort(widths);
  const auto repeated = std::ranges::unique(widths);
  EXPECT_LE(repeated.begin() - widths.begin(), 8);
  // The rows are those of the set, whose further tokens are padding.
  const Ids order = parts.train->sampler(options, 5)->order(1, "cpu").to_vector<int64_t>();
  const Batch whole = parts.train->get(tensor_of(order.data(), {std::ssize(order)}));
  int64_t row = 0;
  for (const Batch& batch : batches) {
    const int64_t n = batch.inputs.size(0), width = batch.inputs.size(1);
    const Tensor same = whole.inputs.narrow(0, row, n);
    EXPECT_TRUE(test::same_bits(batch.inputs.contiguous(), same.narrow(1, 0, width).contiguous()));
    if (width < 32) {
      const auto rest = same.narrow(1, width, 32 - width).contiguous().to(kInt64);
      for (const int64_t id : rest.to_vector<int64_t>()) ASSERT_EQ(id, padding);
    }
    row += n;
  }
}

TEST_F(LengthGroups, WorkersAndAStartInTheMiddleGiveTheSameBatches) {
  const Splits parts = texts().load(0);
  DataLoaderOptions options{.batch_size = 8, .shuffle = true, .group_by_length = true};
  DataLoader plain(parts.train, options, {}, 5);
  const std::vector<Batch> want = batches_of(plain, 3);
  options.workers = 3;
  DataLoader parallel(parts.train, options, {}, 5);
  for (const int64_t first : {0, 1, 17}) {
    const std::vector<Batch> got = batches_of(parallel, 3, first);
    ASSERT_EQ(got.size() + size_t(first), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(
          test::same_bits(got[i].inputs.contiguous(), want[i + size_t(first)].inputs.contiguous()));
      EXPECT_TRUE(test::same_bits(got[i].targets, want[i + size_t(first)].targets));
    }
  }
}

// Otherwise the number of ranks could change the bits of a batch's gradient.
TEST_F(LengthGroups, AllRanksCutABatchToTheSameLength) {
  const Splits parts = texts().load(0);
  const DataLoaderOptions options{.batch_size = 8, .shuffle = true, .group_by_length = true};
  DataLoader one(parts.train, options, {}, 5);
  const std::vector<Batch> whole = batches_of(one, 0);
  for (int rank = 0; rank < 4; ++rank) {
    DataLoaderOptions part = options;
    part.sampler =
        std::make_shared<DistributedSampler>(parts.train->sampler(options, 5), 8, rank, 4);
    part.batch_size = 2;
    DataLoader loader(parts.train, part, {}, 5);
    const std::vector<Batch> own = batches_of(loader, 0);
    for (size_t i = 0; i < own.size(); ++i) {
      EXPECT_EQ(own[i].inputs.size(1), whole[i].inputs.size(1));
      if (whole[i].inputs.size(0) < 8) continue;
      EXPECT_TRUE(test::same_bits(own[i].inputs.contiguous(),
                                  whole[i].inputs.narrow(0, 2 * rank, 2).contiguous()));
    }
  }
}

// Evaluations, and trainings that keep the order of the file, read whole samples in sequence.
TEST_F(LengthGroups, OnlyShuffledTrainingIsGrouped) {
  LabeledText o = texts();
  const Splits parts = o.load(0);
  const DatasetPtr test = parts.test, train = parts.train;
  o.group_by_length = false;
  const Splits plain = o.load(0);
  const struct {
    DatasetPtr set;
    DataLoaderOptions options;
  } rows[] = {{test, {.batch_size = 8, .shuffle = true, .group_by_length = true}},
              {train, {.batch_size = 8, .shuffle = true}},
              {train, {.batch_size = 8, .group_by_length = true}},
              {plain.train, {.batch_size = 8, .shuffle = true, .group_by_length = true}}};
  for (const auto& row : rows) {
    DataLoader loader(row.set, row.options);
    for (const Batch& batch : batches_of(loader, 0)) EXPECT_EQ(batch.inputs.size(1), 32);
  }
}

}  // namespace
}  // namespace taper::v0::data
