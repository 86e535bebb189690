#include "modules/layers/rnn_layers.h"

#include <cmath>

#include "autograd/autocast.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "modules/init.h"
#include "modules/layers/repr.h"

namespace taper::v0 {
namespace {

int64_t positive(const char* name, int64_t n) {
  return checked(n, n > 0, name, " must be greater than zero");
}

void check_options(const RnnOptions& o, int64_t hidden, int64_t gates) {
  require<ValueError>(
      o.dropout >= 0 && o.dropout <= 1,
      "dropout should be a number in range [0, 1] representing the probability of an element "
      "being zeroed");
  require<ValueError>(o.proj_size >= 0,
                      "proj_size should be a positive integer or zero to disable projections");
  if (o.proj_size >= hidden) throw ValueError("proj_size has to be smaller than hidden_size");
  require<ValueError>(o.proj_size <= 0 || gates == 4,
                      "proj_size argument is only supported for LSTM, not RNN or GRU");
}

// Creates the parameters of one layer and direction in `owner`. Their names end in the suffix. h
// has `width` units.
RnnWeights drawn(Module& owner, const std::string& suffix, int64_t gates, int64_t in,
                 int64_t hidden, int64_t width, bool bias, Device device) {
  const auto one = [&](const char* name, const Shape& shape, bool is_there = true) {
    if (!is_there) return Parameter();
    const double bound = 1 / std::sqrt(double(hidden));
    return Parameter(owner, name + suffix, uniform_within(bound, shape, device));
  };
  (void)positive("input_size", in);
  const int64_t rows = checked_mul(gates, positive("hidden_size", hidden));
  return {one("weight_ih", {rows, in}), one("weight_hh", {rows, width}),
          one("bias_ih", {rows}, bias), one("bias_hh", {rows}, bias),
          one("weight_hr", {width, hidden}, width != hidden)};
}

// Returns the state after one step.
LstmState advance(const RnnWeights& w, int64_t gates, RnnNonlinearity nonlinearity,
                  const Tensor& gx, const LstmState& s) {
  const Tensor gh = linear(s.h, w.weight_hh, w.bias_hh);
  if (gates == 3) return {gru_cell(gx, gh, s.h), {}};
  if (gates == 1)
    return {nonlinearity == RnnNonlinearity::kRelu ? relu(gx + gh) : tanh(gx + gh), {}};
  LstmState next = lstm_cell(gx, gh, s.c);
  if (w.weight_hr.defined()) next.h = linear(next.h, w.weight_hr);
  return next;
}

// Applies f to the tensors that are defined.
LstmState mapped(const LstmState& s, const auto& f) {
  const auto one = [&](const Tensor& x) { return x.defined() ? f(x) : x; };
  return {one(s.h), one(s.c)};
}

// Converts a state to the dtype of the gates, which autocast may have changed.
Tensor started(const Tensor& s, const Tensor& gates, int64_t B, int64_t width) {
  if (s.defined()) return s.to(gates.dtype());
  return zeros({B, width}, {.dtype = gates.dtype(), .device = gates.device()});
}

}  // namespace

RnnBase::RnnBase(IntArg in, IntArg hidden, IntArg gates, const RnnOptions& o)
    : input_size(positive("input_size", in)),
      hidden_size(positive("hidden_size", hidden)),
      options(o),
      gates_(gates) {
  check_options(o, hidden, gates);
  for (int64_t i = 0; i < checked_mul(positive("num_layers", o.num_layers), directions()); ++i) {
    const int64_t layer = i / directions();
    const std::string suffix =
        concat_to_string("_l", layer, i % directions() == 1 ? "_reverse" : "");
    cells.push_back(drawn(*this, suffix, gates, layer == 0 ? int64_t(in) : directions() * width(),
                          hidden, width(), o.bias, o.device));
  }
}

RnnResult RnnBase::operator()(const Tensor& x, const RnnState& state) {
  return call_with_hooks([this](const auto&... a) { return run(a...); }, x, state);
}

void RnnBase::check_input(const Tensor& x) const {
  require(x.size(-1) == input_size, "input.size(-1) must be equal to input_size. Expected ",
          input_size, ", got ", x.size(-1));
  const DType own = cells[0].weight_ih->dtype();
  require<ValueError>(x.dtype() == own || autocasts(x), "RNN input dtype (", x.dtype(),
                      ") does not match weight dtype (", own, "). Convert the input to ", own,
                      ", or the model to ", x.dtype(), ", with to()");
}

void RnnBase::check_state(const Tensor& x, const RnnState& state,
                          std::optional<int64_t> batch) const {
  const bool lstm = gates_ == 4;
  const int want_dim = batch ? 3 : 2;
  const auto dim = [&](const Tensor& s) { return s.defined() ? s.dim() : want_dim; };
  if (dim(state.h) != want_dim || dim(state.c) != want_dim) {
    throw Error("For ", batch ? "batched 3-D" : "unbatched 2-D", " input, hx",
                lstm ? " and cx" : "", " should also be ", want_dim, "-D but got ",
                lstm ? concat_to_string("(", dim(state.h), "-D, ", dim(state.c), "-D) tensors")
                     : concat_to_string(dim(state.h), "-D tensor"));
  }
  for (const Tensor* s : {&state.h, &state.c}) {
    if (!s->defined()) continue;
    Shape want{int64_t(cells.size()), s == &state.h ? width() : hidden_size};
    if (batch) want.insert(1, *batch);
    if (s->shape() != want) {
      const char* number = s == &state.h ? "[0]" : "[1]";
      throw Error("Expected hidden", lstm ? number : "", " size ", py(want), ", got ", s->shape());
    }
    require(s->dtype() == x.dtype() || autocasts(x),
            "Input and hidden tensors are not the same dtype, found input tensor with ",
            scalar_type_name(x.dtype()), " and hidden tensor with ", scalar_type_name(s->dtype()));
  }
}

// Runs one layer in one direction. Maps rows [sum of batch_sizes, in] to [sum of batch_sizes,
// width]. `state` [B, ...] is replaced by the state after the last step of each sequence. Sequences
// are sorted by decreasing length, and the first batch_sizes[t] of them have a step t. In the
// forward direction, shorter sequences therefore end earlier; in the backward direction, they start
// later.
Tensor RnnBase::run_cell(const RnnWeights& cell, const Tensor& rows, const Sizes& batch_sizes,
                         bool reverse, RnnState& state) const {
  const std::vector<Tensor> gx = split(linear(rows, cell.weight_ih, cell.bias_ih), batch_sizes, 0);
  const int64_t T = std::ssize(gx), B = batch_sizes[0];
  const bool lstm = gates_ == 4;
  const LstmState begin{started(state.h, gx[0], B, width()),
                        lstm ? started(state.c, gx[0], B, hidden_size) : Tensor()};
  const auto part = [](const LstmState& s, int64_t from, int64_t to) {
    return mapped(s, [&](const Tensor& x) { return x.narrow(0, from, to - from); });
  };
  const auto joined = [&](const LstmState& a, const LstmState& b) {
    return LstmState{cat({a.h, b.h}, 0), lstm ? cat({a.c, b.c}, 0) : a.c};
  };
  std::vector<LstmState> ended;
  std::vector<Tensor> outputs(gx.size());
  int64_t running = reverse ? batch_sizes.back() : B;
  LstmState s = running == B ? begin : part(begin, 0, running);
  for (int64_t step = 0; step < T; ++step) {
    const size_t t = size_t(reverse ? T - 1 - step : step);
    const int64_t now = batch_sizes[t];
    if (now > running) s = joined(s, part(begin, running, now));
    if (now < running) {
      ended.push_back(part(s, now, running));
      s = part(s, 0, now);
    }
    running = now;
    s = advance(cell, gates_, options.nonlinearity, gx[t], s);
    outputs[t] = s.h;
  }
  for (auto it = ended.rbegin(); it != ended.rend(); ++it) s = joined(s, *it);
  state = s;
  return cat(outputs, 0);
}

// Runs all layers. rows is [sum of batch_sizes, input_size]. `state` and the returned states are
// [num_layers * directions, B, ...].
RnnResult RnnBase::run_rows(Tensor rows, const Sizes& batch_sizes, const RnnState& state) const {
  std::vector<Tensor> h_n, c_n;
  for (size_t i = 0; i < cells.size();) {
    if (i > 0) rows = dropout(rows, options.dropout, is_training());
    std::vector<Tensor> sides;
    for (int64_t d = 0; d < directions(); ++d, ++i) {
      RnnState own = mapped(state, [&](const Tensor& s) { return s.select(0, int64_t(i)); });
      sides.push_back(run_cell(cells[i], rows, batch_sizes, d == 1, own));
      h_n.push_back(own.h);
      c_n.push_back(own.c);
    }
    rows = sides.size() == 1 ? sides[0] : cat(sides, 1);
  }
  return {rows, stack(h_n), gates_ == 4 ? stack(c_n) : Tensor()};
}

RnnResult RnnBase::run(const Tensor& x, const RnnState& state) const {
  if (x.dim() != 2 && x.dim() != 3) {
    throw ValueError(type_name(), ": Expected input to be 2D or 3D, got ", x.dim(), "D instead");
  }
  check_input(x);
  const bool batched = x.dim() == 3, batch_first = batched && options.batch_first;
  require(x.size(batch_first ? 1 : 0) != 0, "Expected sequence length to be larger than 0 in RNN");
  const Tensor by_time = batch_first ? x.transpose(0, 1) : batched ? x : x.unsqueeze(1);
  const int64_t T = by_time.size(0), B = by_time.size(1);
  check_state(x, state, batched ? std::optional(B) : std::nullopt);
  const Tensor rows = by_time.reshape({T * B, input_size});
  const Sizes sizes(size_t(T), B);
  const auto with_batch = [](const Tensor& s) { return s.unsqueeze(1); };
  const auto out = run_rows(rows, sizes, batched ? state : mapped(state, with_batch));
  const Tensor y = out.output.view({T, B, directions() * width()});
  if (batched) return {batch_first ? y.transpose(0, 1) : y, out.h_n, out.c_n};
  const auto without = [](const Tensor& s) { return s.squeeze(1); };
  const auto [h_n, c_n] = mapped({out.h_n, out.c_n}, without);
  return {without(y), h_n, c_n};
}

PackedRnnResult RnnBase::operator()(const PackedSequence& x, const RnnState& state) {
  const auto reordered = [](const RnnState& s, const Tensor& order) {
    return order.defined() ? mapped(s, [&](const Tensor& t) { return index_select(t, 1, order); })
                           : s;
  };
  const auto run_packed = [&](PackedSequence y, const RnnState& begin) {
    require<ValueError>(!y.batch_sizes.empty(), type_name(),
                        ": the packed sequence has no steps: its batch_sizes are empty");
    require(y.data.dim() == 2, "input must have 2 dimensions, got ", y.data.dim());
    check_input(y.data);
    check_state(y.data, begin, y.batch_sizes[0]);
    const auto [rows, h, c] = run_rows(y.data, y.batch_sizes, reordered(begin, y.sorted_indices));
    const auto [h_n, c_n] = reordered({h, c}, y.unsorted_indices);
    y.data = rows;
    return PackedRnnResult{y, h_n, c_n};
  };
  return call_with_hooks(run_packed, x, state);
}

std::string RnnBase::extra_repr() const {
  const RnnOptions& o = options;
  std::string text = concat_to_string(input_size, ", ", hidden_size);
  if (o.proj_size != 0) text += ", " + fields("proj_size", o.proj_size);
  if (o.num_layers != 1) text += ", " + fields("num_layers", o.num_layers);
  if (!o.bias) text += ", bias=False";
  if (o.batch_first) text += ", batch_first=True";
  if (o.dropout != 0) text += ", " + fields("dropout", o.dropout);
  if (o.bidirectional) text += ", bidirectional=True";
  return text;
}

RnnCellBase::RnnCellBase(IntArg in, IntArg hidden, IntArg gates, const RnnCellOptions& o)
    : RnnWeights(drawn(*this, "", gates, in, hidden, hidden, o.bias, o.device)),
      input_size(in),
      hidden_size(hidden),
      options(o),
      gates_(gates) {}

Tensor RnnCellBase::operator()(const Tensor& x, const Tensor& h) {
  return call_with_hooks(
      [this](const Tensor& a, const Tensor& b) {
        return step(a, {b, {}}).h;
      },
      x, h);
}

LstmState LSTMCell::operator()(const Tensor& x, const LstmState& state) {
  return call_with_hooks([this](const auto&... a) { return step(a...); }, x, state);
}

LstmState RnnCellBase::step(const Tensor& x, const LstmState& state) const {
  const bool lstm = gates_ == 4;
  if (x.dim() != 1 && x.dim() != 2) {
    throw ValueError(type_name(), ": Expected input to be 1D or 2D, got ", x.dim(), "D instead");
  }
  const bool batched = x.dim() == 2;
  const auto row = [](const Tensor& t) { return t.unsqueeze(0); };
  const Tensor in = batched ? x : row(x);
  require(in.size(1) == input_size, "input has inconsistent input_size: got ", in.size(1),
          " expected ", input_size);
  LstmState s = batched ? state : mapped(state, row);
  for (const Tensor* part : {&s.h, &s.c}) {
    const int number = part == &s.h ? 0 : 1;
    if (!part->defined()) continue;
    if (part->dim() != 2) {
      throw ValueError(type_name(), ": Expected ",
                       lstm ? concat_to_string("hx[", number, "]") : "hidden",
                       " to be 1D or 2D, got ", part->dim() - (batched ? 0 : 1), "D instead");
    }
    require(part->size(1) == hidden_size, "hidden", number, " has inconsistent hidden_size: got ",
            part->size(1), ", expected ", hidden_size);
    require(part->size(0) == in.size(0), "Input batch size ", in.size(0), " doesn't match hidden",
            number, " batch size ", part->size(0));
  }
  const Tensor gx = linear(in, weight_ih, bias_ih);
  s.h = started(s.h, gx, in.size(0), hidden_size);
  if (lstm) s.c = started(s.c, gx, in.size(0), hidden_size);
  s = advance(*this, gates_, options.nonlinearity, gx, s);
  return batched ? s : mapped(s, [](const Tensor& t) { return t.squeeze(0); });
}

std::string RnnCellBase::extra_repr() const {
  std::string text = concat_to_string(input_size, ", ", hidden_size);
  if (!options.bias) text += ", bias=False";
  if (gates_ == 1 && options.nonlinearity != RnnNonlinearity::kTanh) {
    text += concat_to_string(", nonlinearity=", options.nonlinearity);
  }
  return text;
}

}  // namespace taper::v0
