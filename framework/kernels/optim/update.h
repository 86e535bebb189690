// Optimizer updates (in place): one pass, on the GPU one launch, over all parameters of a call.
// What changes from step to step (learning rate, step count, whether gradients overflowed) is read
// from memory of the parameters' device, so that a captured graph replays it.
//
// A rule is a plain struct of settings with
//   static constexpr int kMinStates, kMaxStates    how many states it keeps, at most three
//   template <class C> TAPER_HD auto prepare(const Rule&, double lr, double step)
// beside it, which runs once a call or block, in double. What it gives is called for every element,
// computed in C: (p, grad, s1, s2, s3), where a state that is not kept comes in as 0.
//
//   formula.h                   what prepare is written with
//   update_cpu.h, update.cuh    OnCpu and OnGpu's update for any rule
//   optim/algorithms/update_formulas.h the rules that the library holds compiled
#pragma once

#include <vector>

#include "framework/base/host_device.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/optim/tensor_list.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// One parameter with its gradient and the optimizer's state for it: of one size and memory order,
// on one device. State is float32, or float64 for double parameters. Half parameters are computed
// in float and rounded once.
struct Update {
  Tensor param, grad;
  std::vector<Tensor> states;
  // A half tensor that receives the new values rounded, or undefined. Where the gradient has its
  // dtype, `param` is the float32 master of this half parameter: elements of `low` that are not
  // their master's rounding were set by somebody, and the master takes them over first.
  Tensor low;

  bool has_master() const { return low.defined() && grad.dtype() == low.dtype(); }
};

// 0-dim tensors on the parameters' device.
struct StepScalars {
  Tensor lr;         // float64
  Tensor step;       // float64, counts from 1; undefined for rules that do not read it
  Tensor found_inf;  // float32: the step does nothing where it is not 0; undefined: 0
  // `step`, of make_step, was not counted yet: this step has the next number and stores it.
  bool advances = false;
};
// A step that goes on from another, or from 0; the kernels' own counter lies behind it.
Tensor make_step(Device device, const Tensor& from = {});

struct OnCpu {
  template <class Rule>
  static void update(const std::vector<Update>& updates, const StepScalars& scalars,
                     const Rule& rule);
};
struct OnGpu {
  template <class Rule>
  static void update(const std::vector<Update>& updates, const StepScalars& scalars,
                     const Rule& rule);
};

template <class Rule>
void update(const std::vector<Update>& updates, const StepScalars& scalars, const Rule& rule) {
  if (updates.empty()) return;
  dispatch(
      scalars.lr.device(), [&] { OnCpu::update(updates, scalars, rule); },
      [&] { OnGpu::update(updates, scalars, rule); });
}

// --- for both devices ---

// The tensors of an Update.
enum UpdateRole { kParam, kGrad, kState1, kState2, kState3, kLow, kUpdateRoles };

// Of the double parameters, or of the others.
std::vector<ListEntry<kUpdateRoles>> entries_of(const std::vector<Update>& updates, bool doubles);

using UpdateChunk = ListChunk<kUpdateRoles>;
TAPER_HD bool has_master(const UpdateChunk& chunk) {
  return chunk.data[kLow] && chunk.dtype[kGrad] == chunk.dtype[kLow];
}

// What a master is for a half parameter `low`; `rounded` is the master in its precision.
template <class C> TAPER_HD C renewed(C master, C rounded, C low) {
  return rounded == low ? master : low;
}

struct CountStep {
  double* step;
  const float* found_inf;
  TAPER_HD void operator()(int64_t) const {
    if (!found_inf || *found_inf == 0) *step += 1;
  }
};

}  // namespace taper::v0::kernels
