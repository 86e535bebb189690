// Recurrent layers (https://pytorch.org/docs/stable/generated/torch.nn.RNN.html,
// .../torch.nn.LSTM.html, .../torch.nn.GRU.html), and single steps of each as modules
// (.../torch.nn.LSTMCell.html).
#pragma once

#include "autograd/ops/nn/rnn_ops.h"
#include "framework/base/describe.h"
#include "framework/base/text_enum.h"
#include "modules/layers/packed_sequence.h"
#include "modules/members.h"

namespace taper::v0 {

struct RnnNonlinearityValues {
  enum class Value : uint8_t { kTanh, kRelu };
  static constexpr Value kTanh = Value::kTanh, kRelu = Value::kRelu;
  static constexpr const char* kOption = "nonlinearity";
  static constexpr const char* kWords[] = {"tanh", "relu"};
};
using RnnNonlinearity = TextEnum<RnnNonlinearityValues>;

struct RnnOptions {
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;  // of each layer's output except the last, in training mode
  bool bidirectional = false;
  int64_t proj_size = 0;  // LSTM: size of the projected h; 0: no projection
  RnnNonlinearity nonlinearity = RnnNonlinearity::kTanh;  // RNN only
  Device device = DeviceType::kCpu;

  template <class V> void describe(V& v) {
    v("num_layers", num_layers, {1, 1000}, "number of stacked layers");
    v("bias", bias, "whether a bias is added");
    v("dropout", dropout, kBelowOne, "dropout probability between layers");
    v("bidirectional", bidirectional, "add a second layer that reads the sequence backward");
  }
};

// The state of a recurrent layer: h and c [num_layers * directions, B, hidden_size], without B if
// the input has none. The layers are in order, and for each layer the forward direction precedes
// the backward one. Undefined means zeros. Only an LSTM has c. With a projection, its h has
// proj_size units.
using RnnState = LstmState;
// The result of a layer. output is [B, T, ...] with batch_first, and lacks B if x does.
struct RnnResult {
  Tensor output;    // of the last layer, directions concatenated: [T, B, directions * hidden_size]
  Tensor h_n, c_n;  // after the last step; c_n for an LSTM only
  void tensors(const auto& each) { each(output, h_n, c_n); }
};
struct PackedRnnResult {
  PackedSequence output;
  Tensor h_n, c_n;  // after the last step of each sequence
  void tensors(const auto& each) { each(output.data, h_n, c_n); }
};

// The weights of one layer in one direction. Weights that the layer does not have are undefined.
struct RnnWeights {
  Parameter weight_ih, weight_hh, bias_ih, bias_hh, weight_hr;
};

// Base class of the recurrent layers. The input x is [T, B, input_size], or [B, T, input_size] with
// batch_first, or [T, input_size], or a packed sequence. The parameters "weight_ih_l0",
// "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_hr_l0" (of a projection) and "..._reverse"
// are drawn from U(-1/sqrt(hidden_size), 1/sqrt(hidden_size)).
class RnnBase : public Module {
 public:
  using Options = RnnOptions;

  // Starts with a state of zeros and returns only the output.
  Tensor forward(const Tensor& x) override { return run(x, {}).output; }
  using Module::operator();
  RnnResult operator()(const Tensor& x, const RnnState& state);
  PackedRnnResult operator()(const PackedSequence& x, const RnnState& state = {});
  std::string extra_repr() const override;

  int64_t input_size, hidden_size;
  RnnOptions options;
  std::vector<RnnWeights> cells;  // in the order of RnnState

 protected:
  // gates: the number of gates: 4 for an LSTM, 3 for a GRU, 1 for an RNN.
  RnnBase(IntArg input_size, IntArg hidden_size, IntArg gates, const RnnOptions& options);

 private:
  using Sizes = std::vector<int64_t>;
  RnnResult run(const Tensor& x, const RnnState& state) const;
  RnnResult run_rows(Tensor rows, const Sizes& batch_sizes, const RnnState& state) const;
  Tensor run_cell(const RnnWeights& cell, const Tensor& rows, const Sizes& batch_sizes,
                  bool reverse, RnnState& state) const;
  void check_input(const Tensor& x) const;
  void check_state(const Tensor& x, const RnnState& state, std::optional<int64_t> batch) const;
  int64_t directions() const { return options.bidirectional ? 2 : 1; }
  // Returns the size of h, which is also the size of the output of one direction.
  int64_t width() const { return options.proj_size > 0 ? options.proj_size : hidden_size; }

  int64_t gates_;
};

struct RNN : Cloneable<RNN, RnnBase> {
  RNN(IntArg in, IntArg hidden, const RnnOptions& o = {}) : Cloneable(in, hidden, 1, o) {}
};
struct LSTM : Cloneable<LSTM, RnnBase> {
  LSTM(IntArg in, IntArg hidden, const RnnOptions& o = {}) : Cloneable(in, hidden, 4, o) {}
};
struct GRU : Cloneable<GRU, RnnBase> {
  GRU(IntArg in, IntArg hidden, const RnnOptions& o = {}) : Cloneable(in, hidden, 3, o) {}
};

struct RnnCellOptions {
  bool bias = true;
  RnnNonlinearity nonlinearity = RnnNonlinearity::kTanh;  // RNNCell only
  Device device = DeviceType::kCpu;
};

// Computes one step from x [B, input_size] and a state [B, hidden_size] (undefined: zeros), or both
// without B. The parameters "weight_ih", "weight_hh", "bias_ih", "bias_hh" are drawn like those of
// the layers.
class RnnCellBase : public Module, public RnnWeights {
 public:
  using Options = RnnCellOptions;

  // Starts with a state of zeros and returns h.
  Tensor forward(const Tensor& x) override { return step(x, {}).h; }
  using Module::operator();
  // Returns h, for an RNNCell or GRUCell.
  Tensor operator()(const Tensor& x, const Tensor& h);
  std::string extra_repr() const override;

  int64_t input_size, hidden_size;
  RnnCellOptions options;

 protected:
  RnnCellBase(IntArg input_size, IntArg hidden_size, IntArg gates, const RnnCellOptions& o);
  LstmState step(const Tensor& x, const LstmState& state) const;

 private:
  int64_t gates_;
};

struct RNNCell : Cloneable<RNNCell, RnnCellBase> {
  RNNCell(IntArg in, IntArg hidden, const RnnCellOptions& o = {}) : Cloneable(in, hidden, 1, o) {}
};
struct GRUCell : Cloneable<GRUCell, RnnCellBase> {
  GRUCell(IntArg in, IntArg hidden, const RnnCellOptions& o = {}) : Cloneable(in, hidden, 3, o) {}
};
struct LSTMCell : Cloneable<LSTMCell, RnnCellBase> {
  LSTMCell(IntArg in, IntArg hidden, const RnnCellOptions& o = {}) : Cloneable(in, hidden, 4, o) {}
  // const auto [h, c] = cell(x, {h, c});
  LstmState operator()(const Tensor& x, const LstmState& state = {});
};

}  // namespace taper::v0
