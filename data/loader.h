// Batches of a data set, in an order that depends on the seed and the epoch alone.
#pragma once

#include <memory>
#include <optional>

#include "data/dataset.h"

namespace taper::inline v0::data {

// Whether the whole set is copied to the GPU; kAuto: when it takes less than half of the free
// memory.
enum class OnDevice { kAuto, kAlways, kNever };

struct DataLoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;  // as Dataset::sampler() has it
  int64_t batches = 0;   // of an epoch, at most (random windows: exactly); 0: all
  int64_t workers = 0;   // threads that gather batches ahead; 0: none is started
  OnDevice on_device = OnDevice::kAuto;
  std::shared_ptr<const Sampler> sampler{};  // in place of the set's own
};

class DataLoader {
 public:
  // For batches on that device. Those of a set that stays on the CPU are gathered in page-locked
  // memory for a GPU. ValueError: no samples, or options out of range.
  DataLoader(DatasetPtr dataset, const DataLoaderOptions& options, Device device, uint64_t seed);
  ~DataLoader();
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;

  // Goes to a batch, counted from 0, of an epoch: each number has an order of its own. What was
  // gathered ahead is dropped.
  void start(int64_t epoch, int64_t first_batch = 0);
  // The next batch, on the device; none at the epoch's end. The same bytes whatever the number of
  // workers and wherever the set lies. Rethrows what failed in a worker. Needs start() first.
  std::optional<Batch> next();
  int64_t steps_per_epoch() const;
  // Samples in an epoch, as many as its batches hold.
  int64_t samples_per_epoch() const;
  // The whole set lies on the GPU.
  bool is_resident() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace taper::inline v0::data
