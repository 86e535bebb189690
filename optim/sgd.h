// Stochastic gradient descent (https://pytorch.org/docs/stable/generated/torch.optim.SGD.html).
#pragma once

#include "optim/optimizer.h"

namespace taper::optim {

using kernels::SGDOptions;
using SGD = OptimizerOf<SGDOptions>;

}  // namespace taper::optim
