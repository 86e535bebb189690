// Batches of one split, in an order that depends on the seed and the epoch alone.
#pragma once

#include <memory>
#include <optional>

#include "apps/runner/data/dataset.h"

namespace taper::runner {

struct LoaderOptions {
  int64_t batch_size = 1;
  // Off: samples in their order. On: each once an epoch, in another order; of a text as many
  // windows at random offsets, with replacement as nanoGPT draws them, all batches full.
  bool shuffle = false;
  int64_t batches = 0;  // of an epoch, at most (random windows: exactly); 0: all
  int64_t workers = 0;  // threads that gather batches ahead; 0: none is started
  OnDevice on_device = OnDevice::kAuto;
};

class Loader {
 public:
  // Copies the whole split to a GPU where `on_device` says so; kAuto: when it takes less than half
  // of the free memory. Otherwise batches are gathered in page-locked memory. ValueError: no
  // samples, or options out of range.
  Loader(const Split& split, const LoaderOptions& options, Device device, uint64_t seed);
  ~Loader();
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  // Goes to a batch, counted from 0, of an epoch: each number has an order of its own. What was
  // gathered ahead is dropped.
  void start(int64_t epoch, int64_t first_batch = 0);
  // The next batch, on the device; none at the epoch's end. The same bytes whatever the number of
  // workers and wherever the split lies. Rethrows what failed in a worker. Needs start() first.
  std::optional<Batch> next();
  int64_t steps_per_epoch() const;
  // Samples in an epoch, as many as its batches hold.
  int64_t samples_per_epoch() const;
  // The whole split lies on the GPU.
  bool is_resident() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace taper::runner
