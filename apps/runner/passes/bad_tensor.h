// Finds the first tensor of a step that is not finite.
#pragma once

#include <functional>
#include <string>

#include "modules/module.h"

namespace taper::v0::runner {

// Calls step(), which repeats the forward and backward pass of a step and returns the loss. Returns
// the name of the first tensor that is not finite: "the weight 'fc1.weight'", "the inputs of the
// batch", "the output of 'fc1' (Linear)", "the loss", "the gradient of 'fc1.weight'". Returns "" if
// all are finite in the repeated step. Restores the buffers and clears the gradients. Synchronizes.
std::string first_bad_tensor(Module& model, const std::function<Tensor()>& step);

}  // namespace taper::v0::runner
