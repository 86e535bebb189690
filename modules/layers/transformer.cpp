#include "modules/layers/transformer.h"

#include <limits>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "modules/init.h"

namespace taper::v0 {
namespace {

using LayerOptions = TransformerEncoderLayerOptions;

LinearOptions linear_options(const LayerOptions& o) { return {.bias = o.bias, .device = o.device}; }
LayerNormOptions norm_options(const LayerOptions& o) {
  return {.eps = o.layer_norm_eps, .bias = o.bias, .device = o.device};
}
MultiheadAttentionOptions attention_options(const LayerOptions& o) {
  return {.dropout = o.dropout, .bias = o.bias, .batch_first = o.batch_first, .device = o.device};
}
LayerOptions layer_options(const TransformerOptions& o) {
  return {.dim_feedforward = o.dim_feedforward,
          .dropout = o.dropout,
          .activation = o.activation,
          .layer_norm_eps = o.layer_norm_eps,
          .batch_first = o.batch_first,
          .norm_first = o.norm_first,
          .bias = o.bias,
          .device = o.device};
}

// Returns x + part(norm(x)) or norm(x + part(x)).
template <class Part>
Tensor residual(const LayerOptions& o, Child<LayerNorm>& norm, const Tensor& x, const Part& part) {
  return o.norm_first ? x + part(norm(x)) : norm(x + part(x));
}

// Applies the feed-forward part of a layer, without its dropout.
template <class Layer> Tensor feed_forward(Layer& layer, const Tensor& x) {
  const Tensor z = layer.linear1(x);
  return layer.linear2(
      layer.dropout(layer.options.activation == TransformerActivation::kRelu ? relu(z) : gelu(z)));
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(IntArg d_model, IntArg nhead,
                                                 const LayerOptions& o)
    : options(o),
      self_attn(*this, "self_attn", d_model, nhead, attention_options(o)),
      linear1(*this, "linear1", d_model, o.dim_feedforward, linear_options(o)),
      dropout(*this, "dropout", o.dropout),
      linear2(*this, "linear2", o.dim_feedforward, d_model, linear_options(o)),
      norm1(*this, "norm1", d_model, norm_options(o)),
      norm2(*this, "norm2", d_model, norm_options(o)),
      dropout1(*this, "dropout1", o.dropout),
      dropout2(*this, "dropout2", o.dropout) {}

Tensor TransformerEncoderLayer::operator()(const Tensor& src, const EncodeOptions& how) {
  require<NotImplementedError>(
      takes_masks_ || !how.has_masks(), type_name(),
      " overrides forward(src) alone, which masks do not reach: override forward(src, how)");
  if (!takes_masks_) return Module::operator()(src);
  return call_with_hooks([this](const auto&... a) { return forward(a...); }, src, how);
}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const EncodeOptions& how) {
  const AttendOptions masks{.key_padding_mask = how.src_key_padding_mask,
                            .need_weights = false,
                            .attn_mask = how.src_mask,
                            .is_causal = how.is_causal};
  const Tensor x = residual(options, norm1, src, [&](const Tensor& z) {
    return dropout1(self_attn(z, z, z, masks).output);
  });
  return residual(options, norm2, x,
                  [&](const Tensor& z) { return dropout2(feed_forward(*this, z)); });
}

TransformerDecoderLayer::TransformerDecoderLayer(IntArg d_model, IntArg nhead,
                                                 const LayerOptions& o)
    : options(o),
      self_attn(*this, "self_attn", d_model, nhead, attention_options(o)),
      multihead_attn(*this, "multihead_attn", d_model, nhead, attention_options(o)),
      linear1(*this, "linear1", d_model, o.dim_feedforward, linear_options(o)),
      dropout(*this, "dropout", o.dropout),
      linear2(*this, "linear2", o.dim_feedforward, d_model, linear_options(o)),
      norm1(*this, "norm1", d_model, norm_options(o)),
      norm2(*this, "norm2", d_model, norm_options(o)),
      norm3(*this, "norm3", d_model, norm_options(o)),
      dropout1(*this, "dropout1", o.dropout),
      dropout2(*this, "dropout2", o.dropout),
      dropout3(*this, "dropout3", o.dropout) {}

Tensor TransformerDecoderLayer::operator()(const Tensor& tgt, const Tensor& memory,
                                           const DecodeOptions& how) {
  return call_with_hooks([this](const auto&... a) { return forward(a...); }, tgt, memory, how);
}

Tensor TransformerDecoderLayer::forward(const Tensor& tgt, const Tensor& memory,
                                        const DecodeOptions& how) {
  const AttendOptions own{.key_padding_mask = how.tgt_key_padding_mask,
                          .need_weights = false,
                          .attn_mask = how.tgt_mask,
                          .is_causal = how.tgt_is_causal};
  const AttendOptions others{.key_padding_mask = how.memory_key_padding_mask,
                             .need_weights = false,
                             .attn_mask = how.memory_mask,
                             .is_causal = how.memory_is_causal};
  Tensor x = residual(options, norm1, tgt,
                      [&](const Tensor& z) { return dropout1(self_attn(z, z, z, own).output); });
  x = residual(options, norm2, x, [&](const Tensor& z) {
    return dropout2(multihead_attn(z, memory, memory, others).output);
  });
  return residual(options, norm3, x,
                  [&](const Tensor& z) { return dropout3(feed_forward(*this, z)); });
}

Tensor TransformerEncoder::forward(const Tensor& src) { return run(src); }

Tensor TransformerEncoder::operator()(const Tensor& src, const EncodeOptions& how) {
  return call_with_hooks([this](const auto&... a) { return run(a...); }, src, how);
}

Tensor TransformerDecoder::operator()(const Tensor& tgt, const Tensor& memory,
                                      const DecodeOptions& how) {
  return call_with_hooks([this](const auto&... a) { return run(a...); }, tgt, memory, how);
}

Transformer::Transformer(IntArg dim, IntArg heads, const TransformerOptions& o)
    : d_model(dim),
      nhead(heads),
      options(o),
      encoder(
          *this, "encoder", [&] { return TransformerEncoderLayer(dim, heads, layer_options(o)); },
          o.num_encoder_layers, LayerNorm(dim, norm_options(layer_options(o)))),
      decoder(
          *this, "decoder", [&] { return TransformerDecoderLayer(dim, heads, layer_options(o)); },
          o.num_decoder_layers, LayerNorm(dim, norm_options(layer_options(o)))) {
  for (const Tensor& p : parameters()) {
    if (p.dim() > 1) init::xavier_uniform_(p);
  }
}

Tensor Transformer::operator()(const Tensor& src, const Tensor& tgt, const TransformOptions& how) {
  const auto transform = [this](const Tensor& s, const Tensor& t, const TransformOptions& o) {
    const int batch = options.batch_first ? 0 : 1;
    require(s.dim() != 3 || (t.dim() == 3 && s.size(batch) == t.size(batch)),
            "the batch number of src and tgt must be equal");
    require(s.size(-1) == d_model && t.size(-1) == d_model,
            "the feature number of src and tgt must be equal to d_model");
    const Tensor memory = encoder(s, EncodeOptions{.src_mask = o.src_mask,
                                                   .src_key_padding_mask = o.src_key_padding_mask,
                                                   .is_causal = o.src_is_causal});
    return decoder(t, memory,
                   DecodeOptions{.tgt_mask = o.tgt_mask,
                                 .memory_mask = o.memory_mask,
                                 .tgt_key_padding_mask = o.tgt_key_padding_mask,
                                 .memory_key_padding_mask = o.memory_key_padding_mask,
                                 .tgt_is_causal = o.tgt_is_causal,
                                 .memory_is_causal = o.memory_is_causal});
  };
  return call_with_hooks(transform, src, tgt, how);
}

Tensor Transformer::generate_square_subsequent_mask(int64_t size, TensorOptions options) {
  return triu(full({size, size}, -std::numeric_limits<double>::infinity(), options), 1);
}

}  // namespace taper::v0
