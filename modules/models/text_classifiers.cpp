#include "modules/models/text_classifiers.h"

#include "autograd/ops/binary_ops.h"
#include "framework/factory/factories.h"

namespace taper::v0 {

LSTMClassifier::LSTMClassifier(const LSTMClassifierOptions& o)
    : embedding(*this, "embedding", o.vocab_size, o.embedding_dim,
                EmbeddingOptions{.device = o.device}),
      lstm(*this, "lstm", o.embedding_dim, o.hidden_size,
           RnnOptions{.num_layers = o.num_layers,
                      .batch_first = true,
                      .dropout = o.dropout,
                      .device = o.device}),
      fc(*this, "fc", o.hidden_size, o.num_classes, LinearOptions{.device = o.device}) {}

Tensor LSTMClassifier::forward(const Tensor& tokens) {
  return fc(lstm(embedding(tokens), RnnState()).h_n[-1]);
}

EncoderClassifier::EncoderClassifier(const EncoderClassifierOptions& o)
    : embedding(*this, "embedding", o.vocab_size, o.d_model, EmbeddingOptions{.device = o.device}),
      position(*this, "position", o.max_len, o.d_model, EmbeddingOptions{.device = o.device}),
      encoder(
          *this, "encoder",
          [&] {
            return TransformerEncoderLayer(o.d_model, o.nhead,
                                           {.dim_feedforward = o.dim_feedforward,
                                            .dropout = o.dropout,
                                            .batch_first = true,
                                            .device = o.device});
          },
          o.num_layers),
      fc(*this, "fc", o.d_model, o.num_classes, LinearOptions{.device = o.device}) {}

Tensor EncoderClassifier::forward(const Tensor& tokens) {
  const int64_t T = tokens.size(1);
  require<ValueError>(T <= position->num_embeddings, "EncoderClassifier: expected at most ",
                      position->num_embeddings, " tokens, got ", T);
  const Tensor positions = position(arange(T, {.device = tokens.device()}));
  return fc(encoder(embedding(tokens) + positions).mean({1}));
}

}  // namespace taper::v0
