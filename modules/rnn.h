// Recurrent layers (https://pytorch.org/docs/stable/generated/torch.nn.LSTM.html,
// .../torch.nn.GRU.html). There is neither a projection (proj_size) nor a packed sequence:
// sequences of a batch have one length, and what stands behind a shorter one's end is for the
// caller to mask.
#pragma once

#include "framework/describe.h"
#include "modules/module.h"

namespace taper::inline v0 {

struct RnnOptions {
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;  // on what each layer but the last gives, while training
  bool bidirectional = false;
  Device device = DeviceType::cpu;

  template <class V> void describe(V& v) {
    v("num_layers", num_layers, {1, 1000}, "layers above one another");
    v("bias", bias, "whether a bias is added");
    v("dropout", dropout, kBelowOne, "chance of a zero between layers");
    v("bidirectional", bidirectional, "a second one reads from the end");
  }
};

// h, c [num_layers * directions, B, hidden_size], or without B where the input is; layer by layer,
// forward before backward. Undefined: zeros. c is the LSTM's alone.
struct RnnState {
  Tensor h = {}, c = {};
  auto tensors() { return std::tie(h, c); }
};
struct RnnResult {
  Tensor output;    // of the last layer, directions side by side: [T, B, directions * hidden_size]
  Tensor h_n, c_n;  // after the last step; c_n is undefined for a GRU
  auto tensors() { return std::tie(output, h_n, c_n); }
};

// x [T, B, input_size], [B, T, input_size] with batch_first, or [T, input_size]. Parameters
// "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", and "..._reverse", are drawn from
// U(-1/sqrt(hidden_size), 1/sqrt(hidden_size)).
class RnnBase : public Module {
 public:
  // The output alone, from a state of zeros.
  Tensor forward(const Tensor& x) override { return run(x, {}).output; }
  using Module::operator();
  RnnResult operator()(const Tensor& x, const RnnState& state) {
    return within([this](const auto&... a) { return run(a...); }, x, state);
  }
  std::string extra_repr() const override;

  // One layer in one direction.
  struct Cell {
    Parameter weight_ih, weight_hh, bias_ih, bias_hh;
  };

  const int64_t input_size, hidden_size;
  const RnnOptions options;
  std::vector<Cell> cells;  // in the order of RnnState

 protected:
  // gates: 4 for an LSTM, 3 for a GRU.
  RnnBase(int64_t input_size, int64_t hidden_size, int64_t gates, const RnnOptions& options);

 private:
  RnnResult run(const Tensor& x, const RnnState& state) const;
  Tensor run_cell(const Cell& cell, const Tensor& rows, int64_t T, bool reverse,
                  RnnState& state) const;
  void check(const Tensor& x, const RnnState& state) const;
  int64_t directions() const { return options.bidirectional ? 2 : 1; }

  const int64_t gates_;
};

class LSTM : public RnnBase {
 public:
  LSTM(int64_t in, int64_t hidden, RnnOptions o = {}) : RnnBase(in, hidden, 4, o) {}
  std::string type_name() const override { return "LSTM"; }
};

class GRU : public RnnBase {
 public:
  GRU(int64_t in, int64_t hidden, RnnOptions o = {}) : RnnBase(in, hidden, 3, o) {}
  std::string type_name() const override { return "GRU"; }
};

}  // namespace taper::inline v0
