// All optimizers, and the list of those whose formulas the library holds compiled.
#pragma once

#include <tuple>

#include "optim/adadelta.h"
#include "optim/adagrad.h"
#include "optim/adam.h"
#include "optim/lion.h"
#include "optim/muon.h"
#include "optim/rmsprop.h"
#include "optim/sgd.h"

namespace taper::optim {

// Instantiates the updates of kernels::OnCpu (formulas_cpu.cpp) and OnGpu (formulas.cu).
template <class Device> auto all_formulas() {
  return std::tuple(
      &Device::template update<SGDOptions>, &Device::template update<AdamOptions>,
      &Device::template update<AdamWOptions>, &Device::template update<AdagradOptions>,
      &Device::template update<AdadeltaOptions>, &Device::template update<RMSpropOptions>,
      &Device::template update<LionOptions>, &Device::template update<MuonOptions>);
}

}  // namespace taper::optim
