// NumPy's file of one array
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
#pragma once

#include <string>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

// Writes format 1.0, row-major, from a CPU tensor in any layout. Throws TypeError for a CUDA tensor
// and for bfloat16, which NumPy lacks, and Error for one that requires grad, in PyTorch's words for
// numpy(); OutputError with path and reason when the file cannot be written, which then stays as it
// was.
void save_npy(const std::string& path, const Tensor& x);

// Reads formats 1.0, 2.0 and 3.0 into a dense row-major CPU tensor. Throws InputError with the path
// for a file that is foreign, damaged, too short or too long, big-endian, of more than eight
// dimensions, or of a dtype that is not ours.
Tensor load_npy(const std::string& path);

}  // namespace taper::v0
