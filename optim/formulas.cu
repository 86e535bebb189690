#include "framework/kernels/optim/update.cuh"
#include "optim/optimizers.h"

template auto taper::optim::all_formulas<taper::kernels::OnGpu>();
