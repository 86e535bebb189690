// Batches of a data set, in an order that depends on the seed and the epoch alone.
#pragma once

#include <concepts>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>

#include "data/transforms.h"

namespace taper::v0::data {

// Whether the whole set is copied to the GPU; kAuto: when it takes less than half of the free
// memory.
enum class OnDevice { kAuto, kAlways, kNever };

// torch.utils.data.DataLoader's arguments.
struct DataLoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;  // as Dataset::sampler() has it
  int64_t batches = 0;   // of an epoch, at most (random windows: exactly); 0: all
  int64_t workers = 0;   // threads that gather batches ahead; 0: none is started
  OnDevice on_device = OnDevice::kAuto;
  std::shared_ptr<const Sampler> sampler{};  // in place of the set's own
  bool drop_last = false;                    // leave out a last batch that is not full
  int64_t prefetch = 2;                      // batches ahead, of each worker
  // Makes a batch of samples in place of collate(): pads what differs in size, ... It is called
  // by several threads at a time.
  std::function<Batch(const std::vector<Batch>&)> collate{};
  // Done to each batch: on the CPU by the workers, several at a time; on the GPU once it is there.
  Transform transform{};
};

// Samples in turn, without numbers: the next one, or none at the end
// (torch.utils.data.IterableDataset).
using SampleStream = std::function<std::optional<Batch>()>;

// Goes through a set epoch by epoch (torch.utils.data.DataLoader). Of one thread at a time.
class DataLoader {
 public:
  // For batches on that device. Those of a set that stays on the CPU are gathered in page-locked
  // memory for a GPU. ValueError: no set, no samples, or options out of range.
  DataLoader(DatasetPtr dataset, const DataLoaderOptions& options = {}, Device device = {},
             uint64_t seed = 0);
  template <std::derived_from<Dataset> Set>
  DataLoader(Set set, const DataLoaderOptions& options = {}, Device device = {}, uint64_t seed = 0)
      : DataLoader(std::make_shared<const Set>(std::move(set)), options, device, seed) {}
  // Of streams: open(epoch) begins one, which a single thread reads in turn, whatever the number of
  // workers. ValueError: as above; also shuffle or a sampler.
  DataLoader(std::function<SampleStream(int64_t epoch)> open, const DataLoaderOptions& options = {},
             Device device = {}, uint64_t seed = 0);
  ~DataLoader();
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;

  // Goes to a batch, counted from 0, of an epoch: each number has an order of its own. What was
  // gathered ahead is dropped.
  void start(int64_t epoch, int64_t first_batch = 0);
  // The next batch, on the device; none at the epoch's end. The same bytes whatever the number of
  // workers and wherever the set lies. Rethrows what failed in a worker. Needs start() first.
  std::optional<Batch> next();
  // start() and next() as a range: for (const data::Batch& b : loader.epoch(0)) ... One at a time:
  // its next step after another epoch() or start() of this loader is an Error.
  class Epoch;
  Epoch epoch(int64_t number) &;
  Epoch epoch(int64_t number) && = delete;  // a loop over it would outlive the loader: name that
  void begin() const = delete;              // say which epoch: loader.epoch(0)
  void end() const = delete;
  // Error: the set is a stream, whose length nobody knows.
  int64_t steps_per_epoch() const;
  // Samples in an epoch, as many as its batches hold.
  int64_t samples_per_epoch() const;
  // The whole set lies on the GPU.
  bool is_resident() const;

 private:
  struct State;
  State& state() const;  // Error: moved from
  std::unique_ptr<State> state_;
  int64_t starts_ = 0;
};

// A range that is its own iterator.
class DataLoader::Epoch {
 public:
  explicit Epoch(DataLoader& loader) : loader_(&loader), start_(loader.starts_) {}
  Epoch begin() const { return ++Epoch(*loader_); }
  std::default_sentinel_t end() const { return {}; }
  Epoch& operator++() {
    require(loader_->starts_ == start_,
            "another epoch() of this DataLoader began within this one: ",
            "make a DataLoader for each loop");
    batch_ = loader_->next();
    return *this;
  }
  const Batch& operator*() const { return *batch_; }
  const Batch* operator->() const { return &*batch_; }
  bool operator==(std::default_sentinel_t) const { return !batch_; }

 private:
  DataLoader* loader_;
  int64_t start_;  // of the loader's
  std::optional<Batch> batch_;
};

inline DataLoader::Epoch DataLoader::epoch(int64_t number) & {
  start(number);
  return Epoch(*this);
}

}  // namespace taper::v0::data
