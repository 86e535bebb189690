#include "framework/kernels/optim/update.cuh"
#include "optim/algorithms/formulas.h"

template auto taper::optim::all_formulas<taper::kernels::OnGpu>();
