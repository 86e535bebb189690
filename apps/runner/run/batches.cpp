#include "apps/runner/run/batches.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "apps/runner/base/errors.h"
#include "data/sampler.h"
#include "data/transforms.h"
#include "framework/factory/factories.h"

namespace taper::v0::runner {

using distributed::Communicator;

static data::DataLoaderOptions whole_batches(const RunConfig& c, const Shape& sample) {
  data::DataLoaderOptions out{.batch_size = c.train.batch_size,
                              .shuffle = c.train.shuffle,
                              .workers = c.data.workers,
                              .on_device = c.data.on_device,
                              .drop_last = c.train.drop_last};
  if (c.data.transforms.empty()) return out;
  require<ConfigError>(sample.size() == 3,
                       "data.transforms: expected images [C, H, W], got samples of shape ", sample);
  std::vector<std::pair<Component, ImageTransform>> steps;
  for (const Component& row : c.data.transforms) {
    steps.emplace_back(row, image_transforms().make(row));
  }
  out.transform = data::compose([steps](const Tensor& images, data::SampleRng& draws) {
    Tensor x = images;
    for (const auto& [row, step] : steps) {
      try {
        x = step(x, draws);
      } catch (const std::exception& error) {
        image_transforms().refuse_call(row, error);
        throw;
      }
    }
    return x;
  });
  return out;
}

int64_t eval_batch_size_of(const RunConfig& config, const DataInfo& data, int64_t ranks) {
  constexpr int64_t kMost = 1024;
  const TrainConfig& c = config.train;
  if (c.eval_batch_size) return *c.eval_batch_size;
  if (data.vocab_size() == 0) return kMost;
  return std::max<int64_t>(1, c.batch_size / c.shards.value_or(ranks));
}

RunSizes run_sizes(const RunConfig& config, const data::Splits& data, int64_t ranks) {
  const TrainConfig& c = config.train;
  RunSizes out{.eval_batch_size = eval_batch_size_of(config, data, ranks), .ranks = ranks};
  const data::DataLoaderOptions train{.batch_size = c.batch_size, .shuffle = c.shuffle};
  const int64_t samples = data.train->sampler(train, config.seed)->size();
  out.train_samples = c.drop_last ? samples - samples % c.batch_size : samples;
  if (c.drop_last && out.train_samples == 0) {
    throw ConfigError(located(
        place_of(config, "train.drop_last"),
        concat_to_string("train.drop_last: leaves no batch, because the ", samples,
                         " training samples are fewer than train.batch_size, ", c.batch_size)));
  }
  const data::DataLoaderOptions eval{out.eval_batch_size, c.eval_batches > 0, c.eval_batches};
  out.eval_samples = data.evaluated()->sampler(eval, config.seed)->size();
  if (c.eval_batches > 0) {
    out.eval_samples = std::min(out.eval_samples, c.eval_batches * out.eval_batch_size);
  }
  if (data.validation) out.test_samples = data.test->size();
  return out;
}

Batches::Batches(const RunConfig& config, const data::Splits& data, const Communicator& ranks)
    : batch_size_(config.train.batch_size),
      samples_(run_sizes(config, data, ranks.size()).train_samples) {
  data::DataLoaderOptions options = whole_batches(config, data.input_shape);
  const int n = ranks.size();
  require<ConfigError>(batch_size_ % n == 0, "train.batch_size: ", batch_size_,
                       " is divided among all ranks, but is not a multiple of the ", n,
                       " ranks that were started");
  if (n > 1) {
    options.sampler = std::make_shared<data::DistributedSampler>(
        data.train->sampler(options, config.seed), batch_size_, ranks.rank(), n);
    options.batch_size /= n;
    const Batch first = data.train->get(zeros({1}, {.dtype = kInt64}));
    empty_ = first.map([&](const Tensor& x) { return x.narrow(0, 0, 0).to(ranks.device()); });
  }
  loader_.emplace(data.train, options, ranks.device(), config.seed);
}

// Returns a loader for one part of the data. It draws `batches` random batches, or reads the whole
// part in sequence if `batches` is 0.
static DataLoader part_batches(const RunConfig& c, const data::Splits& data,
                               const data::DatasetPtr& part, int64_t batches,
                               const Communicator& ranks) {
  data::DataLoaderOptions options{eval_batch_size_of(c, data, ranks.size()), batches > 0, batches,
                                  c.data.workers, c.data.on_device};
  if (const int n = ranks.size(); n > 1) {
    options.sampler = std::make_shared<data::DistributedBatchSampler>(
        part->sampler(options, c.seed), options.batch_size, ranks.rank(), n);
  }
  return {part, options, ranks.device(), c.seed};
}

DataLoader eval_batches(const RunConfig& c, const data::Splits& data, const Communicator& ranks) {
  return part_batches(c, data, data.evaluated(), c.train.eval_batches, ranks);
}

DataLoader test_batches(const RunConfig& c, const data::Splits& data, const Communicator& ranks) {
  return part_batches(c, data, data.test, 0, ranks);
}

DataLoader validation_batches(const RunConfig& c, const data::Splits& data,
                              const Communicator& ranks) {
  return part_batches(c, data, data.validation, 0, ranks);
}

}  // namespace taper::v0::runner
