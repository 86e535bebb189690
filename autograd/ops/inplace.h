// Functions that change their first argument, as do the methods of Tensor that end in "_". Refused,
// in PyTorch's words, on a leaf that requires grad and on views of one; on the tape the changed
// tensor, its views and the tensor that it is a view of are what was written from then on. Each
// bumps the memory's version, so that a backward pass that saved the old values is refused.
#pragma once

#include "framework/random.h"
#include "framework/tensor.h"

namespace taper::v0 {

// Crosses devices; broadcasts source; converts its dtype.
Tensor copy_(const Tensor& x, const Tensor& source, BoolArg non_blocking = false);
Tensor fill_(const Tensor& x, Scalar value);
// Draws anew in place, from the generator given, else from default_generator().
Tensor uniform_(const Tensor& x, RealArg low = 0, RealArg high = 1, Generator* generator = nullptr);
Tensor normal_(const Tensor& x, RealArg mean = 0, RealArg std = 1, Generator* generator = nullptr);
// 1 with probability p, else 0; any dtype.
Tensor bernoulli_(const Tensor& x, RealArg p = 0.5, Generator* generator = nullptr);

}  // namespace taper::v0
