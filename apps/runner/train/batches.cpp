#include "apps/runner/train/batches.h"

#include <memory>
#include <utility>

#include "apps/runner/run/errors.h"
#include "data/sampler.h"
#include "data/transforms.h"
#include "framework/factories.h"

namespace taper::v0::runner {

using distributed::Communicator;

static data::DataLoaderOptions whole_batches(const RunConfig& c, const Shape& sample) {
  data::DataLoaderOptions out{c.train.batch_size, c.train.shuffle, 0, c.data.workers,
                              c.data.on_device};
  if (c.data.transforms.empty()) return out;
  require<ConfigError>(
      sample.size() == 3,
      "data.transforms: these are for images [C, H, W], but samples have the shape ", sample);
  std::vector<std::pair<Component, ImageTransform>> steps;
  for (const Component& row : c.data.transforms) {
    steps.emplace_back(row, image_transforms().make(row));
  }
  out.transform = data::compose([steps](const Tensor& images, data::Draws& draws) {
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

Batches::Batches(const RunConfig& config, const data::Splits& data, const Communicator& ranks)
    : batch_size_(config.train.batch_size) {
  data::DataLoaderOptions options = whole_batches(config, data.input_shape);
  const int n = ranks.size();
  require<ConfigError>(batch_size_ % n == 0, "train.batch_size: ", batch_size_,
                       " is the batch of all ranks together, and no multiple of the ", n,
                       " that were started");
  std::shared_ptr<const data::Sampler> all = data.train->sampler(options, config.seed);
  samples_ = all->size();
  if (n > 1) {
    options.sampler =
        std::make_shared<data::DistributedSampler>(std::move(all), batch_size_, ranks.rank(), n);
    options.batch_size /= n;
    const Batch first = data.train->get(zeros({1}, {.dtype = kInt64}));
    none_ = {first.inputs.narrow(0, 0, 0).to(ranks.device()),
             first.targets.narrow(0, 0, 0).to(ranks.device())};
  }
  loader_.emplace(data.train, options, ranks.device(), config.seed);
}

DataLoader test_batches(const RunConfig& c, const data::Splits& data, const Communicator& ranks) {
  const int64_t batches = c.train.eval_batches;
  data::DataLoaderOptions options{c.train.eval_batch_size, batches > 0, batches, c.data.workers,
                                  c.data.on_device};
  if (const int n = ranks.size(); n > 1) {
    options.sampler = std::make_shared<data::DistributedBatchSampler>(
        data.test->sampler(options, c.seed), options.batch_size, ranks.rank(), n);
  }
  return {data.test, options, ranks.device(), c.seed};
}

}  // namespace taper::v0::runner
