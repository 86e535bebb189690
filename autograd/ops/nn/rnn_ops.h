// One step of a recurrent layer (https://pytorch.org/docs/stable/generated/torch.nn.LSTMCell.html,
// https://pytorch.org/docs/stable/generated/torch.nn.GRUCell.html), without its matrix products.
// Callers compute the gates in two parts, gx = x W_ih^T + b_ih and gh = h W_hh^T + b_hh, so that gx
// can be computed for all steps at once. Half types compute in float. Differentiable twice and
// more: with create_graph, the backward pass uses differentiable functions instead of one fused
// kernel.
#pragma once

#include "framework/tensor/tensor.h"

namespace taper::v0 {

// The state of an LSTM. Undefined tensors count as zeros.
struct LstmState {
  Tensor h = {}, c = {};  // [B, H]
  void tensors(const auto& each) { each(h, c); }
};
// Returns the state after a step of an LSTM. gx and gh are [B, 4H], with the gates in the order i,
// f, g, o; c is [B, H].
//
//   state = lstm_cell(linear(x, w_ih, b_ih), linear(state.h, w_hh, b_hh), state.c);
LstmState lstm_cell(const Tensor& gx, const Tensor& gh, const Tensor& c);
// Returns the state after a step of a GRU. gx and gh are [B, 3H], with the gates in the order r, z,
// n. h and the result are [B, H].
Tensor gru_cell(const Tensor& gx, const Tensor& gh, const Tensor& h);

}  // namespace taper::v0
