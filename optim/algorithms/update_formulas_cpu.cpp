#include "optim/algorithms/update_formulas.h"

#include "framework/kernels/optim/update_cpu.h"

template auto taper::optim::all_formulas<taper::kernels::OnCpu>();
