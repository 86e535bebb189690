#include "modules/transformer.h"

#include "autograd/ops/binary.h"
#include "autograd/ops/unary.h"

namespace taper::inline v0 {
namespace {

const TransformerEncoderLayerOptions& checked(const TransformerEncoderLayerOptions& o) {
  if (o.activation == "relu" || o.activation == "gelu") return o;
  throw Error(cat("activation should be relu/gelu, not ", o.activation));
}

LinearOptions linear_options(const TransformerEncoderLayerOptions& o) {
  return {.bias = o.bias, .device = o.device};
}
LayerNormOptions norm_options(const TransformerEncoderLayerOptions& o) {
  return {.eps = o.layer_norm_eps, .bias = o.bias, .device = o.device};
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                                                 TransformerEncoderLayerOptions o)
    : options(checked(o)),
      self_attn(*this, "self_attn", d_model, nhead,
                MultiheadAttentionOptions{.dropout = o.dropout,
                                          .bias = o.bias,
                                          .batch_first = o.batch_first,
                                          .device = o.device}),
      linear1(*this, "linear1", d_model, o.dim_feedforward, linear_options(o)),
      dropout(*this, "dropout", o.dropout),
      linear2(*this, "linear2", o.dim_feedforward, d_model, linear_options(o)),
      norm1(*this, "norm1", Shape{d_model}, norm_options(o)),
      norm2(*this, "norm2", Shape{d_model}, norm_options(o)),
      dropout1(*this, "dropout1", o.dropout),
      dropout2(*this, "dropout2", o.dropout) {}

Tensor TransformerEncoderLayer::feed_forward(const Tensor& x) {
  const Tensor z = linear1(x);
  return dropout2(linear2(dropout(options.activation == "relu" ? relu(z) : gelu(z))));
}

Tensor TransformerEncoderLayer::encode(const Tensor& src, const EncodeOptions& how) {
  const AttendOptions masks{.key_padding_mask = how.src_key_padding_mask,
                            .need_weights = false,
                            .attn_mask = how.src_mask,
                            .is_causal = how.is_causal};
  const auto attend = [&](const Tensor& x) { return dropout1(self_attn(x, x, x, masks).output); };
  if (options.norm_first) {
    const Tensor x = src + attend(norm1(src));
    return x + feed_forward(norm2(x));
  }
  const Tensor x = norm1(src + attend(src));
  return norm2(x + feed_forward(x));
}

Tensor TransformerEncoder::encode(const Tensor& src, const EncodeOptions& how) {
  Tensor x = src;
  for (const auto& [name, layer] : *layers) {
    x = dynamic_cast<TransformerEncoderLayer&>(*layer)(x, how);
  }
  return norm ? (*norm)(x) : x;
}

}  // namespace taper::inline v0
