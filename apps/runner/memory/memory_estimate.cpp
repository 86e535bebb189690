#include "apps/runner/memory/memory_estimate.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "apps/runner/memory/batch_size.h"
#include "apps/runner/memory/run_devices.h"
#include "apps/runner/run/batches.h"
#include "apps/runner/run/data_info.h"
#include "apps/runner/settings/placement.h"
#include "apps/runner/settings/training_model.h"

namespace taper::v0::runner {
namespace {

std::string mib(int64_t bytes) {
  return fmt::format("{:.2f} MiB", double(std::max<int64_t>(bytes, 0)) / (1 << 20));
}

// Estimates all parts. The model must be on CPU devices; its gradients are freed.
MemoryEstimate estimate_parts(const RunConfig& config, const data::Splits& data, Module& model,
                              const EstimateSite& site) {
  const size_t devices = site.devices.size();
  MemoryProbe probe(config, data, model, devices);
  const Activations temporary = estimate_activations(probe, config, data, model, site);
  // state_bytes() changes the weights, so it is called after the probes.
  MemoryEstimate out = estimate_state(config, model, state_bytes(config.optimizer, model, devices),
                                      site.ranks, site.devices);
  out.add("activations", temporary.most,
          concat_to_string("  of ", temporary.trained, " samples in training (",
                           mib(temporary.step.total()), ") or ", temporary.evaluated,
                           " in evaluation (", mib(temporary.evaluation.total()), ")"));
  out.add("data", data_bytes(data, site), concat_to_string("  of ", sizes_text(data)));
  return out;
}

// Estimates all parts for a model on the CPU.
MemoryEstimate estimate(const RunConfig& config, const data::Splits& data, Module& model,
                        const EstimateSite& site) {
  const StandInGuard guard(config, site.devices, model);
  return estimate_parts(config, data, model, site);
}

}  // namespace

Activations estimate_activations(MemoryProbe& probe, const RunConfig& config,
                                 const data::Splits& data, Module& model,
                                 const EstimateSite& site) {
  const TrainConfig& c = config.train;
  const RunSizes sizes = run_sizes(config, data, site.ranks);
  const int64_t parts = c.shards.value_or(site.ranks);
  const size_t devices = site.devices.size();
  const DeviceBytes gradients = tensor_bytes(devices, trainable_parameters(model)),
                    averages = tensor_bytes(devices, model.named_parameters()) * (c.ema ? 1 : 0);
  Activations out;
  out.trained = (std::min(c.batch_size, sizes.train_samples) + parts - 1) / parts;
  out.evaluated = std::min(sizes.eval_batch_size, std::max(sizes.eval_samples, sizes.test_samples));
  out.step = probe.peak(out.trained, true, site.on_gpu);
  if (c.accumulate == 1) out.step = out.step - gradients;
  out.evaluation = probe.peak(out.evaluated, false, site.on_gpu) + averages;
  // For a checkpoint, averages and weights are swapped, and copies of both are held. Copies that
  // are written in the background are a part of estimate_state().
  const bool holds_copies = !config.checkpoint.is_in_background(site.on_gpu);
  const DeviceBytes saved = averages * (holds_copies ? 3 : 1);
  out.most = largest(largest(out.step, out.evaluation), largest(saved, nothing_on(devices)));
  return out;
}

DeviceBytes data_bytes(const data::Splits& data, const EstimateSite& site) {
  const size_t validation = data.validation ? data.validation->nbytes() : 0;
  DeviceBytes out = nothing_on(site.devices.size());
  if (site.holds_data) {
    out.each[0] = int64_t(data.train->nbytes() + validation + data.test->nbytes());
  }
  return out;
}

MemoryEstimate estimate_state(const RunConfig& config, Module& model,
                              const DeviceBytes& optimizer_state, int64_t ranks,
                              const std::vector<Device>& devices) {
  const TrainConfig& c = config.train;
  const size_t n = devices.size();
  const int64_t parts = c.shards.value_or(ranks);
  const DeviceBytes parameters = tensor_bytes(n, model.named_parameters()),
                    buffers = tensor_bytes(n, model.named_buffers()),
                    gradients = tensor_bytes(n, trainable_parameters(model));
  int64_t buckets = parts > 1 ? 1 : 0;  // in units of all gradients
  // Each level of the tree of shards keeps one sum until its neighbor's sum is computed. With more
  // than two ranks, all_gather needs a buffer, too.
  if (c.shards) {
    for (int64_t leaves = parts / ranks; leaves > 1; leaves /= 2) ++buckets;
    if (ranks > 2) ++buckets;
  }
  MemoryEstimate out{devices};
  out.add("parameters", parameters + buffers);
  out.add("gradients", gradients);
  out.add("optimizer state",
          config.distributed.shard_optimizer ? optimizer_state / ranks : optimizer_state);
  if (c.ema) out.add("averages", parameters);
  if (buckets > 0)
    out.add("buckets", gradients * buckets, "  for reducing gradients over ranks or shards");
  // Copies of a GPU's tensors are in page-locked memory, which is not a part of the estimate.
  if (!config.checkpoint.is_in_background(has_gpu(devices))) return out;
  DeviceBytes copies = parameters + buffers + optimizer_state + parameters * (c.ema ? 2 : 0);
  for (size_t i = 0; i < n; ++i) copies.each[i] *= devices[i].is_cpu() ? 1 : 0;
  if (copies.total() > 0) out.add("checkpoint", copies, "  copy that is written in the background");
  return out;
}

StandInGuard::StandInGuard(const RunConfig& config, const std::vector<Device>& devices,
                           Module& model)
    : model_(model) {
  std::vector<PlacementRule> rules;
  for (const auto& [pattern, name] : config.model.placement) {
    const auto at = std::ranges::find(devices, numbered_device(name)) - devices.begin();
    rules.push_back({pattern, Device(DeviceType::kCpu, at)});
  }
  if (!rules.empty()) model.place(rules, DeviceType::kCpu);
}

StandInGuard::~StandInGuard() {
  if (model_.is_placed()) model_.to(DeviceType::kCpu);
}

void MemoryEstimate::add(const char* name, const DeviceBytes& bytes, const std::string& note) {
  lines += fmt::format("{:<18}{:>12.2f} MiB{}", name, double(bytes.total()) / (1 << 20), note);
  for (size_t i = 0; devices.size() > 1 && i < devices.size(); ++i) {
    lines += concat_to_string(i == 0 ? "  on " : ", ", devices[i], " ", mib(bytes.each[i]));
  }
  lines += "\n";
  sum = sum + bytes;
}

int64_t estimate_memory(const RunConfig& config, const data::Splits& data, bool holds_data,
                        const distributed::Communicator& ranks) {
  const EstimateGuard guard;
  const std::unique_ptr<Module> model = build_training_model(config, data, DeviceType::kCpu);
  const std::vector<Device> devices = devices_of_run(config, ranks.device());
  return estimate(config, data, *model, {holds_data, has_gpu(devices), ranks.size(), devices})
      .sum.total();
}

std::string describe_memory(RunConfig config, const data::Splits& data, Module& model,
                            int64_t ranks) {
  const Device own = expected_device(config);
  const std::vector<Device> devices = devices_of_run(config, own);
  const bool on_gpu = has_gpu(devices);
  if (!config.train.eval_batch_size && data.vocab_size() == 0) {
    const auto total = [&] {
      if (on_gpu && !gpu_exists()) return INT64_MAX;
      return memory_of_run(config, own);
    };
    config.train.eval_batch_size = fitting_eval_batch_size(config, data, model, on_gpu, total);
  }
  const bool holds_data = own.is_cpu() || config.data.on_device != data::OnDevice::kNever;
  MemoryEstimate memory = estimate(config, data, model, {holds_data, on_gpu, ranks, devices});
  memory.add("total", memory.sum,
             concat_to_string(on_gpu && devices.size() == 1 ? "  on the GPU" : "",
                              ranks > 1 ? concat_to_string("  of each of ", ranks, " ranks") : ""));
  return memory.lines;
}

}  // namespace taper::v0::runner
