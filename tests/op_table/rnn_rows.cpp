#include <cmath>
#include <functional>

#include "autograd/ops/nn/rnn_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"

namespace taper::v0::test {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Returns both results in one array [2, B, H].
Array lstm_step(const std::vector<Array>& x) {
  const Array &gx = x[0], &gh = x[1], &c = x[2];
  const size_t B = size_t(c.shape[0]), H = size_t(c.shape[1]);
  Array y{{2, int64_t(B), int64_t(H)}, std::vector<double>(2 * B * H)};
  for (size_t b = 0; b < B; ++b) {
    for (size_t j = 0; j < H; ++j) {
      const auto gate = [&](size_t k) {
        const size_t at = (b * 4 + k) * H + j;
        return gx.v[at] + gh.v[at];
      };
      const double next = sigmoid(gate(1)) * c.v[b * H + j] + sigmoid(gate(0)) * std::tanh(gate(2));
      y.v[b * H + j] = sigmoid(gate(3)) * std::tanh(next);
      y.v[(B + b) * H + j] = next;
    }
  }
  return y;
}

Array gru_step(const std::vector<Array>& x) {
  const Array &gx = x[0], &gh = x[1], &h = x[2];
  const size_t B = size_t(h.shape[0]), H = size_t(h.shape[1]);
  Array y = h;
  for (size_t b = 0; b < B; ++b) {
    for (size_t j = 0; j < H; ++j) {
      const size_t r = b * 3 * H + j, z = r + H, n = z + H;
      const double reset = sigmoid(gx.v[r] + gh.v[r]), keep = sigmoid(gx.v[z] + gh.v[z]);
      const double fresh = std::tanh(gx.v[n] + reset * gh.v[n]);
      y.v[b * H + j] = (1 - keep) * fresh + keep * h.v[b * H + j];
    }
  }
  return y;
}

Tensor both(const LstmState& s) { return stack({s.h, s.c}); }
Tensor lstm(const Tensors& x) { return both(lstm_cell(x[0], x[1], x[2])); }

std::vector<std::vector<Shape>> samples(int64_t gates) {
  std::vector<std::vector<Shape>> out;
  for (const Shape& s : {Shape{2, 3}, Shape{1, 1}, Shape{3, 1}, Shape{5, 67}, Shape{0, 3},
                         Shape{2, 0}, Shape{3, 300}}) {
    const Shape g{s[0], gates * s[1]};
    out.push_back({g, g, s});
  }
  return out;
}

std::vector<Refusal> refusals(int64_t gates, std::function<Tensor(const Tensors&)> f) {
  const std::string name = gates == 4 ? "lstm_cell" : "gru_cell";
  const auto call = [f](std::vector<Shape> shapes, DType gates_dtype, DType state) {
    return [=](Device d) {
      return f({ones(shapes[0], {.dtype = gates_dtype, .device = d}),
                ones(shapes[1], {.dtype = gates_dtype, .device = d}),
                ones(shapes[2], {.dtype = state, .device = d})});
    };
  };
  const Shape g{2, gates * 3};
  const std::string expected =
      concat_to_string(name, ": expected both parts of the gates of shape [batch, ", gates,
                       " * hidden] and a state of shape [batch, hidden], got ");
  return {{"integers", call({g, g, {2, 3}}, kInt64, kInt64),
           concat_to_string("\"", name, "\" not implemented for 'Long'")},
          {"two dtypes", call({g, g, {2, 3}}, kFloat32, kFloat64),
           "expected scalar type Float but found Double"},
          {"hidden size", call({g, g, {2, 4}}, kFloat32, kFloat32), expected},
          {"batch", call({g, g, {3, 3}}, kFloat32, kFloat32), expected},
          {"gates", call({g, {1, gates * 3}, {2, 3}}, kFloat32, kFloat32), expected},
          {"dimensions", call({g, g, {6}}, kFloat32, kFloat32), expected}};
}

}  // namespace

std::vector<Row> rnn_rows() {
  const Row lstm_row{.name = "lstm_cell",
                     .f = lstm,
                     .reference = lstm_step,
                     .samples = samples(4),
                     .dtypes = floating(),
                     .tolerance = {.float32 = 1e-5},
                     .refusals = refusals(4, lstm),
                     .bench = {{256, 4096}, {256, 4096}, {256, 1024}}};
  std::vector<Row> rows(3, lstm_row);
  // The gradient reaches only one of the two results.
  for (const int64_t i : {0, 1}) {
    Row& row = rows[size_t(i) + 1];
    row.variant = i == 0 ? "h" : "c";
    row.f = [i](const Tensors& x) {
      const LstmState s = lstm_cell(x[0], x[1], x[2]);
      return i == 0 ? s.h : s.c;
    };
    row.reference = [i](const std::vector<Array>& x) {
      const Array y = lstm_step(x);
      const auto half = std::ptrdiff_t(y.v.size() / 2);
      return Array{x[2].shape, i == 0 ? std::vector(y.v.begin(), y.v.begin() + half)
                                      : std::vector(y.v.begin() + half, y.v.end())};
    };
    row.refusals.clear();
  }
  const auto gru = [](const Tensors& x) { return gru_cell(x[0], x[1], x[2]); };
  rows.push_back({.name = "gru_cell",
                  .f = gru,
                  .reference = gru_step,
                  .samples = samples(3),
                  .dtypes = floating(),
                  .tolerance = {.float32 = 1e-5},
                  .refusals = refusals(3, gru),
                  .bench = {{256, 3072}, {256, 3072}, {256, 1024}}});
  return rows;
}

}  // namespace taper::v0::test
