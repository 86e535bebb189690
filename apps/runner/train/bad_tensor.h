// Where a step that went wrong first did.
#pragma once

#include <functional>
#include <string>

#include "modules/module.h"

namespace taper::v0::runner {

// Runs a step's forward and backward pass again (`step` returns the loss) and names the first
// tensor that is not finite: "the weight 'fc1.weight'", "the inputs of the batch", "the output of
// 'fc1' (Linear)", "the loss", "the gradient of 'fc1.weight'". Empty where all are finite this
// time. Buffers and gradients are left as they were, respectively dropped.
std::string first_bad_tensor(Module& model, const std::function<Tensor()>& step);

}  // namespace taper::v0::runner
