#include "apps/runner/train/batches.h"

#include <memory>
#include <utility>

#include "apps/runner/run/errors.h"
#include "data/sampler.h"
#include "data/transforms.h"
#include "framework/factories.h"

namespace taper::inline v0::runner {
namespace {

data::DataLoaderOptions whole_batches(const RunConfig& c, const Shape& sample) {
  data::DataLoaderOptions out{c.train.batch_size, c.train.shuffle, 0, c.data.workers,
                              c.data.on_device};
  if (c.data.transforms.empty()) return out;
  if (sample.size() != 3) {
    throw ConfigError(
        cat("data.transforms: these are for images [C, H, W], but samples have the "
            "shape ",
            sample));
  }
  std::vector<ImageTransform> steps;
  for (const Component& row : c.data.transforms) steps.push_back(image_transforms().make(row));
  out.transform = data::compose([steps](const Tensor& images, data::Draws& draws) {
    Tensor x = images;
    for (const ImageTransform& step : steps) x = step(x, draws);
    return x;
  });
  return out;
}

}  // namespace

// Of all ranks, and this rank's part of it.
struct Batches::Order {
  Order(const RunConfig& c, const data::Splits& data, const distributed::Communicator& ranks)
      : options(whole_batches(c, data.input_shape)) {
    const int n = ranks.size();
    if (options.batch_size % n != 0) {
      throw ConfigError(cat("train.batch_size: ", options.batch_size,
                            " is the batch of all ranks together, and no multiple of the ", n,
                            " that were started"));
    }
    std::shared_ptr<const data::Sampler> all = data.train->sampler(options, c.seed);
    samples = all->size();
    if (n == 1) return;
    options.sampler = std::make_shared<data::DistributedSampler>(std::move(all), options.batch_size,
                                                                 ranks.rank(), n);
    options.batch_size /= n;
  }

  data::DataLoaderOptions options;
  int64_t samples;
};

Batches::Batches(const RunConfig& config, const data::Splits& data, Device device,
                 const distributed::Communicator& ranks)
    : Batches(config, data, device, ranks, Order(config, data, ranks)) {}

Batches::Batches(const RunConfig& config, const data::Splits& data, Device device,
                 const distributed::Communicator& ranks, const Order& order)
    : batch_size_(config.train.batch_size),
      samples_(order.samples),
      loader_(data.train, order.options, device, config.seed) {
  if (ranks.size() == 1) return;
  const Batch first = data.train->get(zeros({1}, {.dtype = kInt64}));
  none_ = {first.inputs.narrow(0, 0, 0).to(device), first.targets.narrow(0, 0, 0).to(device)};
}

void Batches::start(int64_t epoch, int64_t first_batch) { loader_.start(epoch, first_batch); }

Batch Batches::next() { return loader_.next().value_or(none_); }

}  // namespace taper::inline v0::runner
