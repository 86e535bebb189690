// What a run sets in its process: the device, the threads and the precision of float32 products.
#pragma once

#include <string>

#include "apps/runner/settings/run_config.h"
#include "autograd/autocast.h"
#include "autograd/node.h"
#include "framework/base/device.h"
#include "framework/cuda/precision.h"
#include "framework/factory/generator.h"

namespace taper::v0::runner {

// Sets the threads and the precision of float32 products, and finds the device: "auto" is the
// current GPU, or the CPU where no GPU can be used. Throws DeviceUnavailable with the reason for a
// GPU that cannot be used; also where it is too late for `visible_devices`, which is applied first.
Device set_up(const RunConfig& config);
// Sets the threads and the precision alone.
void apply_settings(const RunConfig& config);
// Logs in one line which device "auto" has chosen and why.
void report_device(const RunConfig& config, Device device);

// Sets the precision of float32 products until the end of the scope.
using MatmulPrecisionGuard =
    ThreadStateGuard<get_float32_matmul_precision, set_float32_matmul_precision>;
std::string matmul_precision_of(const RunConfig& config);

// Gives a host back what a run changes: the number of threads, the precision of float32 products,
// and NVTX ranges, which a run emits under a profiler that asks for them. Until the end of the
// scope gradients are recorded, autocast is off, and draws come from a generator of the scope.
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
