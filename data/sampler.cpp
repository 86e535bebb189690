#include "data/sampler.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"

namespace taper::v0::data {
namespace {

// Returns the samples of a batch for each rank. Checks the arguments before anything is divided by
// them.
int64_t part_of_batch(int64_t batch_size, int rank, int ranks) {
  if (rank >= 0 && rank < ranks && batch_size >= 1 && batch_size % ranks == 0) {
    return batch_size / ranks;
  }
  throw ValueError("DistributedSampler: a batch of ", batch_size,
                   " samples is not cut into equal parts for ", ranks, " ranks (rank ", rank, ")");
}
int64_t whole_batch(int64_t batch_size, int rank, int ranks) {
  if (rank >= 0 && rank < ranks && batch_size >= 1) return batch_size;
  throw ValueError("DistributedBatchSampler: no batches of ", batch_size, " for rank ", rank,
                   " of ", ranks);
}

}  // namespace

Generator draws_of(uint64_t seed, int64_t epoch) {
  constexpr uint64_t kOrderStreams = uint64_t(1) << 62;
  Generator generator;
  generator.set_state({seed, kOrderStreams + uint64_t(epoch)});
  return generator;
}

Tensor SequentialSampler::order(int64_t, Device device) const {
  const Tensor numbers = arange(size_, {.dtype = kInt64, .device = device});
  return step_ == 1 ? numbers : numbers * step_;
}

Tensor RandomSampler::order(int64_t epoch, Device device) const {
  Generator generator = draws_of(seed_, epoch);
  const TensorOptions here = {.dtype = kInt64, .device = device};
  if (replaced_ > 0) return randint(0, rows_, {replaced_}, here, &generator);
  return randperm(rows_, here, &generator);
}

WeightedRandomSampler::WeightedRandomSampler(const std::vector<double>& weights, IntArg num_samples,
                                             BoolArg replacement, uint64_t seed)
    : weights_(tensor_of(weights.data(), {std::ssize(weights)})),
      samples_(num_samples),
      replacement_(replacement),
      seed_(seed) {
  const auto is_bad = [](double w) { return !(w >= 0 && std::isfinite(w)); };
  const auto zeros = std::ranges::count(weights, 0.0);
  require<ValueError>(
      num_samples >= 1,
      "num_samples should be a positive integer value, but got num_samples=", num_samples);
  require<ValueError>(!std::ranges::any_of(weights, is_bad) && zeros != std::ssize(weights) &&
                          (replacement || num_samples <= std::ssize(weights) - zeros),
                      "WeightedRandomSampler: ", num_samples, " samples cannot be drawn ",
                      replacement ? "with" : "without", " replacement by ", weights.size(),
                      " weights, ", zeros,
                      " of them 0; they must be finite, not negative and not all 0");
}

Tensor WeightedRandomSampler::order(int64_t epoch, Device device) const {
  Generator generator = draws_of(seed_, epoch);
  return multinomial(weights_, samples_, replacement_, &generator).to(device);
}

RankSampler::RankSampler(std::shared_ptr<const Sampler> all, int64_t part, int rank, int ranks)
    : all_(std::move(all)), part_(part), rank_(rank), ranks_(ranks) {
  rounds_ = all_->size() / (part * ranks);
  rest_ = all_->size() % (part * ranks);
}

Tensor RankSampler::order(int64_t epoch, Device device) const {
  const Tensor order = all_->order(epoch, device);
  const int64_t whole = rounds_ * ranks_ * part_;
  const Tensor parts = order.narrow(0, 0, whole).view({rounds_, ranks_, part_}).select(1, rank_);
  const Tensor rest = order.narrow(0, whole + rest_begin_, rest_end_ - rest_begin_);
  return cat(std::vector<Tensor>{parts.flatten(), rest});
}

DistributedSampler::DistributedSampler(std::shared_ptr<const Sampler> all, int64_t batch_size,
                                       int rank, int ranks)
    : RankSampler(std::move(all), part_of_batch(batch_size, rank, ranks), rank, ranks) {
  rest_begin_ = rest_ * rank / ranks;
  rest_end_ = rest_ * (rank + 1) / ranks;
}

std::vector<int64_t> DistributedSampler::batch_lengths(int64_t epoch, int64_t batch_size) const {
  if (batch_size != part_) return {};
  return all_->batch_lengths(epoch, batch_size * ranks_);
}

DistributedBatchSampler::DistributedBatchSampler(std::shared_ptr<const Sampler> all,
                                                 int64_t batch_size, int rank, int ranks)
    : RankSampler(std::move(all), whole_batch(batch_size, rank, ranks), rank, ranks) {
  rest_begin_ = std::min(rest_, batch_size * rank);
  rest_end_ = std::min(rest_, batch_size * (rank + 1));
}

}  // namespace taper::v0::data
