// Text of tensors, as PyTorch's Python repr writes it with its default print options
// (https://pytorch.org/docs/stable/generated/torch.set_printoptions.html), but for the "torch."
// before a dtype, which is left out.
#pragma once

#include <string>
#include <string_view>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

// "tensor([1., 2.], device='cuda:0', dtype=float64)". Beyond 1000 elements the first and last three
// of each dimension are shown, and only these are copied from the GPU (which is waited for).
// `tape_suffix` ("requires_grad=True", "grad_fn=<AddBackward0>") comes last; none when empty. Use
// to_string(x) of autograd/print.h, which knows it.
std::string format_tensor(const Tensor& x, std::string_view tape_suffix = {});

}  // namespace taper::v0
