#include "modules/rnn.h"

#include <cmath>

#include "autograd/autocast.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/random.h"
#include "autograd/ops/rnn.h"
#include "autograd/ops/shape.h"
#include "framework/factories.h"
#include "modules/init.h"
#include "modules/repr.h"

namespace taper::inline v0 {
namespace {

int64_t positive(const char* name, int64_t n) {
  if (n > 0) return n;
  throw ValueError(cat(name, " must be greater than zero"));
}

void check_probability(double p) {
  if (p >= 0 && p <= 1) return;
  throw ValueError(
      "dropout should be a number in range [0, 1] representing the probability of an element being "
      "zeroed");
}

}  // namespace

RnnBase::RnnBase(int64_t in, int64_t hidden, int64_t gates, const RnnOptions& o)
    : input_size(positive("input_size", in)),
      hidden_size(positive("hidden_size", hidden)),
      options(o),
      gates_(gates) {
  check_probability(o.dropout);
  const double bound = 1 / std::sqrt(double(hidden));
  const int64_t rows = checked_mul(gates, hidden);
  for (int64_t i = 0; i < checked_mul(positive("num_layers", o.num_layers), directions()); ++i) {
    const int64_t layer = i / directions();
    const std::string suffix = cat("_l", layer, i % directions() == 1 ? "_reverse" : "");
    const auto drawn = [&](const char* name, const Shape& shape) {
      return Parameter(*this, name + suffix, uniform_within(bound, shape, o.device));
    };
    const auto bias = [&](const char* name) { return o.bias ? drawn(name, {rows}) : Parameter(); };
    cells.push_back(Cell{drawn("weight_ih", {rows, layer == 0 ? in : directions() * hidden}),
                         drawn("weight_hh", {rows, hidden}), bias("bias_ih"), bias("bias_hh")});
  }
}

void RnnBase::check(const Tensor& x, const RnnState& state) const {
  if (x.dim() != 2 && x.dim() != 3) {
    throw ValueError(
        cat(type_name(), ": Expected input to be 2D or 3D, got ", x.dim(), "D instead"));
  }
  if (x.size(-1) != input_size) {
    throw Error(cat("input.size(-1) must be equal to input_size. Expected ", input_size, ", got ",
                    x.size(-1)));
  }
  const DType own = cells[0].weight_ih->dtype();
  const bool casts = autocasts(x);
  if (x.dtype() != own && !casts) {
    throw ValueError(cat("RNN input dtype (torch.", x.dtype(),
                         ") does not match weight dtype (torch.", own,
                         "). Convert input: input.to(torch.", own,
                         "), or convert model: model.to(torch.", x.dtype(), ")"));
  }
  const bool batched = x.dim() == 3, lstm = gates_ == 4;
  if (x.size(batched && options.batch_first ? 1 : 0) == 0) {
    throw Error("Expected sequence length to be larger than 0 in RNN");
  }
  Shape want{int64_t(cells.size()), hidden_size};
  if (batched) want.insert(1, x.size(options.batch_first ? 0 : 1));
  const auto dim = [&](const Tensor& s) { return s.defined() ? s.dim() : want.size(); };
  if (dim(state.h) != want.size() || dim(state.c) != want.size()) {
    throw Error(cat("For ", batched ? "batched 3-D" : "unbatched 2-D", " input, hx",
                    lstm ? " and cx" : "", " should also be ", want.size(), "-D but got ",
                    lstm ? cat("(", dim(state.h), "-D, ", dim(state.c), "-D) tensors")
                         : cat(dim(state.h), "-D tensor")));
  }
  for (const Tensor* s : {&state.h, &state.c}) {
    if (!s->defined()) continue;
    if (s->shape() != want) {
      const char* number = s == &state.h ? "[0]" : "[1]";
      throw Error(
          cat("Expected hidden", lstm ? number : "", " size ", py(want), ", got ", s->shape()));
    }
    if (s->dtype() != x.dtype() && !casts) {
      throw Error(cat("Input and hidden tensors are not the same dtype, found input tensor with ",
                      scalar_type_name(x.dtype()), " and hidden tensor with ",
                      scalar_type_name(s->dtype())));
    }
  }
}

// rows [T * B, in] to [T * B, hidden_size]. The state [B, hidden_size] becomes that behind the last
// step.
Tensor RnnBase::run_cell(const Cell& cell, const Tensor& rows, int64_t T, bool reverse,
                         RnnState& state) const {
  const int64_t B = rows.size(0) / T;
  const std::vector<Tensor> gx =
      split(linear(rows, cell.weight_ih, cell.bias_ih), std::vector<int64_t>(size_t(T), B), 0);
  // The state follows the gates' dtype, which autocast may have changed.
  const auto start = [&](const Tensor& s) {
    if (s.defined()) return s.to(gx[0].dtype());
    return zeros({B, hidden_size}, {.dtype = gx[0].dtype(), .device = rows.device()});
  };
  LstmState s{start(state.h), gates_ == 4 ? start(state.c) : Tensor()};
  std::vector<Tensor> outputs(gx.size());
  for (int64_t step = 0; step < T; ++step) {
    const size_t t = size_t(reverse ? T - 1 - step : step);
    const Tensor gh = linear(s.h, cell.weight_hh, cell.bias_hh);
    s = gates_ == 4 ? lstm_cell(gx[t], gh, s.c) : LstmState{gru_cell(gx[t], gh, s.h), {}};
    outputs[t] = s.h;
  }
  state = {s.h, s.c};
  return cat(outputs, 0);
}

RnnResult RnnBase::run(const Tensor& x, const RnnState& state) const {
  check(x, state);
  const bool batched = x.dim() == 3, turned = batched && options.batch_first;
  const Tensor by_time = turned ? x.transpose(0, 1) : batched ? x : x.unsqueeze(1);
  const int64_t T = by_time.size(0), B = by_time.size(1);
  Tensor rows = by_time.reshape({T * B, input_size});
  std::vector<Tensor> h_n, c_n;
  for (size_t i = 0; i < cells.size();) {
    if (i > 0) rows = dropout(rows, options.dropout, is_training());
    std::vector<Tensor> sides;
    for (int64_t d = 0; d < directions(); ++d, ++i) {
      const auto part = [&](const Tensor& s) {
        return s.defined() ? s.select(0, int64_t(i)).reshape({B, hidden_size}) : s;
      };
      RnnState own{part(state.h), part(state.c)};
      sides.push_back(run_cell(cells[i], rows, T, d == 1, own));
      h_n.push_back(own.h);
      c_n.push_back(own.c);
    }
    rows = sides.size() == 1 ? sides[0] : cat(sides, 1);
  }
  const Tensor y = rows.view({T, B, directions() * hidden_size});
  const auto stacked = [&](const std::vector<Tensor>& s) {
    return batched ? stack(s) : stack(s).squeeze(1);
  };
  return {turned    ? y.transpose(0, 1)
          : batched ? y
                    : y.squeeze(1),
          stacked(h_n), gates_ == 4 ? stacked(c_n) : Tensor()};
}

std::string RnnBase::extra_repr() const {
  const RnnOptions& o = options;
  std::string text = cat(input_size, ", ", hidden_size);
  if (o.num_layers != 1) text += ", " + fields("num_layers", o.num_layers);
  if (!o.bias) text += ", bias=False";
  if (o.batch_first) text += ", batch_first=True";
  if (o.dropout != 0) text += ", " + fields("dropout", o.dropout);
  if (o.bidirectional) text += ", bidirectional=True";
  return text;
}

}  // namespace taper::inline v0
