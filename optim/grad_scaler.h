// Loss scaling, which keeps small gradients of half types from vanishing
// (https://pytorch.org/docs/stable/amp.html#gradient-scaling):
//
//   scaler.scale(loss).backward();
//   scaler.unscale_(optimizer);  // only where gradients are looked at: clip_grad_norm_(...)
//   scaler.step(optimizer);      // changes nothing where a gradient was inf or nan
//   scaler.update();
//
// The scale, its growth tracker and what was found live where the loss does, and gradients must be
// there too. Nothing waits but get_scale, state_dict and the step of a user's optimizer.
#pragma once

#include <map>
#include <vector>

#include "optim/optimizer.h"

namespace taper::v0::optim {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2, backoff_factor = 0.5;
  int64_t growth_interval = 2000;  // steps without inf or nan until the scale grows
  bool enabled = true;             // else everything passes through
};

class GradScaler {
 public:
  explicit GradScaler(GradScalerOptions options = {});

  Tensor scale(const Tensor& outputs);
  // Divides the gradients by the scale and notes whether any was inf or nan. Throws Error in
  // PyTorch's words when called twice or after step, ValueError for float16 gradients.
  void unscale_(Optimizer& optimizer);
  // unscale_ where that was not called, then optimizer.step_unless(what was found): an optimizer of
  // your own is asked on the host whether to step.
  void step(Optimizer& optimizer);
  // Once after the steps of all optimizers.
  void update();

  double get_scale() const;
  bool is_enabled() const { return options_.enabled; }
  // scale, growth_factor, backoff_factor, growth_interval, _growth_tracker; empty when disabled.
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
