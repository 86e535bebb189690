// What a run sets in its process: device, threads, signals.
#pragma once

#include <string>
#include <vector>

#include "apps/runner/config/config.h"
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
using MatmulPrecisionGuard = Switched<get_float32_matmul_precision, set_float32_matmul_precision>;
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
  const GradMode grad_mode_{true};
  const AutocastScope no_autocast_{AutocastState()};
  Generator generator_;
  const DrawScope draws_{generator_};
};

// Whether a run may use the signals and the terminal of this process: while main() runs. A host
// that calls train() keeps both to itself.
bool owns_process();
class OwnProcessGuard {
 public:
  OwnProcessGuard();
  ~OwnProcessGuard();
  OwnProcessGuard& operator=(OwnProcessGuard&&) = delete;  // neither copied nor moved

 private:
  const bool previous_;
};
// How messages name what a caller can set: by the option of the command line while main() runs,
// else by the member of TrainOptions or the argument of a function.
inline std::string for_caller(const std::string& option, const std::string& member) {
  return owns_process() ? option : member;
}
inline std::string resume_auto() {
  return for_caller("--resume auto", "TrainOptions.resume = \"auto\"");
}

// The words that started this process: a library has no command line of its own.
std::vector<std::string> command_line();

// Returns the most physical memory in bytes that this process has held, the reading of its data
// included; 0 where the system does not tell.
int64_t peak_resident_memory();

// Receives SIGTERM, SIGINT, SIGUSR1 and SIGHUP until the end of the scope, then restores the
// handlers from before. The first signal prints a line on stderr at once, says what happens next,
// and makes check_stop() (framework/base/log.h) throw Interrupted. A second SIGINT or SIGTERM
// ends the process at once, with exit code 130 or 143, after a line that names the newest
// checkpoint.
class SignalScope {
 public:
  // is_quiet: prints no lines, as on all ranks but the first.
  explicit SignalScope(bool is_quiet = false);
  ~SignalScope();
  SignalScope& operator=(SignalScope&&) = delete;  // neither copied nor moved

  // The name of the signal that came, as "SIGTERM"; empty: none.
  static std::string received();
  // What the line of the first signal says will happen, such as "stopping after this step". The
  // text must live as long as the process.
  static void set_plan(const char* plan);
  // The checkpoint that the line of a second signal names.
  static void set_newest(const std::string& checkpoint);
};

}  // namespace taper::v0::runner
