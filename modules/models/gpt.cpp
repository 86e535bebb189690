#include "modules/models/gpt.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "autograd/activation_checkpoint.h"
#include "autograd/autocast.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/nn/attention_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "modules/init.h"

namespace taper::v0 {
namespace {

LinearOptions linear_options(const GPTOptions& o) { return {.bias = o.bias, .device = o.device}; }
LayerNormOptions norm_options(const GPTOptions& o) { return {.bias = o.bias, .device = o.device}; }

// Returns norm(x) in the dtype to which the following matrix product would cast it.
Tensor for_product(LayerNorm& norm, const Tensor& x) {
  return norm.has_hooks() ? norm(x) : norm(x, autocast_dtype(x));
}

// Returns residual + dropout(x), in one pass if no hook would see the value in between.
Tensor dropped_onto(Dropout& dropout, const Tensor& x, const Tensor& residual) {
  if (dropout.has_hooks()) return residual + dropout(x);
  return dropout_add(x, dropout.p, dropout.is_training(), residual);
}

}  // namespace

bool detail::has_hooks_below(const Module& module) {
  return std::ranges::any_of(module.children(), [](const auto& child) {
    return child.second->has_hooks() || has_hooks_below(*child.second);
  });
}

CausalSelfAttention::CausalSelfAttention(const GPTOptions& o)
    : n_head(checked(o.n_head, o.n_head > 0 && o.n_embd % o.n_head == 0,
                     "GPT: n_embd must be divisible by n_head (got ", o.n_embd, " and ", o.n_head,
                     ")")),
      dropout(o.dropout),
      c_attn(*this, "c_attn", o.n_embd, checked_mul(3, o.n_embd), linear_options(o)),
      c_proj(*this, "c_proj", o.n_embd, o.n_embd, linear_options(o)),
      resid_dropout(*this, "resid_dropout", o.dropout) {}

Tensor CausalSelfAttention::attend(const Tensor& x) {
  return c_proj(packed_attention(c_attn(x), n_head,
                                 {.dropout_p = is_training() ? dropout : 0, .is_causal = true}));
}

Tensor CausalSelfAttention::operator()(const Tensor& x, const Tensor& residual) {
  return call_with_hooks(
      [&](const Tensor& input, const Tensor& base) {
        return dropped_onto(*resid_dropout, attend(input), base);
      },
      x, residual);
}

GPTMLP::GPTMLP(const GPTOptions& o)
    : c_fc(*this, "c_fc", o.n_embd, checked_mul(4, o.n_embd), linear_options(o)),
      gelu(*this, "gelu", o.gelu),
      c_proj(*this, "c_proj", 4 * o.n_embd, o.n_embd, linear_options(o)),
      dropout(*this, "dropout", o.dropout) {}

// Returns c_proj(gelu(c_fc(x))), without keeping the GELU's large result unless a hook sees it or a
// layer is placed on a device of its own.
Tensor GPTMLP::project(const Tensor& x) {
  const bool is_apart =
      c_fc->weight->device() != x.device() || c_proj->weight->device() != x.device();
  if (is_apart || c_fc->has_hooks() || gelu->has_hooks() || c_proj->has_hooks()) {
    return c_proj(activated(*c_fc, *gelu, x));
  }
  const Activation activation =
      gelu->approximate == "tanh" ? Activation::kGeluTanh : Activation::kGelu;
  return feed_forward(x, c_fc->weight, c_fc->bias, c_proj->weight, c_proj->bias, activation);
}

Tensor GPTMLP::forward(const Tensor& x) { return dropout(project(x)); }

Tensor GPTMLP::operator()(const Tensor& x, const Tensor& residual) {
  return call_with_hooks(
      [&](const Tensor& input, const Tensor& base) {
        return dropped_onto(*dropout, project(input), base);
      },
      x, residual);
}

GPTBlock::GPTBlock(const GPTOptions& o)
    : ln_1(*this, "ln_1", Shape{o.n_embd}, norm_options(o)),
      attn(*this, "attn", o),
      ln_2(*this, "ln_2", Shape{o.n_embd}, norm_options(o)),
      mlp(*this, "mlp", o) {}

Tensor GPTBlock::forward(const Tensor& x) {
  if (!recompute || detail::has_hooks_below(*this)) return compute(x);
  return checkpoint([this](const std::vector<Tensor>& inputs) { return compute(inputs[0]); }, {x});
}

Tensor GPTBlock::compute(const Tensor& x) {
  if (attn->has_hooks() || mlp->has_hooks()) {
    const Tensor attended = x + attn(ln_1(x));
    return attended + mlp(ln_2(attended));
  }
  const Tensor attended = attn(for_product(*ln_1, x), x);
  return mlp(for_product(*ln_2, attended), attended);
}

GPTTransformer::GPTTransformer(const GPTOptions& o)
    : wte(*this, "wte", o.vocab_size, o.n_embd, EmbeddingOptions{.device = o.device}),
      wpe(*this, "wpe", o.block_size, o.n_embd, EmbeddingOptions{.device = o.device}),
      drop(*this, "drop", o.dropout),
      h(*this, "h"),
      ln_f(*this, "ln_f", Shape{o.n_embd}, norm_options(o)) {
  for (int64_t i = 0; i < o.n_layer; ++i) h->add(std::make_unique<GPTBlock>(o));
}

Tensor GPTTransformer::forward(const Tensor& tokens) {
  const int64_t T = tokens.size(1);
  require<ValueError>(T <= wpe->num_embeddings, "Cannot forward sequence of length ", T,
                      ", block size is only ", wpe->num_embeddings);
  const Tensor positions = arange(T, {.device = tokens.device()});
  return ln_f(h(drop(wte(tokens) + wpe(positions))));
}

GPT::GPT(const GPTOptions& o)
    : options(o),
      transformer(*this, "transformer", o),
      lm_head(*this, "lm_head", o.n_embd, o.vocab_size,
              LinearOptions{.bias = false, .device = o.device}) {
  lm_head->weight.share(transformer->wte->weight);
  const double narrow = 0.02 / std::sqrt(2 * double(o.n_layer));
  for (const auto& [name, p] : named_parameters()) {
    if (p.dim() == 2) init::normal_(p, 0, name.ends_with("c_proj.weight") ? narrow : 0.02);
    if (name.ends_with(".bias")) init::zeros_(p);
  }
}

Tensor GPT::forward(const Tensor& tokens) {
  if (tokens.dim() != 2) throw ValueError("GPT: expected tokens [B, T], got ", tokens.shape());
  return lm_head(transformer(tokens));
}

Tensor GPT::loss(const Tensor& tokens, const Tensor& targets, const CrossEntropyOptions& o,
                 IntArg max_block_bytes) {
  const Device device = lm_head->weight->device();
  const Tensor classes = targets.flatten().to(device);
  if (has_hooks() || lm_head->has_hooks()) {
    const Tensor logits = (*this)(tokens);
    return cross_entropy(logits.flatten(0, 1), classes, o);
  }
  if (tokens.dim() != 2) throw ValueError("GPT: expected tokens [B, T], got ", tokens.shape());
  return linear_cross_entropy(transformer(tokens).to(device).flatten(0, 1), lm_head->weight,
                              classes, o, max_block_bytes);
}

}  // namespace taper::v0
