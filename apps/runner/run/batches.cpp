#include "apps/runner/run/batches.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "apps/runner/base/errors.h"
#include "apps/runner/components/components.h"
#include "apps/runner/components/normalized_source.h"
#include "data/images/image_encoding.h"
#include "data/images/image_transforms.h"
#include "data/sampler.h"
#include "data/transforms.h"
#include "framework/factory/factories.h"

namespace taper::v0::runner {

using distributed::Communicator;

namespace {

// Returns the function of an entry of data.transforms.
data::Transform transform_of(const Component& row, const DataInfo& data) {
  if (const auto* mixup = row.get_if<data::MixupOptions>()) {
    return data::Mixup{.num_classes = data.outputs, .alpha = mixup->alpha};
  }
  return data::compose(image_transforms().make(row));
}

// The transforms of training images in their order. `before` are those of images in [0, 1], and
// `after` those of normalized images.
struct TrainTransforms {
  using Steps = std::vector<std::pair<Component, data::Transform>>;

  Steps before{}, after{};
  data::NormalizeOptions normalize{};  // empty: no normalization

  Batch operator()(const Batch& batch, data::SampleRng& draws) const {
    Batch out = batch;
    const bool is_undone = !normalize.mean.empty() && !before.empty();
    if (is_undone) out.inputs = data::denormalize_channels(out.inputs, normalize);
    out = applied(before, std::move(out), draws);
    if (is_undone) out.inputs = data::normalize_channels(out.inputs, normalize);
    return applied(after, std::move(out), draws);
  }

 private:
  static Batch applied(const Steps& steps, Batch batch, data::SampleRng& draws) {
    for (const auto& [row, step] : steps) {
      try {
        batch = step(batch, draws);
      } catch (const std::exception& error) {
        image_transforms().refuse_call(row, error);
        throw;
      }
    }
    return batch;
  }
};

TrainTransforms train_transforms(const std::vector<Component>& rows, const DataInfo& data) {
  TrainTransforms out;
  const size_t at = find_normalize(rows);
  if (at < rows.size()) out.normalize = *rows[at].get_if<data::NormalizeOptions>();
  if (data.images) out.normalize = {data.images->mean, data.images->std};
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i == at) continue;
    (i < at ? out.before : out.after).emplace_back(rows[i], transform_of(rows[i], data));
  }
  return out;
}

data::DataLoaderOptions whole_batches(const RunConfig& c, const DataInfo& data) {
  data::DataLoaderOptions out{.batch_size = c.train.batch_size,
                              .shuffle = c.train.shuffle,
                              .workers = c.data.workers,
                              .on_device = c.data.on_device,
                              .group_by_length = pays_for_padding(c.model),
                              .drop_last = c.train.drop_last};
  if (c.data.transforms.empty()) return out;
  require<ConfigError>(data.input_shape.size() == 3,
                       "data.transforms: expected images [C, H, W], got samples of shape ",
                       data.input_shape);
  out.transform = train_transforms(c.data.transforms, data);
  return out;
}

}  // namespace

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
  data::DataLoaderOptions options = whole_batches(config, data);
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
