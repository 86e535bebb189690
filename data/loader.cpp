#include "data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "framework/cuda.h"
#include "framework/hooks.h"

namespace taper::inline v0::data {
namespace {

bool is_to_move(const Dataset& dataset, OnDevice on_device, Device device) {
  if (device.is_cpu() || on_device == OnDevice::kNever) return false;
  if (on_device == OnDevice::kAlways) return true;
  return dataset.nbytes() < cuda::get_device_properties(device.index()).free_memory / 2;
}

}  // namespace

// Workers claim batches in turn and put batch i into place i % size of a ring, at most its size
// ahead of what was taken; so the order is that of the numbers, whoever is the quickest.
struct DataLoader::State {
  State(DatasetPtr whole, const DataLoaderOptions& o, Device to, uint64_t seed)
      : options(o), device(to), dataset(std::move(whole)) {
    if (o.batch_size < 1 || o.batches < 0 || o.workers < 0 || dataset->size() < 1) {
      throw ValueError(cat("DataLoader: no batches of ", o.batch_size, " from ", dataset->size(),
                           " samples with ", o.workers, " workers"));
    }
    sampler = o.sampler ? o.sampler : dataset->sampler(o, seed);
    if (!is_to_move(*dataset, o.on_device, device)) return;
    if (DatasetPtr moved = dataset->to(device)) dataset = std::move(moved);
  }

  bool is_resident() const { return dataset->device().is_cuda(); }

  int64_t steps() const {
    const int64_t all = (sampler->size() + options.batch_size - 1) / options.batch_size;
    return options.batches > 0 ? std::min(options.batches, all) : all;
  }

  int64_t samples() const { return std::min(steps() * options.batch_size, sampler->size()); }

  void start(int64_t epoch, int64_t first_batch) {
    stop();
    order = sampler->order(epoch, dataset->device());
    taken = claimed = first_batch;
    ring = std::vector<std::future<Batch>>(size_t(2 * options.workers));
    const int64_t threads = is_resident() ? 0 : options.workers;
    try {
      for (int64_t i = 0; i < threads; ++i) {
        workers.emplace_back([this](const std::stop_token& stop) { work(stop); });
      }
    } catch (const std::system_error& error) {  // the order of batches does not hang on them
      warn(cat("data.workers is ", threads, ", but the system gave ", workers.size(),
               " threads: ", error.what()));
    }
  }

  void stop() {
    for (std::jthread& worker : workers) worker.request_stop();
    workers.clear();  // joins
  }

  Batch gather(int64_t i) const {
    const int64_t first = i * options.batch_size;
    const Tensor rows = order.narrow(0, first, std::min(options.batch_size, samples() - first));
    return dataset->get(rows, device.is_cuda());
  }

  std::future<Batch>& place_of(int64_t i) { return ring[size_t(i) % ring.size()]; }

  void work(const std::stop_token& stop) {
    std::optional<cuda::DeviceGuard> guard;  // page-locked memory belongs to a device's context
    if (device.is_cuda()) guard.emplace(device);
    const auto has_work = [&] { return claimed >= steps() || claimed < taken + std::ssize(ring); };
    std::unique_lock lock(mutex);
    while (changed.wait(lock, stop, has_work) && !stop.stop_requested() && claimed < steps()) {
      std::packaged_task<Batch()> task([this, i = claimed] { return gather(i); });
      place_of(claimed++) = task.get_future();
      lock.unlock();
      changed.notify_all();
      task();
      lock.lock();
    }
  }

  Batch take() {
    if (workers.empty()) return gather(taken++);
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return claimed > taken; });
    std::future<Batch> batch = std::move(place_of(taken++));
    lock.unlock();
    changed.notify_all();
    return batch.get();  // or throws what its worker met
  }

  std::optional<Batch> next() {
    if (!order.defined()) throw Error("DataLoader::next: call start(epoch) first");
    if (taken >= steps()) return std::nullopt;
    const Batch out = take();
    const auto moved = [&](const Tensor& x) {
      return x.defined() ? x.to(device, {.non_blocking = true}) : x;
    };
    return Batch{moved(out.inputs), moved(out.targets)};
  }

  DataLoaderOptions options;
  Device device;
  DatasetPtr dataset;
  std::shared_ptr<const Sampler> sampler;
  Tensor order;  // of the epoch, where the set lies

  std::mutex mutex;  // of all below while workers run
  std::condition_variable_any changed;
  std::vector<std::future<Batch>> ring;
  int64_t taken = 0, claimed = 0;
  std::vector<std::jthread> workers;  // the last: they stop before the rest goes
};

DataLoader::DataLoader(DatasetPtr dataset, const DataLoaderOptions& options, Device device,
                       uint64_t seed)
    : state_(std::make_unique<State>(std::move(dataset), options, device, seed)) {}
DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;

void DataLoader::start(int64_t epoch, int64_t first_batch) { state_->start(epoch, first_batch); }
std::optional<Batch> DataLoader::next() { return state_->next(); }
int64_t DataLoader::steps_per_epoch() const { return state_->steps(); }
int64_t DataLoader::samples_per_epoch() const { return state_->samples(); }
bool DataLoader::is_resident() const { return state_->is_resident(); }

}  // namespace taper::inline v0::data
