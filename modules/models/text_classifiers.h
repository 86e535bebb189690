// Classifiers of token sequences: the mean of embeddings, the last state of a recurrent network,
// and the mean of the outputs of a transformer encoder (https://arxiv.org/abs/1706.03762).
//
// If a model has a padding_idx, texts of different lengths can be in one batch: each is filled up
// at its end with that token. Padding does not change the logits of a text. A text of padding alone
// counts as one token of padding.
#pragma once

#include <optional>
#include <vector>

#include "framework/base/describe.h"
#include "modules/layers/linear.h"
#include "modules/layers/rnn_layers.h"
#include "modules/layers/transformer.h"

namespace taper::v0 {

struct BagClassifierOptions {
  int64_t vocab_size, num_classes;
  int64_t embedding_dim = 64;
  std::vector<int64_t> hidden = {64};
  double dropout = 0.2;  // after the embedding and after each hidden layer
  std::optional<int64_t> padding_idx = std::nullopt;
  Device device = DeviceType::kCpu;

  // Describes the fields except those that the data determine.
  template <class V> void describe(V& v) {
    v("embedding_dim", embedding_dim, kWidth, "size of a token's embedding");
    v("hidden", hidden, kWidth, "widths of the hidden layers");
    v("dropout", dropout, kBelowOne,
      "dropout probability after the embedding and after each hidden layer");
  }
};

// Maps tokens [B, T] (int64 or int32) to logits [B, num_classes]: a multilayer perceptron of the
// mean of the tokens' embeddings. The order of the tokens does not matter.
class BagClassifier : public Cloneable<BagClassifier> {
 public:
  explicit BagClassifier(const BagClassifierOptions& options);

  Tensor forward(const Tensor& tokens) override;
  CallStyle call_style() const override { return CallStyle::kPassesOn; }

  Child<Embedding> embedding;
  Child<Sequential> layers;

 private:
  std::optional<int64_t> padding_idx_;
};

struct LSTMClassifierOptions {
  int64_t vocab_size, num_classes;
  int64_t embedding_dim = 128, hidden_size = 256;
  int64_t num_layers = 1;
  double dropout = 0;  // between layers
  std::optional<int64_t> padding_idx = std::nullopt;
  Device device = DeviceType::kCpu;

  // Describes the fields except those that the data determine.
  template <class V> void describe(V& v) {
    v("embedding_dim", embedding_dim, kWidth, "size of a token's embedding");
    v("hidden_size", hidden_size, kWidth, "size of the hidden state");
    v("num_layers", num_layers, {1, 1000}, "number of stacked layers");
    v("dropout", dropout, kBelowOne, "dropout probability between layers");
  }
};

// Maps tokens [B, T] (int64 or int32) to logits [B, num_classes]: a linear layer of the state after
// a text's last token.
class LSTMClassifier : public Cloneable<LSTMClassifier> {
 public:
  explicit LSTMClassifier(const LSTMClassifierOptions& options);

  Tensor forward(const Tensor& tokens) override;
  CallStyle call_style() const override { return CallStyle::kPassesOn; }

  Child<Embedding> embedding;
  Child<LSTM> lstm;
  Child<Linear> fc;

 private:
  std::optional<int64_t> padding_idx_;
};

struct EncoderClassifierOptions {
  int64_t vocab_size, num_classes;
  int64_t max_len = 512;
  int64_t d_model = 128, nhead = 4, num_layers = 2, dim_feedforward = 512;
  double dropout = 0.1;
  std::optional<int64_t> padding_idx = std::nullopt;
  Device device = DeviceType::kCpu;

  // Describes the fields except those that the data determine.
  template <class V> void describe(V& v) {
    v("d_model", d_model, kWidth, "width of the model");
    v("nhead", nhead, kWidth, "number of attention heads");
    v("num_layers", num_layers, {1, 1000}, "number of encoder layers");
    v("dim_feedforward", dim_feedforward, kWidth, "width of the feed-forward blocks");
    v("dropout", dropout, kBelowOne, "dropout probability in each layer");
  }
  template <class V> void rules(V& v) {
    v("nhead", "must divide d_model", [this] { return d_model % nhead == 0; });
  }
};

// Maps tokens [B, T] (int64 or int32, T <= max_len) to logits [B, num_classes]: a linear layer of
// the mean of the encoder's outputs. Position embeddings are learned.
class EncoderClassifier : public Cloneable<EncoderClassifier> {
 public:
  explicit EncoderClassifier(const EncoderClassifierOptions& options);

  Tensor forward(const Tensor& tokens) override;

  Child<Embedding> embedding, position;
  Child<TransformerEncoder> encoder;
  Child<Linear> fc;

 private:
  std::optional<int64_t> padding_idx_;
};

}  // namespace taper::v0
