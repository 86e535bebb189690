// Functions that change their first argument, like the methods of Tensor whose names end in "_".
// They return it.
//
// On the tape, the change applies to the tensor, to its views and to the tensor that it is a view
// of. They throw Error, with PyTorch's message, for a leaf that requires grad and for a view of
// one. Each increments the version of the memory, so that a backward pass that saved the old values
// throws Error.
#pragma once

#include "framework/factory/generator.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

// Copies source into x, from any device. Broadcasts source and converts its dtype.
Tensor copy_(const Tensor& x, const Tensor& source, BoolArg non_blocking = false);
Tensor fill_(const Tensor& x, Scalar value);
// Overwrite x with random numbers from `generator`, or from default_generator() if it is null.
Tensor uniform_(const Tensor& x, RealArg low = 0, RealArg high = 1, Generator* generator = nullptr);
Tensor normal_(const Tensor& x, RealArg mean = 0, RealArg std = 1, Generator* generator = nullptr);
// Writes 1 with probability p and 0 otherwise. x may have any dtype.
Tensor bernoulli_(const Tensor& x, RealArg p = 0.5, Generator* generator = nullptr);

}  // namespace taper::v0
