#include "modules/models/text_classifiers.h"

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "modules/init.h"
#include "modules/layers/stateless.h"

namespace taper::v0 {

// The standard deviation of initial embeddings that are averaged or added to those of positions.
// With the usual 1, the model would need many steps to forget the noise of rare words.
constexpr double kTextEmbeddingStd = 0.02;

// Returns which tokens [B, T] are padding (bool). The first token of a text never is, so that no
// text is empty.
static Tensor is_padding(const Tensor& tokens, int64_t padding_idx) {
  const Tensor place = arange(tokens.size(1), {.dtype = tokens.dtype(), .device = tokens.device()});
  return logical_and(eq(tokens, padding_idx), gt(place, 0));
}

// Returns the mean over the tokens of each text that are not padding, from x [B, T, E].
static Tensor mean_of_texts(const Tensor& x, const Tensor& tokens,
                            const std::optional<int64_t>& padding_idx) {
  if (!padding_idx) return x.mean({1});
  const Tensor keep = (is_padding(tokens, *padding_idx) == 0).to(x.dtype()).unsqueeze(2);
  return sum(x * keep, {1}) / sum(keep, {1});
}

BagClassifier::BagClassifier(const BagClassifierOptions& o)
    : embedding(*this, "embedding", o.vocab_size, o.embedding_dim,
                EmbeddingOptions{.device = o.device}),
      layers(*this, "layers"),
      padding_idx_(o.padding_idx) {
  init::normal_(embedding->weight, 0, kTextEmbeddingStd);
  int64_t width = o.embedding_dim;
  for (const int64_t hidden : o.hidden) {
    if (o.dropout > 0) layers->add(Dropout(o.dropout));
    layers->ModuleList::add<Linear>(width, hidden, LinearOptions{.device = o.device});
    layers->add(ReLU());
    width = hidden;
  }
  if (o.dropout > 0) layers->add(Dropout(o.dropout));
  layers->ModuleList::add<Linear>(width, o.num_classes, LinearOptions{.device = o.device});
}

Tensor BagClassifier::forward(const Tensor& tokens) {
  return layers(mean_of_texts(embedding(tokens), tokens, padding_idx_));
}

LSTMClassifier::LSTMClassifier(const LSTMClassifierOptions& o)
    : embedding(*this, "embedding", o.vocab_size, o.embedding_dim,
                EmbeddingOptions{.device = o.device}),
      lstm(*this, "lstm", o.embedding_dim, o.hidden_size,
           RnnOptions{.num_layers = o.num_layers,
                      .batch_first = true,
                      .dropout = o.dropout,
                      .device = o.device}),
      fc(*this, "fc", o.hidden_size, o.num_classes, LinearOptions{.device = o.device}),
      padding_idx_(o.padding_idx) {}

Tensor LSTMClassifier::forward(const Tensor& tokens) {
  if (!padding_idx_) return fc(lstm(embedding(tokens), RnnState()).h_n[-1]);
  const Tensor states = lstm(embedding(tokens), RnnState()).output;          // [B, T, hidden]
  const Tensor last = sum(is_padding(tokens, *padding_idx_) == 0, {1}) - 1;  // [B]
  const Tensor at = last.reshape({-1, 1, 1}).expand({-1, 1, states.size(2)});
  return fc(gather(states, 1, at).squeeze(1));
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
      fc(*this, "fc", o.d_model, o.num_classes, LinearOptions{.device = o.device}),
      padding_idx_(o.padding_idx) {}

Tensor EncoderClassifier::forward(const Tensor& tokens) {
  const int64_t T = tokens.size(1);
  require<ValueError>(T <= position->num_embeddings, "EncoderClassifier: expected at most ",
                      position->num_embeddings, " tokens, got ", T);
  const Tensor positions = position(arange(T, {.device = tokens.device()}));
  const Tensor x = embedding(tokens) + positions;
  if (!padding_idx_) return fc(encoder(x).mean({1}));
  const Tensor out = encoder(x, {.src_key_padding_mask = is_padding(tokens, *padding_idx_)});
  return fc(mean_of_texts(out, tokens, padding_idx_));
}

}  // namespace taper::v0
