#include "autograd/ops/nn/rnn_ops.h"

#include "autograd/node.h"
#include "framework/kernels/rnn/rnn.h"
#include "framework/profiler/trace.h"

namespace taper::v0 {
namespace {

using kernels::CellStep;

CellStep step(bool lstm, const Tensor& gx, const Tensor& gh, const Tensor& state) {
  const CellStep out = kernels::rnn_cell(lstm, gx, gh, state);
  if (is_tracing() && lstm) note_traced({"lstm_cell", {gx, gh, state}, {out.h, out.c}, {}});
  if (!lstm) trace("gru_cell", out.h, {gx, gh, state});
  if (!needs_grad({gx, gh, state})) return out;
  const Tensor outputs[] = {out.h, out.c};
  const TensorRef inputs[] = {gx, gh, state};
  record_many(lstm ? "ThnnFusedLstmCellBackward0" : "ThnnFusedGruCellBackward0",
              {outputs, lstm ? size_t(2) : size_t(1)}, inputs,
              [lstm, gates = out.gates, state = SavedTensor(state),
               c = lstm ? SavedTensor::output(out.c, 1) : SavedTensor()](Gradients& g) {
                const Tensor dh = g.dy(0), dc = lstm ? g.dy(1) : Tensor();
                refuse_second_derivative(lstm ? "lstm_cell" : "gru_cell", dh.defined() ? dh : dc);
                const kernels::CellGradients d =
                    kernels::rnn_cell_backward(lstm, dh, dc, {{}, c.get(g), gates}, state.get(g));
                g.dx(0) = d.dgx;
                g.dx(1) = d.dgh;
                g.dx(2) = d.dstate;
              });
  return out;
}

}  // namespace

LstmState lstm_cell(const Tensor& gx, const Tensor& gh, const Tensor& c) {
  const CellStep out = step(true, gx, gh, c);
  return {out.h, out.c};
}

Tensor gru_cell(const Tensor& gx, const Tensor& gh, const Tensor& h) {
  return step(false, gx, gh, h).h;
}

}  // namespace taper::v0
