#include "apps/runner/passes/micro_batches.h"

#include <algorithm>

#include "apps/runner/base/errors.h"
#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/base/philox.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"

namespace taper::v0::runner {
namespace {

// The number of random streams reserved for one step.
constexpr uint64_t kStreamsPerStep = uint64_t(1) << 32;

// Returns the seed of a part's generator. Parts have different seeds on all ranks, so they never
// share a stream.
uint64_t seed_of_part(uint64_t seed, int64_t part) {
  const Philox4 r = philox({seed, uint64_t(part)}, UINT64_MAX);
  return uint64_t(r.word[0]) << 32 | r.word[1];
}

// Returns the sum of the weights, or the number of tokens that are learned from, 0-dim float32.
Tensor total_of(const Tensor& targets, const Tensor& weights) {
  if (weights.defined()) return sum(weights);
  return sum(ne(targets, data::kIgnoredTarget)).to(kFloat32);
}

// Returns the weights of the samples; undefined if all are 1.
Tensor weights_of(const Batch& batch) { return batch.others.empty() ? Tensor() : batch.others[0]; }

// The buffers of a model in a step of several parts. Each part begins with the values from before
// the step. After the step, each floating-point buffer is changed by the mean of its changes in the
// parts, weighted by their numbers of samples. An integer buffer (such as the number of batches
// seen) gets the value of the last part.
class RunningStatistics {
 public:
  // parts: number of parts on all ranks; parts_here: number of parts on this rank.
  RunningStatistics(Module& model, int64_t parts, int64_t parts_here);
  // Records the changes that part i of this rank made to the buffers, and restores the values from
  // before the step. share: the part's share of the step's samples.
  void end_part(int64_t i, double share);
  // Applies the changes of all parts. Every rank calls it.
  void join(const Communicator& ranks);

 private:
  std::vector<Tensor> values_, counts_, before_, counts_before_;
  Tensor changes_, all_changes_;  // [parts, elements of values]
  int64_t parts_here_;
};

RunningStatistics::RunningStatistics(Module& model, int64_t parts, int64_t parts_here)
    : parts_here_(parts_here) {
  const NoGradGuard no_grad;
  int64_t numel = 0;
  for (const NamedTensor& b : model.named_buffers()) {
    const bool is_value = b.tensor.is_floating_point();
    (is_value ? values_ : counts_).push_back(b.tensor);
    (is_value ? before_ : counts_before_).push_back(b.tensor.clone());
    if (is_value) numel += b.tensor.numel();
  }
  if (values_.empty()) return;
  const Device device = values_[0].device();
  changes_ = zeros({parts_here, numel}, {.device = device});
  all_changes_ = zeros({parts, numel}, {.device = device});
}

void RunningStatistics::end_part(int64_t i, double share) {
  const NoGradGuard no_grad;
  std::vector<Tensor> moved;
  for (size_t b = 0; b < values_.size(); ++b) {
    moved.push_back((values_[b] - before_[b]).to(kFloat32).flatten());
    values_[b].copy_(before_[b]);
  }
  if (!moved.empty()) changes_.select(0, i).copy_(cat(moved) * share);
  for (size_t b = 0; i + 1 < parts_here_ && b < counts_.size(); ++b) {
    counts_[b].copy_(counts_before_[b]);
  }
}

void RunningStatistics::join(const Communicator& ranks) {
  const NoGradGuard no_grad;
  if (!values_.empty()) {
    ranks.all_gather(all_changes_, changes_).wait();
    const Tensor change = sum(all_changes_, {0});
    int64_t from = 0;
    for (const Tensor& value : values_) {
      value.add_(change.narrow(0, from, value.numel()).view(value.shape()).to(value.dtype()));
      from += value.numel();
    }
  }
  if (counts_.empty()) return;
  ranks.broadcast(counts_, std::vector<int>(counts_.size(), ranks.size() - 1)).wait();
}

}  // namespace

Tensor MicroBatch::share_of_mean(const Tensor& loss) const {
  if (step_total.defined()) return loss * (total_of(targets, weights) / step_total * num_ranks);
  return weight == 1 ? loss : loss * weight;
}

MicroBatches::MicroBatches(const RunConfig& config, const DataInfo& data, const Batches& loader,
                           Module& model, const Communicator& ranks)
    : config_(config),
      data_(data),
      loader_(loader),
      model_(model),
      ranks_(ranks),
      all_parts_(config.train.shards.value_or(ranks.size())),
      parts_(all_parts_ / ranks.size()),
      first_part_(parts_ * ranks.rank()) {
  require<ConfigError>(all_parts_ % ranks.size() == 0, "train.shards: ", all_parts_,
                       " is not a multiple of the ", ranks.size(), " ranks that were started");
}

void MicroBatches::begin() {
  if (all_parts_ == 1) return;
  const DistributedConfig& c = config_.distributed;
  DataParallelOptions options{.bucket_bytes = c.bucket_mb << 20};
  if (c.reduce == Reduce::kBf16) options.reduce_dtype = kBFloat16;
  if (config_.train.shards) {
    options.order = ReduceOrder::kTree;
    options.shards = int(all_parts_);
  }
  parallel_.emplace(model_, ranks_, options);
}

bool MicroBatches::share_buffers() {
  if (!parallel_ || config_.train.shards) return false;
  parallel_->broadcast_buffers();
  return true;
}

// --- sizes ---

int64_t MicroBatches::batches_from(int64_t batch) const {
  return std::min(config_.train.accumulate, loader_.steps_per_epoch() - batch);
}

int64_t MicroBatches::samples_from(int64_t batch) const {
  const int64_t size = config_.train.batch_size;
  return std::min(batches_from(batch) * size, loader_.samples_per_epoch() - batch * size);
}

// Returns the index at which part `part` of this rank begins among this rank's samples of a batch.
// batch: the number of the batch in the epoch.
int64_t MicroBatches::begin_of(int64_t part, int64_t batch) const {
  const int64_t size = config_.train.batch_size;
  const int64_t samples = std::min(size, loader_.samples_per_epoch() - batch * size);
  return begin_of_part(samples, first_part_ + part, all_parts_) -
         begin_of_part(samples, first_part_, all_parts_);
}

// Returns the share of the step's samples that belong to a part of this rank.
double MicroBatches::share_of(int64_t part, int64_t first) const {
  int64_t samples = 0;
  for (int64_t i = first; i < first + batches_from(first); ++i) {
    samples += begin_of(part + 1, i) - begin_of(part, i);
  }
  return double(samples) / double(samples_from(first));
}

// --- the micro-batches of a step ---

Tensor MicroBatches::run(int64_t first, const NextBatch& next, const TrainOn& train_on) {
  const StepBatches step = load(first, next);
  if (!parallel_) return run_part(0, step, next, train_on);
  // Each part draws its own random numbers and starts from the running statistics before the step.
  // So the result does not depend on the rank that computes it.
  Generator& generator = default_generator();
  const PhiloxKey start = generator.state();
  std::optional<RunningStatistics> statistics;
  if (config_.train.shards) statistics.emplace(model_, all_parts_, parts_);
  const Tensor losses = zeros({parts_}, {.device = ranks_.device()});
  for (int64_t p = 0; p < parts_; ++p) {
    Generator own;
    own.set_state({seed_of_part(start.seed, first_part_ + p), start.stream, start.base});
    const DrawGuard draws(own);
    losses.select(0, p).copy_(run_part(p, step, next, train_on));
    if (statistics) statistics->end_part(p, share_of(p, first));
  }
  generator.set_state({start.seed, start.stream + kStreamsPerStep, start.base});
  if (statistics) statistics->join(ranks_);
  return losses;
}

Tensor MicroBatches::mean_loss(const Tensor& losses) const {
  if (!parallel_) return losses;
  const Tensor all = zeros({all_parts_}, {.device = ranks_.device()});
  ranks_.all_gather(all, losses).wait();
  return config_.train.shards ? sum(all) : mean(all);
}

// Loads all batches of the step in advance if they are cut into parts, or if the total of all of
// them is needed: sequences of a text (data.lines) are weighted by their tokens.
MicroBatches::StepBatches MicroBatches::load(int64_t first, const NextBatch& next) const {
  const int64_t batches = batches_from(first);
  const bool is_weighted = data_.lines || data_.has_weights;
  const bool by_total = is_weighted && (batches > 1 || all_parts_ > 1);
  StepBatches step{first};
  while ((by_total || parts_ > 1) && std::ssize(step.loaded) < batches) {
    step.loaded.push_back(next());
    if (!by_total) continue;
    const Tensor n = total_of(step.loaded.back().targets, weights_of(step.loaded.back()));
    step.total = step.total.defined() ? step.total + n : n;
  }
  if (parallel_ && by_total) ranks_.all_reduce(step.total).wait();
  constexpr double kTiny = 1e-30;  // all weights of a step may be 0
  if (by_total) step.total = clamp(step.total, kTiny);
  return step;
}

// Returns the contribution of a part to the mean loss of the step.
Tensor MicroBatches::run_part(int64_t part, const StepBatches& step, const NextBatch& next,
                              const TrainOn& train_on) {
  const int64_t batches = batches_from(step.first);
  Tensor total;
  for (int64_t i = 0; i < batches; ++i) {
    const Batch batch = step.loaded.empty() ? next() : slice(step, i, part);
    // The last backward pass of this rank reduces the gradients over the ranks.
    const bool is_last = part + 1 == parts_ && i + 1 == batches;
    std::optional<DataParallel::NoSyncGuard> no_sync;
    if (parallel_ && !is_last) no_sync.emplace(*parallel_);
    if (batch.inputs.size(0) == 0) {
      parallel_->skip_leaf();
      continue;
    }
    const Tensor loss = train_on(weighted(batch, step));
    total = total.defined() ? total + loss : loss;
  }
  return total.defined() ? total : zeros({}, {.device = ranks_.device()});
}

// Returns the samples of a part of this rank from the i-th batch of the step.
Batch MicroBatches::slice(const StepBatches& step, int64_t i, int64_t part) const {
  const Batch& batch = step.loaded[size_t(i)];
  if (parts_ == 1) return batch;
  const int64_t from = begin_of(part, step.first + i),
                n = begin_of(part + 1, step.first + i) - from;
  // The samples are copied, because the alignment of memory may decide how a product is computed.
  const auto samples_of = [&](const Tensor& x) { return x.narrow(0, from, n).clone(); };
  return batch.map(samples_of);
}

MicroBatch MicroBatches::weighted(const Batch& batch, const StepBatches& step) const {
  // Gradients are averaged over ranks, but summed over shards.
  const double num_ranks = config_.train.shards ? 1 : double(ranks_.size());
  const double samples = double(batch.inputs.size(0)) * num_ranks;
  return {batch.inputs,
          batch.targets,
          data_.has_weights ? weights_of(batch) : Tensor(),
          samples / double(samples_from(step.first)),
          step.total,
          num_ranks};
}

}  // namespace taper::v0::runner
