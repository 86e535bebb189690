// All optimizers, and the list of those whose formulas the library holds compiled.
#pragma once

#include <tuple>

#include "optim/algorithms/adagrad.h"
#include "optim/algorithms/adam.h"
#include "optim/algorithms/lbfgs.h"
#include "optim/algorithms/muon.h"
#include "optim/algorithms/sgd.h"

namespace taper::inline v0::optim {

template <class Device, class... Rules> auto formulas() {
  return std::tuple(&Device::template update<Rules>...);
}
// Instantiates the updates of kernels::OnCpu (formulas_cpu.cpp) and OnGpu (formulas.cu).
template <class Device> auto all_formulas() {
  return formulas<Device, SGDOptions, AdamOptions, AdamWOptions, AdamaxOptions, NAdamOptions,
                  RAdamOptions, AdagradOptions, AdadeltaOptions, RMSpropOptions, LionOptions,
                  MuonOptions>();
}

}  // namespace taper::inline v0::optim
