// Steps of recurrent layers (https://pytorch.org/docs/stable/generated/torch.nn.LSTMCell.html,
// .../torch.nn.GRUCell.html), without their matrix products: these leave the gates in two parts,
// gx = x W_ih^T + b_ih and gh = h W_hh^T + b_hh, so that gx can be made for all steps at once.
// Half types are computed in float.
#pragma once

#include "framework/tensor.h"

namespace taper::v0 {

// What an LSTM carries from step to step; undefined: zeros.
struct LstmState {
  Tensor h = {}, c = {};  // [B, H]
  void tensors(const auto& each) { each(h, c); }
};
// gx, gh [B, 4H] for the gates i, f, g, o; c [B, H].
LstmState lstm_cell(const Tensor& gx, const Tensor& gh, const Tensor& c);
// gx, gh [B, 3H] for the gates r, z, n; h [B, H], as the result.
Tensor gru_cell(const Tensor& gx, const Tensor& gh, const Tensor& h);

}  // namespace taper::v0
