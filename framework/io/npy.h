// NumPy's file format for a single array
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
#pragma once

#include <string>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

// Writes a CPU tensor of any layout in format 1.0, row-major. The file is replaced atomically.
// Throws TypeError for a CUDA tensor and for bfloat16, which NumPy lacks; Error if x requires grad,
// with PyTorch's message for numpy(); OutputError with the path and the reason if the file cannot
// be written.
void save_npy(const std::string& path, const Tensor& x);

// Reads formats 1.0, 2.0 and 3.0 into a contiguous CPU tensor. Throws InputError with the path if
// the file is of another format, damaged, too short or too long, big-endian, of more than eight
// dimensions, or of a dtype that Taper lacks.
Tensor load_npy(const std::string& path);

}  // namespace taper::v0
