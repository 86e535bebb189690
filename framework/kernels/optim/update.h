// In-place optimizer updates: one pass over all parameters of a call, one launch on the GPU. Values
// that change from step to step (learning rate, step count, whether gradients overflowed) are read
// from memory on the parameters' device, so that a captured graph replays with their current
// values.
//
// A rule is a plain struct of settings with
//
//   static constexpr int kMinStates, kMaxStates    the number of states it keeps, at most three
//
// and next to it a function that runs once per call or block, in double:
//
//   template <class C> TAPER_HD auto prepare(const Rule&, double lr, double step)
//
// The object that it returns is called for every element with (p, grad, s1, s2, s3), in type C. A
// state that is not kept is passed as 0.
//
//   formula.h                   helpers for prepare
//   update_cpu.h, update.cuh    OnCpu::update and OnGpu::update for any rule
//   optim/algorithms/update_formulas.h  the rules compiled into the library
#pragma once

#include <vector>

#include "framework/base/host_device.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/optim/tensor_list.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::kernels {

// A parameter with its gradient and its optimizer state. All have the same size and memory order
// and are on one device. State is float32, or float64 for float64 parameters. Half parameters are
// computed in float and rounded once.
struct Update {
  Tensor param, grad;
  std::vector<Tensor> states;
  // A half tensor that receives the rounded new values, or undefined. If the gradient has its
  // dtype, `param` is the float32 master copy of this half parameter. Elements of `low` that differ
  // from the rounded master were set by the user and are first copied to the master.
  Tensor low;

  bool has_master() const { return low.defined() && grad.dtype() == low.dtype(); }
};

// Scalars of a step, as 0-dim tensors on the parameters' device.
struct StepScalars {
  Tensor lr;         // float64
  Tensor step;       // float64, counts from 1; undefined for rules that do not read it
  Tensor found_inf;  // float32: if not 0, the step does nothing; undefined: 0
  // Whether this update increments `step`, which make_step created: it uses step + 1 and stores it.
  bool advances = false;
};
// Creates a step count that starts with the value of `from`, or with 0. Its memory also has space
// for a counter that the kernels use.
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

// The roles of the tensors of an Update.
enum UpdateRole { kParam, kGrad, kState1, kState2, kState3, kLow, kUpdateRoles };

// Returns the entries of the updates of float64 parameters if `doubles`, and otherwise of all other
// updates.
std::vector<ListEntry<kUpdateRoles>> entries_of(const std::vector<Update>& updates, bool doubles);

using UpdateChunk = ListChunk<kUpdateRoles>;
TAPER_HD bool has_master(const UpdateChunk& chunk) {
  return chunk.data[kLow] && chunk.dtype[kGrad] == chunk.dtype[kLow];
}

// Returns the new value of a master for the half element `low`. `rounded` is the current master in
// low's precision. If they differ, the user has set `low`, and its value is returned.
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
