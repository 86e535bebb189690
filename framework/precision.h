// How exactly float32 products are computed on a GPU
// (https://pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html).
#pragma once

#include <string>

namespace taper {

// "highest" (the default): float32 products and convolutions multiply in float32. "high": their
// operands are rounded to TF32's 10 bits of mantissa, several times faster. For the whole process;
// unlike PyTorch's, this one switch decides for cuDNN's convolutions too. The CPU always multiplies
// in float32. Throws ValueError for anything else.
void set_float32_matmul_precision(const std::string& precision);
std::string get_float32_matmul_precision();
// Whether it is "high".
bool allows_tf32();

}  // namespace taper
