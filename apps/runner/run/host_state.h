// The settings that a run makes in its process: the device, the threads, and the precision of
// float32 matrix products.
#pragma once

#include <string>
#include <thread>

#include "apps/runner/settings/run_config.h"
#include "autograd/autocast.h"
#include "autograd/node.h"
#include "framework/base/device.h"
#include "framework/cuda/precision.h"
#include "framework/factory/generator.h"

namespace taper::v0::runner {

// Sets the threads and the precision of float32 matrix products, and returns the device: for "auto"
// the current GPU, or the CPU if no GPU can be used. Applies `visible_devices` first. Throws
// DeviceUnavailable, with the reason, if the requested GPU cannot be used, or if `visible_devices`
// cannot be applied because CUDA was already initialized.
Device set_up(const RunConfig& config);
// Sets only the threads and the precision.
void apply_settings(const RunConfig& config);
// Starts a GPU on a thread, while the caller reads its data. The first operation would wait for
// that otherwise. Does nothing on the CPU. The thread is joined when the result is destroyed.
[[nodiscard]] std::jthread start_device(Device device);
// Logs in one line which device "auto" has chosen and why.
void report_device(const RunConfig& config, Device device);

// Sets the precision of float32 matrix products until the end of the scope.
using MatmulPrecisionGuard =
    ThreadStateGuard<get_float32_matmul_precision, set_float32_matmul_precision>;
std::string matmul_precision_of(const RunConfig& config);

// Restores at the end of the scope what a run changes in its host program: the number of threads,
// the precision of float32 matrix products, and whether NVTX ranges are emitted (a run emits them
// under a profiler that requests them). Within the scope gradients are recorded, autocast is off,
// and random numbers are drawn from a generator of the guard.
class HostStateGuard {
 public:
  HostStateGuard();
  ~HostStateGuard();
  HostStateGuard& operator=(HostStateGuard&&) = delete;  // neither copied nor moved

 private:
  const int threads_;
  const bool emits_nvtx_;
  const MatmulPrecisionGuard precision_{get_float32_matmul_precision()};
  const AutoGradMode grad_mode_{true};
  const AutocastGuard no_autocast_{AutocastState()};
  Generator generator_;
  const DrawGuard draws_{generator_};
};

}  // namespace taper::v0::runner
