#include "apps/runner/device.h"

#include <spdlog/spdlog.h>

#include "apps/runner/errors.h"
#include "framework/cuda.h"

namespace taper::runner {

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
  if (!cuda::is_available()) {
    throw DeviceUnavailable(
        cat("device '", name, "' cannot be used: ", cuda::unavailable_reason()));
  }
  if (device.has_index() && device.index() >= cuda::device_count()) {
    throw DeviceUnavailable(
        cat("device '", name, "' cannot be used: ", cuda::device_count(),
            " GPU(s) are visible, the last is cuda:", cuda::device_count() - 1));
  }
  return cuda::resolve(device);
}

}  // namespace taper::runner
