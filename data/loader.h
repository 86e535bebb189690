// Loading of batches in an order that depends only on the seed and the epoch.
#pragma once

#include <concepts>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "data/transforms.h"
#include "framework/base/text_enum.h"

namespace taper::v0::data {

// Whether the whole set is copied to the GPU. kAuto copies it if it needs less than half of the
// free memory.
struct OnDeviceValues {
  enum class Value : uint8_t { kAuto, kAlways, kNever };
  static constexpr Value kAuto = Value::kAuto, kAlways = Value::kAlways, kNever = Value::kNever;
  static constexpr const char* kOption = "on_device";
  static constexpr const char* kWords[] = {"auto", "always", "never"};
};
using OnDevice = TextEnum<OnDeviceValues>;

// Options of a DataLoader, named as in torch.utils.data.DataLoader.
struct DataLoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;  // whether Dataset::sampler() shuffles the samples
  int64_t batches = 0;   // maximum per epoch (for random windows: the exact number); 0: no limit
  int64_t workers = 0;   // threads that prepare batches ahead; 0: none
  OnDevice on_device = OnDevice::kAuto;
  std::shared_ptr<const Sampler> sampler{};  // replaces the set's own sampler
  // For sets that know the lengths of their samples, with shuffle: each batch has samples of
  // similar length, and is cut to the longest (LengthGroupedSampler).
  bool group_by_length = false;
  bool drop_last = false;  // omit the last batch if it is not full
  int64_t prefetch = 2;    // batches that each worker prepares ahead
  // Replaces collate() to combine samples into a batch, for example to pad samples of different
  // sizes. Called by several threads at a time.
  std::function<Batch(const std::vector<Batch>&)> collate{};
  // A function that is applied to each batch: on the CPU by the workers, several at a time; on the
  // GPU after the copy.
  Transform transform{};
};

// A sequence of samples that have no index. Each call returns the next sample, or std::nullopt at
// the end (torch.utils.data.IterableDataset).
using SampleStream = std::function<std::optional<Batch>()>;

// Iterates over a data set epoch by epoch (torch.utils.data.DataLoader). Use it from one thread at
// a time.
class DataLoader {
 public:
  // The loader returns batches on `device`. If the set stays on the CPU, batches for a GPU are
  // prepared in page-locked memory. Throws ValueError for a null set, an empty set, or options out
  // of range.
  DataLoader(DatasetPtr dataset, const DataLoaderOptions& options = {}, Device device = {},
             uint64_t seed = 0);
  template <std::derived_from<Dataset> Set>
  DataLoader(Set set, const DataLoaderOptions& options = {}, Device device = {}, uint64_t seed = 0)
      : DataLoader(std::make_shared<const Set>(std::move(set)), options, device, seed) {}
  // Loads from streams: open(epoch) starts a stream, which a single thread reads in sequence,
  // whatever the number of workers. Throws ValueError like the constructor above, and also if
  // `options` set shuffle or a sampler.
  DataLoader(std::function<SampleStream(int64_t epoch)> open, const DataLoaderOptions& options = {},
             Device device = {}, uint64_t seed = 0);
  ~DataLoader();
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;

  // Moves to the batch `first_batch` of an epoch, counted from 0. Each epoch number has its own
  // order. Batches that were prepared ahead are dropped.
  void start(int64_t epoch, int64_t first_batch = 0);
  // Returns the next batch on the device, or std::nullopt at the end of the epoch. Its bytes do not
  // depend on the number of workers or on the device of the set. Rethrows the exception of a
  // worker. Call start() first.
  std::optional<Batch> next();
  // Returns the batches of an epoch as a range: for (const data::Batch& b : loader.epoch(0)) ... It
  // calls start() and next(). Only one range can be active: continuing it after another epoch() or
  // start() of this loader throws Error.
  class Epoch;
  Epoch epoch(int64_t number) &;
  // the loop would outlive a temporary loader: give it a name
  Epoch epoch(int64_t number) && = delete;
  void begin() const = delete;  // give the epoch: loader.epoch(0)
  void end() const = delete;
  // Throws Error if the set is a stream, whose length is unknown.
  int64_t steps_per_epoch() const;
  // Returns the number of samples in the batches of an epoch.
  int64_t samples_per_epoch() const;
  // Returns the number of the last epoch that was started or restored; 0 before the first.
  int64_t current_epoch() const;

  // Returns the position, as 0-dim int64 tensors: "epoch", and "batch", the number of batches that
  // next() or the loop has returned. Also returns what the order of the samples depends on: "seed",
  // "batch_size", "shuffle", "drop_last", "batches" and "samples" (-1 for streams). Batches that
  // workers have prepared ahead do not count.
  std::vector<NamedTensor> state_dict() const;
  // Restores a position: the next epoch(current_epoch()), or next(), continues after the last batch
  // that was returned. So this loop also continues in the middle of an epoch:
  //   for (int64_t e = loader.current_epoch(); e < epochs; ++e)
  //     for (const data::Batch& batch : loader.epoch(e)) ...
  // Another epoch() throws Error if it would skip the rest of the restored one; start() may go
  // anywhere. Throws ValueError, with the whole list, if this loader has other samples or another
  // order. Does not load any batch yet. A stream is read again from its beginning.
  void load_state_dict(const std::vector<NamedTensor>& state);
  // Returns whether the whole set is on the GPU.
  bool is_resident() const;

 private:
  struct State;
  State& state() const;  // throws Error if this was moved from
  // Starts an epoch, or continues it if it is the one that was restored.
  void start_or_continue(int64_t epoch);
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
  int64_t start_;  // the loader's count of starts
  std::optional<Batch> batch_;
};

inline DataLoader::Epoch DataLoader::epoch(int64_t number) & {
  start_or_continue(number);
  return Epoch(*this);
}

}  // namespace taper::v0::data
