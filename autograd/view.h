// Views and in-place changes on the tape, modeled on torch/csrc/autograd/variable.h.
//
// A view that is created while recording knows its base. Writing to the view gives the base a new
// grad_fn, CopySlices. It passes the gradient of the written part to the op that computed the new
// values, and the gradient of the rest to the base's previous node. The base counts these changes.
// A view whose count is older gets a new grad_fn, AsStrided, when it is next used. AsStrided
// represents the view as a strided window of the base. That suffices because every view is a
// strided window of its base's memory.
#pragma once

#include "autograd/node.h"

namespace taper::v0 {

// Records that y is a view of x.
void track_view(const Tensor& y, const Tensor& x);

// Throws Error, with PyTorch's message, if x must not be changed in place. `recorded` states
// whether the change is recorded on the tape.
void check_changeable(const char* op, const Tensor& x, bool recorded);
// Gives x the node of y, after x's memory has been overwritten with y's values.
void rebase(const Tensor& x, const Tensor& y);

}  // namespace taper::v0
