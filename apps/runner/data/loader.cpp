#include "apps/runner/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "autograd/ops/binary.h"
#include "framework/cuda.h"
#include "framework/factories.h"

namespace taper::runner {
namespace {

// Orders are draws of their own, one for each epoch, far from the streams that init and dropout
// take in turn.
constexpr uint64_t kOrderStreams = uint64_t(1) << 62;

bool is_to_move(const Split& split, OnDevice on_device, Device device) {
  if (device.is_cpu() || on_device == OnDevice::kNever) return false;
  if (on_device == OnDevice::kAlways) return true;
  return split.nbytes() < cuda::get_device_properties(device.index()).free_memory / 2;
}

}  // namespace

// Workers claim batches in turn and put batch i into place i % size of a ring, at most its size
// ahead of what was taken; so the order is that of the numbers, whoever is the quickest.
struct Loader::State {
  struct Place {
    std::optional<Batch> batch{};
    std::exception_ptr error{};
  };

  State(const Split& whole, const LoaderOptions& o, Device to, uint64_t s)
      : options(o), device(to), seed(s), is_resident(is_to_move(whole, o.on_device, to)) {
    if (o.batch_size < 1 || o.batches < 0 || o.workers < 0 || whole.size() < 1) {
      throw ValueError(cat("Loader: no batches of ", o.batch_size, " from ", whole.size(),
                           " samples with ", o.workers, " workers"));
    }
    split = is_resident ? whole.to(device) : whole;
  }
  ~State() { stop(); }

  bool draws_windows() const { return split.block > 0 && options.shuffle; }

  int64_t steps() const {
    const int64_t n = split.size(), size = options.batch_size, most = options.batches;
    if (draws_windows()) return most > 0 ? most : std::max<int64_t>(n / size, 1);
    const int64_t all = (n + size - 1) / size;
    return most > 0 ? std::min(most, all) : all;
  }

  int64_t samples() const {
    const int64_t full = steps() * options.batch_size;
    return draws_windows() ? full : std::min(full, split.size());
  }

  Tensor order_of(int64_t epoch) const {
    Generator generator;
    generator.set_state({seed, kOrderStreams + uint64_t(epoch)});
    const TensorOptions here = {.dtype = kInt64, .device = split.inputs.device()};
    if (draws_windows()) return randint(0, split.places(), {samples()}, here, &generator);
    if (options.shuffle) return randperm(split.size(), here, &generator);
    const Tensor numbers = arange(split.size(), here);
    return split.block > 0 ? numbers * split.block : numbers;
  }

  void start(int64_t epoch, int64_t first_batch) {
    stop();
    order = order_of(epoch);
    taken = claimed = first_batch;
    ring.assign(size_t(2 * options.workers), {});
    const int64_t threads = is_resident ? 0 : options.workers;
    try {
      for (int64_t i = 0; i < threads; ++i) workers.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {  // the order of batches does not hang on them
      spdlog::warn("data.workers is {}, but the system gave {} threads: {}", threads,
                   workers.size(), error.what());
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      is_stopping = true;
    }
    changed.notify_all();
    workers.clear();  // joins
    is_stopping = false;
  }

  Batch gather(int64_t i) const {
    const int64_t first = i * options.batch_size;
    const Tensor rows = order.narrow(0, first, std::min(options.batch_size, samples() - first));
    return batch(split, rows, device.is_cuda());
  }

  Place& place_of(int64_t i) { return ring[size_t(i) % ring.size()]; }

  void work() {
    std::optional<cuda::DeviceGuard> guard;  // page-locked memory belongs to a device's context
    if (device.is_cuda()) guard.emplace(device);
    std::unique_lock lock(mutex);
    while (true) {
      const auto has_work = [&] {
        return claimed >= steps() || claimed < taken + std::ssize(ring);
      };
      changed.wait(lock, [&] { return is_stopping || has_work(); });
      if (is_stopping || claimed >= steps()) return;
      const int64_t i = claimed++;
      lock.unlock();
      Place made;
      try {
        made.batch = gather(i);
      } catch (...) {
        made.error = std::current_exception();
      }
      lock.lock();
      place_of(i) = std::move(made);
      changed.notify_all();
    }
  }

  Batch take() {
    if (workers.empty()) return gather(taken++);
    std::unique_lock lock(mutex);
    Place& place = place_of(taken);
    changed.wait(lock, [&] { return place.batch || place.error; });
    const Place out = std::exchange(place, {});
    ++taken;
    lock.unlock();
    changed.notify_all();
    if (out.error) std::rethrow_exception(out.error);
    return *out.batch;
  }

  std::optional<Batch> next() {
    if (!order.defined()) throw Error("Loader::next: call start(epoch) first");
    if (taken >= steps()) return std::nullopt;
    const Batch out = take();
    const auto moved = [&](const Tensor& x) {
      return x.defined() ? x.to(device, {.non_blocking = true}) : x;
    };
    return Batch{moved(out.inputs), moved(out.targets)};
  }

  LoaderOptions options;
  Device device;
  uint64_t seed;
  bool is_resident;
  Split split;
  Tensor order;  // of the epoch, where the split lies

  std::mutex mutex;  // of all below while workers run
  std::condition_variable changed;
  std::vector<Place> ring;
  int64_t taken = 0, claimed = 0;
  bool is_stopping = false;
  std::vector<std::jthread> workers;
};

Loader::Loader(const Split& split, const LoaderOptions& options, Device device, uint64_t seed)
    : state_(std::make_unique<State>(split, options, device, seed)) {}
Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;

void Loader::start(int64_t epoch, int64_t first_batch) { state_->start(epoch, first_batch); }
std::optional<Batch> Loader::next() { return state_->next(); }
int64_t Loader::steps_per_epoch() const { return state_->steps(); }
int64_t Loader::samples_per_epoch() const { return state_->samples(); }
bool Loader::is_resident() const { return state_->is_resident; }

}  // namespace taper::runner
