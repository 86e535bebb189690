// Compares recurrent and attention layers with PyTorch's results, which recurrent.py stores.
#include <memory>

#include <gtest/gtest.h>

#include "modules/layers/multihead_attention.h"
#include "modules/layers/rnn_layers.h"
#include "modules/layers/transformer.h"
#include "tests/interop/layer_rows.h"

namespace taper::v0::test {
namespace {

Tensor at(const Tensors& x, size_t i) { return i < x.size() ? x[i] : Tensor(); }

Tensors run_rnn(Module& module, const Tensors& x) {
  const RnnResult y = dynamic_cast<RnnBase&>(module)(x[0], {at(x, 1), at(x, 2)});
  return y.c_n.defined() ? Tensors{y.output, y.h_n, y.c_n} : Tensors{y.output, y.h_n};
}

// Runs packed sequences of these lengths. Returns the padded output and the states.
CallModule packed(std::vector<int64_t> lengths, bool batch_first = false, bool sorted = true) {
  return [=](Module& module, const Tensors& x) {
    const PackedSequence in =
        pack_padded_sequence(x[0], lengths, {.batch_first = batch_first, .enforce_sorted = sorted});
    const PackedRnnResult y = dynamic_cast<RnnBase&>(module)(in, {at(x, 1), at(x, 2)});
    const Tensor padded =
        pad_packed_sequence(y.output,
                            {.batch_first = batch_first, .padding_value = 0.5, .total_length = 6})
            .output;
    return y.c_n.defined() ? Tensors{padded, y.h_n, y.c_n} : Tensors{padded, y.h_n};
  };
}
template <class M> Tensors run_cell(Module& module, const Tensors& x) {
  return {dynamic_cast<M&>(module)(x[0], at(x, 1))};
}
Tensors run_lstm_cell(Module& module, const Tensors& x) {
  const LstmState y = dynamic_cast<LSTMCell&>(module)(x[0], {at(x, 1), at(x, 2)});
  return {y.h, y.c};
}

std::vector<LayerRow> others() {
  const RnnOptions both{.num_layers = 2, .batch_first = true, .bidirectional = true};
  RnnOptions relu = both, projected = both;
  relu.nonlinearity = "relu";
  projected.proj_size = 2;
  const RnnCellOptions bare{.bias = false};
  return {
      {"RNN", make<RNN>(3, 4), run_rnn},
      {"RNN relu", make<RNN>(3, 4, relu), run_rnn},
      {"LSTM projection", make<LSTM>(3, 4, projected), run_rnn},
      {"LSTM projection unbatched", make<LSTM>(3, 4, RnnOptions{.proj_size = 3}), run_rnn},
      {"LSTM packed", make<LSTM>(3, 4, RnnOptions{.num_layers = 2, .bidirectional = true}),
       packed({3, 5, 2}, false, false)},
      {"LSTM packed projection", make<LSTM>(3, 4, projected), packed({5, 5, 1}, true)},
      {"GRU packed", make<GRU>(3, 4, RnnOptions{.bidirectional = true}), packed({4, 4, 3})},
      {"RNN packed", make<RNN>(3, 4), packed({1, 2, 5}, false, false)},
      {"RNNCell", make<RNNCell>(3, 4), run_cell<RNNCell>},
      {"RNNCell relu", make<RNNCell>(3, 4, RnnCellOptions{.nonlinearity = "relu"}),
       run_cell<RNNCell>},
      {"GRUCell", make<GRUCell>(3, 4), run_cell<GRUCell>},
      {"GRUCell unbatched", make<GRUCell>(3, 4, bare), run_cell<GRUCell>},
      {"LSTMCell", make<LSTMCell>(3, 4), run_lstm_cell},
      {"LSTMCell unbatched", make<LSTMCell>(3, 4, bare), run_lstm_cell},
  };
}

template <class M> LayerRow rnn(const char* name, int64_t in, int64_t hidden, RnnOptions o = {}) {
  return {name, make<M>(in, hidden, o), run_rnn};
}

template <class M> std::vector<LayerRow> recurrent(const std::string& name) {
  const RnnOptions both{.num_layers = 2, .batch_first = true, .bidirectional = true};
  const bool lstm = name == "LSTM";
  std::vector<LayerRow> rows = {
      rnn<M>("", 3, 4),
      rnn<M>(" deep", 3, 4, both),
      rnn<M>(" eval", 3, 4, {.num_layers = lstm ? 3 : 2, .dropout = lstm ? 0.5 : 0.25}),
      rnn<M>(" no bias", 3, 4, {.bias = false, .bidirectional = true}),
      rnn<M>(" unbatched", 3, 4, {.batch_first = lstm, .bidirectional = !lstm}),
  };
  for (LayerRow& row : rows) row.name = name + row.name;
  return rows;
}

// The first `given` inputs are query, key and value (or one for all), the others are masks.
using Masks = AttendOptions (*)(const Tensors& masks);
Masks none = [](const Tensors&) { return AttendOptions{.need_weights = false}; };
Masks weights = [](const Tensors&) { return AttendOptions(); };

LayerRow attention(const std::string& name, MultiheadAttentionOptions o, size_t given, Masks read) {
  return {"MultiheadAttention" + name, make<MultiheadAttention>(6, 3, o),
          [=](Module& module, const Tensors& x) {
            const AttendOptions how = read(Tensors(x.begin() + std::ptrdiff_t(given), x.end()));
            const Attended y = dynamic_cast<MultiheadAttention&>(module)(
                x[0], x[given == 1 ? 0 : 1], x[given - 1], how);
            return how.need_weights ? Tensors{y.output, y.weights} : Tensors{y.output};
          }};
}

std::vector<LayerRow> attentions() {
  const MultiheadAttentionOptions first{.batch_first = true};
  return {
      attention("", {}, 3, weights),
      attention(" fast", {}, 3, none),
      attention(" memory", {}, 2, weights),
      attention(" eval", {.dropout = 0.5}, 3, weights),
      attention(" no bias", {.bias = false, .batch_first = true}, 3,
                [](const Tensors&) { return AttendOptions{.average_attn_weights = false}; }),
      attention(
          " bool mask", {}, 3,
          [](const Tensors& m) { return AttendOptions{.need_weights = false, .attn_mask = m[0]}; }),
      attention(
          " float mask", {}, 3,
          [](const Tensors& m) { return AttendOptions{.need_weights = false, .attn_mask = m[0]}; }),
      attention(" mask of heads", {}, 3,
                [](const Tensors& m) { return AttendOptions{.attn_mask = m[0]}; }),
      attention(" unbatched", {}, 3,
                [](const Tensors& m) { return AttendOptions{.attn_mask = m[0]}; }),
      attention(" self", first, 1, none),
      attention(" padding", first, 1,
                [](const Tensors& m) {
                  return AttendOptions{.key_padding_mask = m[0], .need_weights = false};
                }),
      attention(" float padding", first, 1,
                [](const Tensors& m) { return AttendOptions{.key_padding_mask = m[0]}; }),
      attention(" both masks", first, 1,
                [](const Tensors& m) {
                  return AttendOptions{.key_padding_mask = m[1], .attn_mask = m[0]};
                }),
      // PyTorch also requires the mask when is_causal is set; Taper does not.
      attention(
          " causal", first, 1,
          [](const Tensors&) { return AttendOptions{.need_weights = false, .is_causal = true}; }),
      attention(" causal weights", first, 1,
                [](const Tensors& m) {
                  return AttendOptions{.key_padding_mask = m[1], .is_causal = true};
                }),
  };
}

template <class M> Tensors encode(Module& module, const Tensors& x) {
  return {dynamic_cast<M&>(module)(x[0], {.src_mask = at(x, 1), .src_key_padding_mask = at(x, 2)})};
}

template <class M> Tensors decode(Module& module, const Tensors& x) {
  return {dynamic_cast<M&>(module)(x[0], x[1],
                                   {.tgt_mask = at(x, 2),
                                    .memory_mask = at(x, 3),
                                    .tgt_key_padding_mask = at(x, 4),
                                    .memory_key_padding_mask = at(x, 5)})};
}
Tensors transform(Module& module, const Tensors& x) {
  return {dynamic_cast<Transformer&>(module)(x[0], x[1],
                                             {.src_mask = at(x, 2),
                                              .tgt_mask = at(x, 3),
                                              .memory_mask = at(x, 4),
                                              .src_key_padding_mask = at(x, 5),
                                              .tgt_key_padding_mask = at(x, 6),
                                              .memory_key_padding_mask = at(x, 7)})};
}

std::vector<LayerRow> decoders() {
  using Layer = TransformerDecoderLayer;
  const TransformerDecoderLayerOptions small{.dim_feedforward = 8, .dropout = 0};
  TransformerDecoderLayerOptions before = small, dropping = small;
  before.activation = "gelu";
  before.norm_first = before.batch_first = true;
  before.bias = false;
  dropping.dropout = 0.3;
  const auto stack_of = [](const auto& o) { return [o] { return Layer(6, 2, o); }; };
  const TransformerOptions whole{
      .num_encoder_layers = 2, .num_decoder_layers = 1, .dim_feedforward = 8, .dropout = 0};
  TransformerOptions with_masks = whole;
  with_masks.norm_first = with_masks.batch_first = true;
  return {
      {"TransformerDecoderLayer", make<Layer>(6, 2, small), decode<Layer>},
      {"TransformerDecoderLayer pre-norm", make<Layer>(6, 2, before), decode<Layer>},
      {"TransformerDecoder",
       [=] { return std::make_unique<TransformerDecoder>(stack_of(small), 2, LayerNorm(6)); },
       [](Module& module, const Tensors& x) {  // without the mask, which PyTorch requires
         return Tensors{
             dynamic_cast<TransformerDecoder&>(module)(x[0], x[1], {.tgt_is_causal = true})};
       }},
      {"TransformerDecoder eval",
       [=] { return std::make_unique<TransformerDecoder>(stack_of(dropping), 1); },
       decode<TransformerDecoder>},
      {"Transformer", make<Transformer>(6, 2, whole), transform},
      {"Transformer masks", make<Transformer>(6, 2, with_masks), transform},
  };
}

std::vector<LayerRow> encoders() {
  using Layer = TransformerEncoderLayer;
  using Options = TransformerEncoderLayerOptions;
  const auto layer = [](const char* name, const Options& o, CallModule call = encode<Layer>) {
    return LayerRow{concat_to_string("TransformerEncoderLayer", name), make<Layer>(6, 2, o),
                    std::move(call)};
  };
  const auto stack_of = [](const Options& o) { return [o] { return Layer(6, 2, o); }; };
  const Options whole{.dim_feedforward = 8, .dropout = 0, .batch_first = true};
  return {
      layer("", {.dim_feedforward = 8, .dropout = 0}, call_module),
      layer(" eval", {.dim_feedforward = 8, .layer_norm_eps = 1e-3}),
      layer(" unbatched", {.dim_feedforward = 8, .dropout = 0}),
      layer(" pre-norm", {.dim_feedforward = 8,
                          .dropout = 0,
                          .activation = "gelu",
                          .batch_first = true,
                          .norm_first = true}),
      layer(" no bias", {.dim_feedforward = 8, .dropout = 0, .batch_first = true, .bias = false},
            [](Module& module, const Tensors& x) {
              return Tensors{dynamic_cast<Layer&>(module)(x[0], {.is_causal = true})};
            }),
      {"TransformerEncoder",
       [=] { return std::make_unique<TransformerEncoder>(stack_of(whole), 2, LayerNorm({6})); },
       encode<TransformerEncoder>},
      {"TransformerEncoder eval",
       [=] {
         return std::make_unique<TransformerEncoder>(
             stack_of({.dim_feedforward = 8, .dropout = 0.3}), 2);
       },
       encode<TransformerEncoder>},
  };
}

TEST(Recurrent, LayersComputeWhatPyTorchComputes) {
  std::vector<LayerRow> rows = recurrent<LSTM>("LSTM");
  for (const LayerRow& r : recurrent<GRU>("GRU")) rows.push_back(r);
  for (const LayerRow& r : others()) rows.push_back(r);
  rows.push_back({"LSTM long", make<LSTM>(2, 3),
                  [](Module& module, const Tensors& x) { return Tensors{module(x[0])[-1]}; }});
  compare_with_pytorch("recurrent.safetensors", rows);
}

TEST(Attention, LayersComputeWhatPyTorchComputes) {
  compare_with_pytorch("attention.safetensors", attentions());
}

TEST(Transformer, LayersComputeWhatPyTorchComputes) {
  std::vector<LayerRow> rows = encoders();
  for (const LayerRow& r : decoders()) rows.push_back(r);
  compare_with_pytorch("transformer.safetensors", rows);
}

}  // namespace
}  // namespace taper::v0::test
