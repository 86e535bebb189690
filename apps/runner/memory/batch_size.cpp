#include "apps/runner/memory/batch_size.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/memory/memory_estimate.h"
#include "apps/runner/memory/run_devices.h"
#include "apps/runner/run/batches.h"
#include "apps/runner/settings/training_model.h"

namespace taper::v0::runner {
namespace {

// Parts of a device's memory that a run may take. The rest of a GPU holds the CUDA context,
// libraries and gaps between tensors; that of the machine holds the system and other programs.
constexpr double kGpuShare = 0.8, kCpuShare = 0.5;
constexpr int64_t kMostSamples = 1 << 20;

[[noreturn]] void refuse_auto(const RunConfig& config, const std::string& why) {
  throw ConfigError(located(place_of(config, "train.batch_size"),
                            concat_to_string("train.batch_size: auto ", why)));
}

int64_t runs_on_the_devices() {
  const char* text = std::getenv(kSharingRuns);
  int64_t runs = 1;
  if (text != nullptr && parse_number(std::string(text), runs) != std::errc()) runs = 1;
  return std::max<int64_t>(1, runs);
}

// Returns the sizes among which is chosen, in rising order: a power of two times the number of
// parts of a batch.
std::vector<int64_t> candidates(int64_t parts, int64_t samples) {
  std::vector<int64_t> out = {parts};
  while (out.back() * 2 <= std::min(samples, kMostSamples)) out.push_back(out.back() * 2);
  return out;
}

// Returns the largest number of bytes that a run may take on each device.
struct Budget {
  std::vector<Device> devices;
  std::vector<int64_t> bytes{}, totals{};

  Budget(std::vector<Device> given, int64_t ranks, const std::function<int64_t(Device)>& total)
      : devices(std::move(given)) {
    for (const Device device : devices) {
      totals.push_back(total(device));
      const int64_t users = runs_on_the_devices() * (device.is_cpu() ? ranks : 1);
      const double share = device.is_cpu() ? kCpuShare : kGpuShare;
      bytes.push_back(int64_t(double(totals.back()) * share) / users);
    }
  }

  bool holds(const DeviceBytes& needed) const {
    int64_t on_cpu = 0;
    for (size_t i = 0; i < devices.size(); ++i) {
      if (devices[i].is_cpu()) on_cpu += needed.each[i];
      if ((devices[i].is_cpu() ? on_cpu : needed.each[i]) > bytes[i]) return false;
    }
    return true;
  }
};

std::string gib(int64_t bytes) {
  return bytes < int64_t(1) << 30 ? fmt::format("{:.1f} MiB", double(bytes) / (1 << 20))
                                  : fmt::format("{:.1f} GiB", double(bytes) / (1 << 30));
}

// Returns the memory of the whole run for each of the batch sizes.
std::vector<DeviceBytes> needed_by(const std::vector<int64_t>& sizes, RunConfig config,
                                   const data::Splits& data, Module& model,
                                   const EstimateSite& site) {
  const size_t n = site.devices.size();
  MemoryProbe probe(config, data, model, n);
  std::vector<DeviceBytes> out;
  for (const int64_t size : sizes) {
    config.train.batch_size = size;
    out.push_back(estimate_activations(probe, config, data, model, site).most);
  }
  // state_bytes() changes the weights, so it is called after the probes.
  const DeviceBytes fixed = data_bytes(data, site) +
                            estimate_state(config, model, state_bytes(config.optimizer, model, n),
                                           site.ranks, site.devices)
                                .sum;
  for (DeviceBytes& each : out) each = each + fixed;
  return out;
}

// Returns the batch size of evaluations that is given or that a run would choose. Returns
// std::nullopt for text, where it depends on the batch size of training.
std::optional<int64_t> eval_batch_size_on(const std::vector<Device>& devices,
                                          const RunConfig& config, const data::Splits& data,
                                          const std::function<int64_t(Device)>& total) {
  if (config.train.eval_batch_size || data.vocab_size() > 0) return config.train.eval_batch_size;
  const std::unique_ptr<Module> model = build_training_model(config, data, DeviceType::kCpu);
  return fitting_eval_batch_size(config, data, *model, has_gpu(devices), [&] {
    int64_t sum = 0;
    for (const Device device : distinct_memories(devices)) sum += total(device);
    return sum;
  });
}

// Returns whether the samples will be stored on the device. With data.on_device: auto, a GPU holds
// them if they need less than half of its memory.
bool holds_the_data(const RunConfig& config, const data::Splits& data, Device own, int64_t total) {
  if (own.is_cpu() || config.data.on_device == data::OnDevice::kAlways) return true;
  const int64_t bytes =
      data_bytes(data, {.holds_data = true, .on_gpu = true, .ranks = 1, .devices = {own}}).total();
  return config.data.on_device == data::OnDevice::kAuto && bytes < total / 2;
}

// Returns the number of training samples in an epoch.
int64_t training_samples(RunConfig config, const data::Splits& data) {
  config.train.drop_last = false;
  return run_sizes(config, data, 1).train_samples;
}

std::string reason_of(const DeviceBytes& needed, const Budget& budget, bool is_all_samples,
                      bool is_reduced) {
  const bool on_gpu = budget.devices[0].is_cuda();
  const std::string limit =
      fmt::format("{} of {}'s {}", gib(budget.bytes[0]),
                  on_gpu ? concat_to_string(budget.devices[0]) : std::string("the machine"),
                  gib(budget.totals[0]));
  return fmt::format("the run needs about {}, and may take {}{}{}", gib(needed.total()), limit,
                     is_all_samples ? "; the training set has no more for a larger one" : "",
                     is_reduced ? "; a power of two would leave a last batch of one sample" : "");
}

[[noreturn]] void refuse_smallest(const RunConfig& config, int64_t size, const DeviceBytes& needed,
                                  const Budget& budget) {
  refuse_auto(config,
              fmt::format("finds no size: even a batch of {} needs about {}, of which a run may "
                          "take {} on {}; use a smaller model or another device",
                          size, gib(needed.total()), gib(budget.bytes[0]),
                          concat_to_string(budget.devices[0])));
}

}  // namespace

BatchSizeChoice choose_batch_size(const RunConfig& asked, const data::Splits& data, Device own,
                                  int64_t ranks, const std::function<int64_t(Device)>& total) {
  RunConfig config = asked;
  const int64_t parts = config.train.shards.value_or(ranks);
  config.train.batch_size = parts;
  const EstimateGuard guard;
  const std::vector<Device> devices = devices_of_run(config, own);
  config.train.eval_batch_size = eval_batch_size_on(devices, config, data, total);
  const std::unique_ptr<Module> model = build_training_model(config, data, DeviceType::kCpu);
  const StandInGuard stand_in(config, devices, *model);
  const bool holds_data = holds_the_data(config, data, own, total(own));
  const int64_t samples = training_samples(config, data);
  const std::vector<int64_t> sizes = candidates(parts, samples);
  const Budget budget(devices, ranks, total);
  const std::vector<DeviceBytes> needed =
      needed_by(sizes, config, data, *model, {holds_data, has_gpu(devices), ranks, devices});
  size_t chosen = sizes.size();
  while (chosen > 0 && !budget.holds(needed[chosen - 1])) --chosen;
  if (chosen == 0) refuse_smallest(config, sizes[0], needed[0], budget);
  const int64_t size = sizes[chosen - 1];
  const bool is_reduced = size / parts % 4 == 0 && samples % size == 1 && !config.train.drop_last;
  return {is_reduced ? size / 4 * 3 : size,
          reason_of(needed[chosen - 1], budget, chosen == sizes.size(), is_reduced)};
}

std::string set_batch_size(RunConfig& config, const data::Splits& data, Device own, int64_t ranks) {
  if (!config.train.is_batch_size_auto) return "";
  const auto choice = [&] {
    try {
      return choose_batch_size(config, data, own, ranks, total_memory);
    } catch (const ConfigError&) {
      throw;
    } catch (const OutOfMemoryError&) {
      throw;
    } catch (const std::exception& error) {
      refuse_auto(config, concat_to_string("needs an estimate of the memory, which failed: ",
                                           error.what(), "; give a number"));
    }
  }();
  config.train.batch_size = choice.samples;
  config.train.is_batch_size_auto = false;
  return concat_to_string("train.batch_size: auto is ", choice.samples, ": ", choice.reason);
}

int64_t fitting_eval_batch_size(const RunConfig& config, const DataInfo& info, Module& model,
                                bool on_gpu, const std::function<int64_t()>& total) {
  constexpr int64_t kMost = 1024, kAlwaysFree = int64_t(1) << 30;
  MemoryProbe probe(config, info, model, 1);
  const int64_t one = probe.peak(1, false, on_gpu).total();
  const int64_t two = probe.peak(2, false, on_gpu).total();
  const Device device = on_gpu ? Device(DeviceType::kCuda, 0) : Device();
  const int64_t fixed =
      estimate_state(config, model, state_bytes(config.optimizer, model, 1), 1, {device})
          .sum.total();
  const auto needed = [&](int64_t samples) { return fixed + one + (samples - 1) * (two - one); };
  if (needed(kMost) <= kAlwaysFree) return kMost;
  const int64_t room = total() / 2;
  int64_t samples = kMost;
  while (samples > 1 && needed(samples) > room) samples /= 2;
  return samples;
}

int64_t choose_eval_batch_size(const RunConfig& config, const DataInfo& info,
                               const distributed::Communicator& ranks) {
  const int64_t usual = eval_batch_size_of(config, info, ranks.size());
  if (config.train.eval_batch_size || info.vocab_size() > 0) return usual;
  const EstimateGuard guard;
  try {
    const std::unique_ptr<Module> model = build_training_model(config, info, DeviceType::kCpu);
    return fitting_eval_batch_size(config, info, *model, ranks.device().is_cuda(),
                                   [&] { return memory_of_run(config, ranks.device()); });
  } catch (const std::exception&) {
    // The model runs on GPUs only, or the config is wrong. In that case the run itself reports the
    // error.
    return std::min(usual, config.train.batch_size);
  }
}

}  // namespace taper::v0::runner
