// Estimates the memory that a run takes on its devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/runner/memory/memory_probe.h"
#include "apps/runner/settings/run_config.h"
#include "framework/base/device.h"
#include "framework/distributed/communicator.h"
#include "framework/factory/generator.h"
#include "framework/kernels/random/random.h"
#include "modules/module.h"

namespace taper::v0::runner {

// The memory of a run, by part (parameters, gradients, ...).
struct MemoryEstimate {
  std::vector<Device> devices;
  std::string lines{};  // one for each part: name, MiB, note, MiB on each of several devices
  DeviceBytes sum{std::vector<int64_t>(devices.size())};

  void add(const char* name, const DeviceBytes& bytes, const std::string& note = "");
};

// Skips the initialization of weights and restores the default generator at the end of the scope,
// so that a model can be built for an estimate.
struct EstimateGuard {
  Generator generator{default_generator()};
  DrawGuard draws{generator};
  kernels::SkipDrawsGuard skip_initialization{};
};

// Moves a model to the CPU devices that are used in place of a run's devices, and back to the CPU
// at the end of the scope.
class StandInGuard {
 public:
  // devices: those of the run (devices_of_run).
  StandInGuard(const RunConfig& config, const std::vector<Device>& devices, Module& model);
  ~StandInGuard();
  StandInGuard& operator=(StandInGuard&&) = delete;  // neither copied nor moved

 private:
  Module& model_;
};

// Where a run would take place. devices: those of devices_of_run().
struct EstimateSite {
  bool holds_data, on_gpu;
  int64_t ranks;
  std::vector<Device> devices;
};

// The temporary memory of a step, of an evaluation, and the largest use of it: by one of these or
// by a checkpoint.
struct Activations {
  int64_t trained = 0, evaluated = 0;  // samples in a call of the model
  DeviceBytes step{}, evaluation{}, most{};
};
// Estimates the temporary memory for the batch sizes of the config. `probe` measures the same
// model, which must be on CPU devices; its gradients are freed.
Activations estimate_activations(MemoryProbe& probe, const RunConfig& config,
                                 const data::Splits& data, Module& model, const EstimateSite& site);
// Returns the bytes of the samples that are stored on the devices.
DeviceBytes data_bytes(const data::Splits& data, const EstimateSite& site);
// Estimates the memory that is allocated during the whole run, except for the data.
MemoryEstimate estimate_state(const RunConfig& config, Module& model,
                              const DeviceBytes& optimizer_state, int64_t ranks,
                              const std::vector<Device>& devices);

// Returns an estimate of the bytes that a run allocates on the device of each rank, or on all
// devices of model.placement. holds_data: the samples are stored on the device, too. The estimate
// is computed on the CPU from two small steps. The default generator is not changed.
int64_t estimate_memory(const RunConfig& config, const data::Splits& data, bool holds_data,
                        const distributed::Communicator& ranks);

// Returns the memory section of `taper train --validate`: a line for each part on the config's
// devices, with the evaluation batch size that a run would choose there. The model must be on the
// CPU.
std::string describe_memory(RunConfig config, const data::Splits& data, Module& model,
                            int64_t ranks);

}  // namespace taper::v0::runner
