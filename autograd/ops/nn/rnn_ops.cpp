#include "autograd/ops/nn/rnn_ops.h"

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/base/dtype.h"
#include "framework/kernels/rnn/rnn.h"
#include "framework/profiler/trace.h"

namespace taper::v0 {
namespace {

using kernels::CellGradients;
using kernels::CellStep;

// The gradients that reach the outputs of a step. Undefined ones count as zeros.
struct StepGradients {
  Tensor dh, dc;
  Tensor dgates;  // [B, 4H]; only in a second backward pass
};

// Returns the gradient with respect to the argument of the function, from its result y.
Tensor through_sigmoid(const Tensor& dy, const Tensor& y) { return dy * y * (1 - y); }
Tensor through_tanh(const Tensor& dy, const Tensor& y) { return dy * (1 - y * y); }

// Returns the sum of a and b, of which one may be undefined.
Tensor sum_of(const Tensor& a, const Tensor& b) {
  if (!a.defined()) return b;
  return b.defined() ? a + b : a;
}

// Splits the gates [B, 4H] into four views [B, H]. Returns undefined tensors if they are undefined.
std::vector<Tensor> unit_gates(const Tensor& gates) {
  if (!gates.defined()) return std::vector<Tensor>(4);
  return split(gates, std::vector<int64_t>(4, gates.size(1) / 4), 1);
}

// The backward passes of a step in differentiable functions, equal to kernels::rnn_cell_backward()
// if dgates is undefined. The gates are outputs of the node, so that their gradients return to it.
CellGradients lstm_backward(const StepGradients& d, const CellStep& step, const Tensor& c) {
  const std::vector<Tensor> gates = unit_gates(step.gates), extra = unit_gates(d.dgates);
  const Tensor &i = gates[0], &f = gates[1], &g = gates[2], &o = gates[3];
  const Tensor bent = tanh(step.c);
  const Tensor dh = d.dh.defined() ? d.dh : zeros_like(c);
  const Tensor dafter = sum_of(through_tanh(dh * o, bent), d.dc);
  const Tensor dgx = cat({through_sigmoid(sum_of(dafter * g, extra[0]), i),
                          through_sigmoid(sum_of(dafter * c, extra[1]), f),
                          through_tanh(sum_of(dafter * i, extra[2]), g),
                          through_sigmoid(sum_of(dh * bent, extra[3]), o)},
                         1);
  return {dgx, dgx, dafter * f};
}

CellGradients gru_backward(const StepGradients& d, const CellStep& step, const Tensor& h) {
  const std::vector<Tensor> gates = unit_gates(step.gates), extra = unit_gates(d.dgates);
  const Tensor &r = gates[0], &z = gates[1], &n = gates[2], &gh_n = gates[3];
  const Tensor dh = d.dh.defined() ? d.dh : zeros_like(h);
  const Tensor dn = through_tanh(sum_of(dh * (1 - z), extra[2]), n);
  const Tensor dr = through_sigmoid(sum_of(dn * gh_n, extra[0]), r);
  const Tensor dz = through_sigmoid(sum_of(dh * (h - n), extra[1]), z);
  return {cat({dr, dz, dn}, 1), cat({dr, dz, sum_of(dn * r, extra[3])}, 1), dh * z};
}

// Half types compute in float, like the fused kernels.
CellGradients composed_backward(bool lstm, const StepGradients& d, const CellStep& step,
                                const Tensor& state) {
  const DType dtype = state.dtype(), wide = accumulate_type(dtype);
  const auto to_wide = [&](const Tensor& x) { return x.defined() ? x.to(wide) : x; };
  const StepGradients dy{to_wide(d.dh), to_wide(d.dc), to_wide(d.dgates)};
  const CellStep saved{{}, to_wide(step.c), to_wide(step.gates)};
  const auto back = lstm ? lstm_backward : gru_backward;
  const CellGradients out = back(dy, saved, to_wide(state));
  return {out.dgx.to(dtype), out.dgh.to(dtype), out.dstate.to(dtype)};
}

CellStep step(bool lstm, const Tensor& gx, const Tensor& gh, const Tensor& state) {
  const CellStep out = kernels::rnn_cell(lstm, gx, gh, state);
  if (is_tracing() && lstm) note_traced({"lstm_cell", {gx, gh, state}, {out.h, out.c}, {}});
  if (!lstm) trace("gru_cell", out.h, {gx, gh, state});
  if (!needs_grad({gx, gh, state})) return out;
  const Tensor outputs[] = {out.h, out.gates, out.c};
  const TensorRef inputs[] = {gx, gh, state};
  record_many(lstm ? "ThnnFusedLstmCellBackward0" : "ThnnFusedGruCellBackward0",
              {outputs, lstm ? size_t(3) : size_t(2)}, inputs,
              [lstm, gates = SavedTensor::output(out.gates, 1), state = SavedTensor(state),
               c = lstm ? SavedTensor::output(out.c, 2) : SavedTensor()](Gradients& g) {
                const StepGradients dy{g.dy(0), lstm ? g.dy(2) : Tensor(), g.dy(1)};
                const CellStep saved{{}, c.get(g), gates.get(g)};
                const bool composed = is_grad_enabled() || dy.dgates.defined();
                const CellGradients d =
                    composed ? composed_backward(lstm, dy, saved, state.get(g))
                             : kernels::rnn_cell_backward(lstm, dy.dh, dy.dc, saved, state.get(g));
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
