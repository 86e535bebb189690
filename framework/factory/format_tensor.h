// Formats tensors like PyTorch's Python repr, but without the prefix "torch." of a dtype. The
// options are those of print_options.h.
#pragma once

#include <string>
#include <string_view>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

// Returns for example "tensor([1., 2.], device='cuda:0', dtype=float64)". Beyond the
// threshold of 1000 elements, only the first and last three of each dimension are shown and copied
// from the GPU. Synchronizes.
// `tape_suffix` ("requires_grad=True", "grad_fn=<AddBackward0>") is appended unless it is empty.
// Users call to_string(x) of autograd/print.h, which supplies it.
std::string format_tensor(const Tensor& x, std::string_view tape_suffix = {});

}  // namespace taper::v0
