#include "apps/runner/settings/placement.h"

#include <algorithm>

#include "apps/runner/base/errors.h"
#include "apps/runner/components/components.h"
#include "apps/runner/settings/training_model.h"
#include "autograd/node.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/generator.h"

namespace taper::v0::runner {
namespace {

constexpr const char* kKey = "model.placement";

template <class E, class... Text>
[[noreturn]] void refuse_placement(const RunConfig& config, const Text&... text) {
  throw E(located(place_of(config, kKey), concat_to_string(kKey, ": ", text...)));
}

// Throws DeviceUnavailable for a device that does not exist.
void check_devices(const RunConfig& config) {
  for (const PlacementRule& rule : placement_rules(config)) {
    if (rule.device.is_cpu()) continue;
    const int count = cuda::device_count();
    if (!cuda::is_available()) {
      refuse_placement<DeviceUnavailable>(config, rule.device, " of the pattern '", rule.pattern,
                                          "' cannot be used: ", cuda::unavailable_reason());
    }
    if (rule.device.has_index() && rule.device.index() >= count) {
      refuse_placement<DeviceUnavailable>(
          config, rule.device, " of the pattern '", rule.pattern, "' cannot be used: ", count,
          " GPU(s) are visible, the last is cuda:", count - 1,
          "; model.placement=null puts the whole model on `device`");
    }
  }
}

}  // namespace

std::vector<PlacementRule> placement_rules(const RunConfig& config) {
  std::vector<PlacementRule> rules;
  for (const auto& [pattern, device] : config.model.placement) rules.push_back({pattern, device});
  return rules;
}

void check_placement(const RunConfig& config, Module& model, int64_t ranks) {
  if (config.model.placement.empty()) return;
  if (ranks > 1) {
    refuse_placement<ConfigError>(config, "a run on ", ranks,
                                  " ranks trains the whole model on each rank; use one rank, or "
                                  "remove the key");
  }
  try {
    (void)model.plan_placement(placement_rules(config), Device());
  } catch (const ValueError& error) {
    const std::string text = error.what();
    constexpr std::string_view kCall = "place: ";
    refuse_placement<ConfigError>(config,
                                  text.starts_with(kCall) ? text.substr(kCall.size()) : text);
  }
}

std::unique_ptr<Module> build_placed_model(const RunConfig& config, const DataInfo& data,
                                           Device device) {
  if (config.model.placement.empty()) return build_training_model(config, data, device);
  // A model that is too large for one device is built on the CPU.
  std::unique_ptr<Module> model = build_training_model(config, data, DeviceType::kCpu);
  check_placement(config, *model, 1);
  check_devices(config);
  model->place(placement_rules(config), device);
  return model;
}

std::vector<Device> devices_of(const Module& model, Device device) {
  std::vector<Device> out{device};
  const auto add = [&](const std::vector<NamedTensor>& tensors) {
    for (const NamedTensor& t : tensors) {
      if (std::ranges::count(out, t.tensor.device()) == 0) out.push_back(t.tensor.device());
    }
  };
  add(model.named_parameters());
  add(model.named_buffers());
  return out;
}

bool uses_gpu(const Module& model, Device device) {
  return std::ranges::any_of(devices_of(model, device), &Device::is_cuda);
}

void synchronize_others(const Module& model, Device device) {
  if (!model.is_placed()) return;
  for (const Device other : devices_of(model, device)) {
    if (other.is_cuda() && other != device) cuda::synchronize(other.index());
  }
}

Device output_device(Module& model, const RunConfig& config, const DataInfo& data, Device device) {
  if (!model.is_placed()) return device;
  const NoGradGuard no_grad;
  Generator apart(default_generator());
  const DrawGuard draws(apart);
  const bool was_training = model.is_training();
  model.eval();
  const Device found = run_model(model, config.model, data, sample_batch(data, 1, device)).device();
  model.train(was_training);
  return found;
}

}  // namespace taper::v0::runner
