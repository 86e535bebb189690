// One step of an LSTM or a GRU, fused: both parts of the gates and the state before it give the
// state after it. B rows, H hidden units; an LSTM has the gates i, f, g, o and the state c, a GRU
// the gates r, z, n and the state h.
#pragma once

#include "framework/kernels/common/dispatch.h"

namespace taper::v0::kernels {

struct CellStep {
  Tensor h, c;   // [B, H]; c of an LSTM only
  Tensor gates;  // [B, 4H], for the backward pass: the gates; of a GRU also gh's part of n
};
// gx and gh [B, 4H] or [B, 3H], state [B, H].
CellStep rnn_cell(bool lstm, const Tensor& gx, const Tensor& gh, const Tensor& state);

struct CellGradients {
  Tensor dgx, dgh, dstate;  // dgh is dgx for an LSTM
};
// state: that before the step. One of dh and dc may be undefined.
CellGradients rnn_cell_backward(bool lstm, const Tensor& dh, const Tensor& dc, const CellStep& step,
                                const Tensor& state);

// All dense, of one floating dtype.
template <class Backend> struct RnnKernels {
  static void forward(bool lstm, const CellStep& step, const Tensor& gx, const Tensor& gh,
                      const Tensor& state);
  static void backward(bool lstm, const CellGradients& out, const Tensor& dh, const Tensor& dc,
                       const CellStep& step, const Tensor& state);
};

}  // namespace taper::v0::kernels
