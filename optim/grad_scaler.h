// Loss scaling, which keeps small gradients of half types from becoming 0
// (https://pytorch.org/docs/stable/amp.html#gradient-scaling):
//
//   scaler.scale(loss).backward();
//   scaler.unscale_(optimizer);  // only if gradients are read or clipped: clip_grad_norm_(...)
//   scaler.step(optimizer);      // changes nothing if a gradient was infinite or NaN
//   scaler.update();
//
// The scale and its growth tracker are on the device of the loss, and all gradients must be on that
// device. Only get_scale(), state_dict(), load_state_dict() and the step of a custom optimizer
// synchronize.
#pragma once

#include <map>
#include <vector>

#include "optim/optimizer.h"

namespace taper::v0::optim {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2, backoff_factor = 0.5;
  int64_t growth_interval = 2000;  // finite steps until the scale grows
  bool enabled = true;             // if false, all functions pass their arguments through
};

class GradScaler {
 public:
  explicit GradScaler(GradScalerOptions options = {});

  Tensor scale(const Tensor& outputs);
  // Divides the gradients by the scale and records whether any was infinite or NaN. Throws Error if
  // it is called twice or after step(), and ValueError for float16 gradients.
  void unscale_(Optimizer& optimizer);
  // Calls unscale_() if that was not called, and then optimizer.step_unless(found_inf). For a
  // custom optimizer that cannot skip its step on the device, waits for found_inf on the host.
  void step(Optimizer& optimizer);
  // Adjusts the scale. Call it once, after the steps of all optimizers.
  void update();

  double get_scale() const;
  bool is_enabled() const { return options_.enabled; }
  // Returns scale, growth_factor, backoff_factor, growth_interval and _growth_tracker, or an empty
  // vector if disabled. Synchronizes.
  std::vector<NamedTensor> state_dict() const;
  void load_state_dict(const std::vector<NamedTensor>& state);

 private:
  struct Job {
    Tensor found_inf;  // 0-dim float32
    bool stepped = false;
  };

  GradScalerOptions options_;
  Tensor scale_, growth_tracker_;         // 0-dim float32 and int32
  std::map<const Optimizer*, Job> jobs_;  // since the last update
};

}  // namespace taper::v0::optim
