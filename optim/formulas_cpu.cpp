#include "framework/kernels/optim/update_cpu.h"
#include "optim/optimizers.h"

template auto taper::optim::all_formulas<taper::kernels::OnCpu>();
