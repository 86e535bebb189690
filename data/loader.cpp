#include "data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "autograd/node.h"
#include "autograd/ops/shape_ops.h"
#include "framework/base/log.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"

namespace taper::v0::data {
namespace {

bool is_to_move(const Dataset& dataset, OnDevice on_device, Device device) {
  if (device.is_cpu() || on_device == OnDevice::kNever) return false;
  if (on_device == OnDevice::kAlways) return true;
  return dataset.nbytes() < cuda::get_device_properties(device.index()).free_memory / 2;
}

}  // namespace

// Workers claim batches in order and put batch i into slot i % size of a ring, at most `size`
// batches ahead of the consumer. The consumer therefore gets the batches in order, whichever worker
// is faster.
struct DataLoader::State {
  State(DatasetPtr whole, std::function<SampleStream(int64_t)> streams, const DataLoaderOptions& o,
        Device to, uint64_t seeds)
      : options(o), device(to), seed(seeds), dataset(std::move(whole)), open(std::move(streams)) {
    require<ValueError>(dataset || open, "DataLoader: expected a data set, got nullptr");
    const int64_t samples = dataset ? dataset->size() : 1;
    const auto check = [](const char* what, int64_t value, int64_t least) {
      if (value >= least) return;
      throw ValueError("DataLoader: expected ", what, " of at least ", least, ", got ", value);
    };
    check("batch_size", o.batch_size, 1);
    check("batches", o.batches, 0);
    check("workers", o.workers, 0);
    check("prefetch", o.prefetch, 1);
    check("a data set with a size", samples, 1);
    if (open) {
      options.workers = std::min<int64_t>(o.workers, 1);
      if (!o.shuffle && !o.sampler) return;
      throw ValueError(
          "DataLoader of streams: ", o.shuffle ? "shuffle" : "sampler",
          " is set, but the order of samples is that of the stream; leave the option out");
    }
    sampler = o.sampler ? o.sampler : dataset->sampler(o, seed);
    if (o.collate || !is_to_move(*dataset, o.on_device, device)) return;
    if (DatasetPtr moved = dataset->to(device)) dataset = std::move(moved);
  }

  bool is_resident() const { return dataset && dataset->device().is_cuda(); }

  int64_t steps() const {
    if (open) throw Error("DataLoader: nobody knows the length of a stream");
    const int64_t b = options.batch_size, part = options.drop_last ? 0 : b - 1;
    return std::min(most(), (sampler->size() + part) / b);
  }
  int64_t most() const {
    return options.batches > 0 ? options.batches : std::numeric_limits<int64_t>::max();
  }

  // Returns everything that says which samples a batch has, except the position.
  std::vector<std::pair<const char*, int64_t>> order_settings() const {
    return {{"seed", int64_t(seed)},      {"batch_size", options.batch_size},
            {"shuffle", options.shuffle}, {"drop_last", options.drop_last},
            {"batches", options.batches}, {"samples", open ? -1 : sampler->size()}};
  }

  int64_t samples() const { return std::min(steps() * options.batch_size, sampler->size()); }

  void start(int64_t number, int64_t first_batch) {
    stop();
    is_started = true;
    is_restored = false;
    epoch = number;
    if (open) {
      stream = open(epoch);
      last = most();
      for (int64_t i = 0; i < first_batch && !read_samples(i).empty(); ++i) {
      }
    } else {
      order = sampler->order(epoch, dataset->device());
      lengths = sampler->batch_lengths(epoch, options.batch_size);
      if (options.transform) numbers = order.cpu();
      last = steps();
    }
    taken = claimed = first_batch;
    ring =
        std::vector<std::future<std::optional<Batch>>>(size_t(options.prefetch * options.workers));
    const int64_t threads = is_resident() ? 0 : options.workers;
    try {
      for (int64_t i = 0; i < threads; ++i) {
        workers.emplace_back([this](const std::stop_token& stop) { work(stop); });
      }
    } catch (const std::system_error& error) {  // fewer threads change only the speed
      warn(concat_to_string("data.workers is ", threads, ", but the system gave ", workers.size(),
                            " threads: ", error.what()));
    }
  }

  void stop() {
    for (std::jthread& worker : workers) worker.request_stop();
    workers.clear();  // joins
  }

  // Reads batch i of the stream.
  std::vector<Batch> read_samples(int64_t i) {
    std::vector<Batch> out;
    while (stream && std::ssize(out) < options.batch_size) try {
        std::optional<Batch> next = stream();
        if (!next) stream = nullptr;
        if (next) out.push_back(*std::move(next));
      } catch (...) {
        rethrow_for_sample(i * options.batch_size + std::ssize(out));
      }
    if (options.drop_last && std::ssize(out) < options.batch_size) out.clear();
    return out;
  }

  Batch gather(const Tensor& rows) const {
    if (!options.collate) return dataset->get(rows, device.is_cuda());
    std::vector<Batch> samples;
    for (int64_t k = 0; k < rows.size(0); ++k) {
      const Batch one = dataset->get(rows.narrow(0, k, 1));
      samples.push_back(one.map([](const Tensor& x) { return x.select(0, 0); }));
    }
    return options.collate(samples);
  }

  // Returns batch i on the device where it is assembled, or std::nullopt if a stream has ended.
  std::optional<Batch> fetch(int64_t i) {
    const int64_t first = i * options.batch_size;
    int64_t count = options.batch_size;
    Batch out;
    if (open) {
      const std::vector<Batch> samples = read_samples(i);
      count = std::ssize(samples);
      if (count == 0) return std::nullopt;
      out = options.collate ? options.collate(samples) : collate(samples, device.is_cuda());
    } else {
      count = std::min(count, order.size(0) - first);
      out = gather(order.narrow(0, first, count));
    }
    if (device.is_cpu()) return transformed(out, first, count);
    // The tensors of a user's collate function are in pageable memory.
    return options.collate ? out.map([](const Tensor& x) { return x.pin_memory(); }) : out;
  }

  // Cuts the batch that begins with the sample `first` to its longest sample.
  Batch cut(Batch batch, int64_t first) const {
    if (lengths.empty()) return batch;
    const int64_t length = lengths[size_t(first / options.batch_size)];
    if (length < batch.inputs.size(1)) batch.inputs = batch.inputs.narrow(1, 0, length);
    return batch;
  }

  Batch transformed(const Batch& whole, int64_t first, int64_t count) const {
    const Batch batch = cut(whole, first);
    if (!options.transform) return batch;
    std::vector<int64_t> samples(size_t(count), 0);
    for (int64_t k = 0; k < count; ++k) {
      samples[size_t(k)] = open ? first + k : numbers.data<int64_t>()[first + k];
    }
    SampleRng draws(seed, epoch, std::move(samples), device);
    const NoGradGuard no_grad;
    return options.transform(batch, draws);
  }

  auto& place_of(int64_t i) { return ring[size_t(i) % ring.size()]; }

  void work(const std::stop_token& stop) {
    std::optional<cuda::DeviceGuard> guard;  // page-locked memory belongs to a device's context
    if (device.is_cuda()) guard.emplace(device);
    const auto has_work = [&] { return claimed >= last || claimed < taken + std::ssize(ring); };
    std::unique_lock lock(mutex);
    while (changed.wait(lock, stop, has_work) && !stop.stop_requested() && claimed < last) {
      std::packaged_task<std::optional<Batch>()> task([this, i = claimed] { return fetch(i); });
      place_of(claimed++) = task.get_future();
      lock.unlock();
      changed.notify_all();
      task();
      lock.lock();
    }
  }

  std::optional<Batch> take() {
    if (workers.empty()) return fetch(taken++);
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return claimed > taken; });
    std::future<std::optional<Batch>> batch = std::move(place_of(taken++));
    lock.unlock();
    changed.notify_all();
    return batch.get();  // returns, or throws the worker's exception
  }

  std::optional<Batch> next() {
    if (is_restored) start(epoch, taken);
    if (!is_started) throw Error("DataLoader::next: call start(epoch) first");
    if (taken >= last) return std::nullopt;
    const int64_t first = taken * options.batch_size;
    std::optional<Batch> out = take();
    if (!out || device.is_cpu()) return out;
    const Batch moved =
        out->map([&](const Tensor& x) { return x.to(device, {.non_blocking = true}); });
    return transformed(moved, first, moved.inputs.size(0));
  }

  DataLoaderOptions options;
  Device device;
  uint64_t seed;
  DatasetPtr dataset;  // null if the samples come from streams, which `open` opens
  std::function<SampleStream(int64_t epoch)> open;
  std::shared_ptr<const Sampler> sampler;
  // State of the current epoch:
  bool is_started = false;
  bool is_restored = false;     // `epoch` and `taken` were restored, and the epoch is to be started
  int64_t epoch = 0, last = 0;  // `last`: number of batches that are read in this epoch
  Tensor order, numbers;        // row numbers on the set's device, and on the host for transforms
  std::vector<int64_t> lengths;  // of each batch (Sampler::batch_lengths()), or empty
  SampleStream stream;           // empty at its end; only the reading thread uses it

  std::mutex mutex;  // guards everything below while workers run
  std::condition_variable_any changed;
  std::vector<std::future<std::optional<Batch>>> ring;
  int64_t taken = 0, claimed = 0;
  // the last member: the workers stop before the others are destroyed
  std::vector<std::jthread> workers;
};

DataLoader::DataLoader(DatasetPtr dataset, const DataLoaderOptions& options, Device device,
                       uint64_t seed)
    : state_(std::make_unique<State>(std::move(dataset), nullptr, options, device, seed)) {}
DataLoader::DataLoader(std::function<SampleStream(int64_t epoch)> open,
                       const DataLoaderOptions& options, Device device, uint64_t seed)
    : state_(std::make_unique<State>(nullptr, std::move(open), options, device, seed)) {}
DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;

DataLoader::State& DataLoader::state() const {
  require(state_ != nullptr, "this DataLoader was moved from");
  return *state_;
}
void DataLoader::start(int64_t epoch, int64_t first_batch) {
  state().start(epoch, first_batch);
  ++starts_;
}
std::optional<Batch> DataLoader::next() { return state().next(); }
int64_t DataLoader::steps_per_epoch() const { return state().steps(); }
int64_t DataLoader::samples_per_epoch() const { return state().samples(); }
int64_t DataLoader::current_epoch() const { return state().epoch; }

void DataLoader::start_or_continue(int64_t epoch) {
  State& s = state();
  const bool continues = s.is_restored && epoch == s.epoch;
  const bool skips = s.is_restored && !continues && s.taken > 0 && (s.open || s.taken < s.steps());
  require(!skips, "DataLoader: epoch(", epoch, ") would skip the rest of epoch ", s.epoch,
          ", which was restored after ", s.taken,
          " batches: begin with epoch(loader.current_epoch()), or call start() to go elsewhere");
  start(epoch, continues ? s.taken : 0);
}

std::vector<NamedTensor> DataLoader::state_dict() const {
  std::vector<NamedTensor> out{{"epoch", tensor(state().epoch)}, {"batch", tensor(state().taken)}};
  for (const auto& [name, value] : state().order_settings()) out.push_back({name, tensor(value)});
  return out;
}

void DataLoader::load_state_dict(const std::vector<NamedTensor>& saved) {
  State& s = state();
  const auto number = [&](const std::string& name, std::string& problems) -> int64_t {
    const auto found = std::ranges::find(saved, name, &NamedTensor::name);
    const bool fits = found != saved.end() && found->tensor.defined() && found->tensor.dim() == 0 &&
                      found->tensor.dtype() == kInt64;
    if (!fits) problems += concat_to_string("\n\tthe state has no int64 number \"", name, "\"");
    return fits ? found->tensor.item<int64_t>() : -1;
  };
  std::string problems;
  const int64_t epoch = number("epoch", problems), batch = number("batch", problems);
  if (problems.empty() && batch < 0) problems = "\n\t\"batch\" is negative";
  for (const auto& [name, value] : s.order_settings()) {
    const size_t before = problems.size();
    const int64_t other = number(name, problems);
    if (problems.size() > before || other == value) continue;
    problems += concat_to_string("\n\t", name, " was ", other, ", and is ", value, " here");
  }
  require<ValueError>(problems.empty(), "DataLoader: the position cannot be restored:", problems);
  s.stop();
  s.epoch = epoch;
  s.taken = batch;
  s.is_restored = true;
  ++starts_;
}
bool DataLoader::is_resident() const { return state().is_resident(); }

}  // namespace taper::v0::data
