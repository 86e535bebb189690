// Views and in-place changes on the tape, as PyTorch does it (torch/csrc/autograd/variable.h).
//
// A view that is made while the tape watches knows its base. Writing to it gives the base a new
// grad_fn, CopySlices: what was written flows to the writer, the rest to the base as it was. The
// base counts these changes; a view that has not seen the latest count gets a new grad_fn when it
// is next used, AsStrided: the window of the base that it shows. All views are strided windows of
// their base's memory, so geometry says it all.
#pragma once

#include "autograd/node.h"

namespace taper::v0 {

// Notes that y is a view of x.
void track_view(const Tensor& y, const Tensor& x);

// Refuses what must not be changed in place, in PyTorch's words; `recorded` says whether the change
// goes onto the tape.
void check_changeable(const char* op, const Tensor& x, bool recorded);
// Gives x, whose memory has just been changed to y's values, y's place on the tape.
void rebase(const Tensor& x, const Tensor& y);

}  // namespace taper::v0
