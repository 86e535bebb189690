// Classifiers of token sequences. One uses the last state of a recurrent network, the other the
// mean of the outputs of a transformer encoder (https://arxiv.org/abs/1706.03762).
#pragma once

#include "framework/base/describe.h"
#include "modules/layers/linear.h"
#include "modules/layers/rnn_layers.h"
#include "modules/layers/transformer.h"

namespace taper::v0 {

struct LSTMClassifierOptions {
  int64_t vocab_size, num_classes;
  int64_t embedding_dim = 128, hidden_size = 256;
  int64_t num_layers = 1;
  double dropout = 0;  // between layers
  Device device = DeviceType::kCpu;

  // Describes the fields except those that the data determine.
  template <class V> void describe(V& v) {
    v("embedding_dim", embedding_dim, kWidth, "size of a token's embedding");
    v("hidden_size", hidden_size, kWidth, "size of the hidden state");
    v("num_layers", num_layers, {1, 1000}, "number of stacked layers");
    v("dropout", dropout, kBelowOne, "dropout probability between layers");
  }
};

// Maps tokens [B, T] (int64 or int32) to logits [B, num_classes].
class LSTMClassifier : public Cloneable<LSTMClassifier> {
 public:
  explicit LSTMClassifier(const LSTMClassifierOptions& options);

  Tensor forward(const Tensor& tokens) override;
  CallStyle call_style() const override { return CallStyle::kPassesOn; }

  Child<Embedding> embedding;
  Child<LSTM> lstm;
  Child<Linear> fc;
};

struct EncoderClassifierOptions {
  int64_t vocab_size, num_classes;
  int64_t max_len = 512;
  int64_t d_model = 128, nhead = 4, num_layers = 2, dim_feedforward = 512;
  double dropout = 0.1;
  Device device = DeviceType::kCpu;
};

// Maps tokens [B, T] (int64 or int32, T <= max_len) to logits [B, num_classes]. Position embeddings
// are learned.
class EncoderClassifier : public Cloneable<EncoderClassifier> {
 public:
  explicit EncoderClassifier(const EncoderClassifierOptions& options);

  Tensor forward(const Tensor& tokens) override;

  Child<Embedding> embedding, position;
  Child<TransformerEncoder> encoder;
  Child<Linear> fc;
};

}  // namespace taper::v0
