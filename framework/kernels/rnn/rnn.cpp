#include "framework/kernels/rnn/rnn.h"

#include "framework/kernels/elementwise/broadcast.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0::kernels {
namespace {

void check(const char* op, int64_t gates, const Tensor& gx, const Tensor& gh, const Tensor& state) {
  same_device(op, {&gx, &gh, &state}, {"input_gates", "hidden_gates", "hx"});
  check_floating(op, gx);
  for (const DType t : {gh.dtype(), state.dtype()}) {
    require(t == gx.dtype(), "expected scalar type ", scalar_type_name(gx.dtype()), " but found ",
            scalar_type_name(t), " (gates and state of ", op, ")");
  }
  require(state.dim() == 2 && gx.shape() == gh.shape() &&
              gx.shape() == Shape{state.size(0), gates * state.size(1)},
          op, ": expected both parts of the gates of shape [batch, ", gates,
          " * hidden] and a state of shape [batch, hidden], got ", gx.shape(), ", ", gh.shape(),
          " and ", state.shape());
}

// Creates [B, count * H] for a state [B, H].
Tensor make(const Tensor& state, int64_t count) {
  return Tensor::make({state.size(0), count * state.size(1)}, state.dtype(), state.device());
}

}  // namespace

CellStep rnn_cell(bool lstm, const Tensor& gx, const Tensor& gh, const Tensor& state) {
  check(lstm ? "lstm_cell" : "gru_cell", lstm ? 4 : 3, gx, gh, state);
  const CellStep step{make(state, 1), lstm ? make(state, 1) : Tensor(), make(state, 4)};
  on_device<RnnKernels>(state.device(),
                        [&](auto k) { k.forward(lstm, step, dense(gx), dense(gh), dense(state)); });
  return step;
}

CellGradients rnn_cell_backward(bool lstm, const Tensor& dh, const Tensor& dc, const CellStep& step,
                                const Tensor& state) {
  const auto given = [&](const Tensor& dy, bool used) {
    if (dy.defined() || !used) return dy.defined() ? dense(dy) : dy;
    const Tensor none = make(state, 1);
    fill(none, 0);
    return none;
  };
  CellGradients out{make(state, lstm ? 4 : 3), {}, make(state, 1)};
  out.dgh = lstm ? out.dgx : make(state, 3);
  on_device<RnnKernels>(state.device(), [&](auto k) {
    k.backward(lstm, out, given(dh, true), given(dc, lstm), step, dense(state));
  });
  return out;
}

}  // namespace taper::v0::kernels
