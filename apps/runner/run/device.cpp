#include "apps/runner/run/device.h"

#include <spdlog/spdlog.h>

#include "apps/runner/run/errors.h"
#include "framework/cuda.h"
#include "framework/precision.h"
#include "framework/threads.h"

namespace taper::runner {
namespace {

void apply_visible_devices(const std::string& devices) try {
  cuda::set_visible_devices(devices);
} catch (const Error& error) {
  throw DeviceUnavailable(
      cat("visible_devices: '", devices, "' cannot be applied: ", error.what()));
}

// "auto" takes the current GPU, or the CPU where no GPU can be used, and logs which and why;
// anything else is taken as named.
Device choose_device(const std::string& name) {
  if (name == "auto") {
    if (!cuda::is_available()) {
      spdlog::info("device: cpu (auto: {})", cuda::unavailable_reason());
      return Device();
    }
    const Device device = cuda::resolve(DeviceType::cuda);
    spdlog::info("device: {} (auto: {})", to_string(device), cuda::get_device_name(device.index()));
    return device;
  }
  const Device device(name);
  if (device.is_cpu()) return Device();
  const auto refuse = [&](const std::string& why) {
    throw DeviceUnavailable(cat("device '", name, "' cannot be used: ", why));
  };
  if (!cuda::is_available()) refuse(cuda::unavailable_reason());
  const int count = cuda::device_count();
  if (device.has_index() && device.index() >= count) {
    refuse(cat(count, " GPU(s) are visible, the last is cuda:", count - 1));
  }
  return cuda::resolve(device);
}

}  // namespace

Device set_up(const RunConfig& config) {
  set_float32_matmul_precision(config.train.precision == Precision::kTf32 ? "high" : "highest");
  if (config.threads > 0) set_num_threads(int(config.threads));
  if (config.visible_devices) apply_visible_devices(*config.visible_devices);
  return choose_device(config.device);
}

}  // namespace taper::runner
