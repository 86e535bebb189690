#include "optim/algorithms/update_formulas.h"

#include "framework/kernels/optim/update.cuh"

template auto taper::optim::all_formulas<taper::kernels::OnGpu>();
