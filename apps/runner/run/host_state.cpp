#include "apps/runner/run/host_state.h"

#include <cstdlib>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/process.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/run/signals.h"
#include "framework/base/log.h"
#include "framework/cuda/cuda.h"
#include "framework/cuda/driver.h"
#include "framework/host/thread_pool.h"
#include "framework/profiler/profiler.h"

namespace taper::v0::runner {
namespace {

// Returns the device that `name` names. For "auto" this is the current GPU, or the CPU if no GPU
// can be used.
Device choose_device(const std::string& name) {
  if (name == "auto") return cuda::is_available() ? cuda::resolve(DeviceType::kCuda) : Device();
  const Device device(name);
  if (device.is_cpu()) return Device();
  const std::string head = concat_to_string("device '", name, "' cannot be used: ");
  require<DeviceUnavailable>(cuda::is_available(), head, cuda::unavailable_reason());
  const int count = cuda::device_count();
  require<DeviceUnavailable>(!device.has_index() || device.index() < count, head, count,
                             " GPU(s) are visible, the last is cuda:", count - 1);
  return cuda::resolve(device);
}

}  // namespace

std::string matmul_precision_of(const RunConfig& config) {
  return config.train.precision == Precision::kTf32 ? "high" : "highest";
}

void apply_settings(const RunConfig& config) {
  set_float32_matmul_precision(matmul_precision_of(config));
  if (config.threads > 0) set_num_threads(int(config.threads));
}

Device set_up(const RunConfig& config) {
  apply_settings(config);
  if (const auto& visible = config.visible_devices) {
    failing_as<DeviceUnavailable>(
        concat_to_string("visible_devices: '", *visible, "' cannot be applied: "),
        [&] { cuda::set_visible_devices(*visible); });
  }
  return choose_device(config.device);
}

std::jthread start_device(Device device) {
  if constexpr (kHasCuda) {
    if (device.is_cuda()) return std::jthread(cuda::driver::initialize, device.index());
  }
  return {};
}

void report_device(const RunConfig& config, Device device) {
  if (config.device != "auto") return;
  log_info(concat_to_string("device: ", to_string(device), " (auto: ",
                            device.is_cuda() ? cuda::get_device_name(device.index())
                                             : cuda::driver::unavailable_summary(),
                            ")"));
}

// Starts NVTX ranges under Nsight Systems and similar profilers, which set this variable for the
// programs that they start. Returns whether it did.
static bool begin_nvtx() {
  const bool is_on = (detail::observers.load() & detail::kMarked) != 0;
  if (is_on || std::getenv("NVTX_INJECTION64_PATH") == nullptr) return false;
  emit_nvtx();
  return true;
}

HostStateGuard::HostStateGuard() : threads_(get_num_threads()), emits_nvtx_(begin_nvtx()) {}
HostStateGuard::~HostStateGuard() {
  if (get_num_threads() != threads_) set_num_threads(threads_);
  if (emits_nvtx_) emit_nvtx(false);
}

}  // namespace taper::v0::runner
