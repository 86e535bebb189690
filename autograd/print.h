// Printing tensors with what the tape knows of them.
#pragma once

#include <iosfwd>
#include <string>

#include "framework/tensor.h"

namespace taper {

// PyTorch's Python repr: "tensor([2., 4.], grad_fn=<MulBackward0>)"; a module's parameter has
// "Parameter containing:" on a line before it. Waits for the GPU when the tensor is there.
std::string to_string(const Tensor& x);
std::ostream& operator<<(std::ostream& out, const Tensor& x);

}  // namespace taper
