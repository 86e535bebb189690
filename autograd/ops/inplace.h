// Functions that change their first argument and return it. Refused, in PyTorch's words, on a leaf
// that requires grad; on the tape the changed tensor is the output of a new node. Each bumps the
// memory's version, so that a backward pass that saved the old values is refused.
#pragma once

#include "framework/random.h"
#include "framework/tensor.h"

namespace taper {

// Crosses devices; broadcasts source; converts its dtype.
void copy_(const Tensor& x, const Tensor& source, bool non_blocking = false);
void fill_(const Tensor& x, Scalar value);
void uniform_(const Tensor& x, double low, double high, Generator* generator = nullptr);
void normal_(const Tensor& x, double mean, double std, Generator* generator = nullptr);

}  // namespace taper
