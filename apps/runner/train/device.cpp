#include "apps/runner/train/device.h"

#include <spdlog/spdlog.h>

#include "apps/runner/run/errors.h"
#include "framework/cuda.h"

namespace taper::runner {
namespace {

void apply_visible_devices(const std::string& devices) try {
  cuda::set_visible_devices(devices);
} catch (const Error& error) {
  throw DeviceUnavailable(
      cat("visible_devices: '", devices, "' cannot be applied: ", error.what()));
}

}  // namespace

Device choose_device(const std::string& name, const std::optional<std::string>& visible_devices) {
  if (visible_devices) apply_visible_devices(*visible_devices);
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

}  // namespace taper::runner
