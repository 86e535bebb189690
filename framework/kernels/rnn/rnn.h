// One fused step of an LSTM or a GRU: computes the new state from both parts of the gates and the
// previous state. There are B rows and H hidden units. An LSTM has the gates i, f, g, o and the
// state c; a GRU has the gates r, z, n and the state h.
#pragma once

#include "framework/kernels/common/dispatch.h"

namespace taper::v0::kernels {

struct CellStep {
  Tensor h, c;   // [B, H]; c for an LSTM only
  Tensor gates;  // [B, 4H], saved for the backward pass: the gates; for a GRU also gh's part of n
};
// Computes one step. gx and gh are [B, 4H] or [B, 3H], state is [B, H].
CellStep rnn_cell(bool lstm, const Tensor& gx, const Tensor& gh, const Tensor& state);

struct CellGradients {
  Tensor dgx, dgh, dstate;  // dgh is dgx for an LSTM
};
// Returns the gradients of a step. `state` is the state before the step. One of dh and dc may be
// undefined.
CellGradients rnn_cell_backward(bool lstm, const Tensor& dh, const Tensor& dc, const CellStep& step,
                                const Tensor& state);

// All tensors are dense and have the same floating dtype.
template <class Backend> struct RnnKernels {
  static void forward(bool lstm, const CellStep& step, const Tensor& gx, const Tensor& gh,
                      const Tensor& state);
  static void backward(bool lstm, const CellGradients& out, const Tensor& dh, const Tensor& dc,
                       const CellStep& step, const Tensor& state);
};

}  // namespace taper::v0::kernels
