// GPT with the structure of nanoGPT (https://github.com/karpathy/nanoGPT) and GPT-2's state-dict
// keys ("transformer.h.0.attn.c_attn.weight"). Weights have Linear's layout [out, in].
#pragma once

#include "autograd/ops/nn/loss_ops.h"
#include "framework/base/describe.h"
#include "modules/layers/containers.h"
#include "modules/layers/linear.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/stateless.h"

namespace taper::v0 {

namespace detail {
// Returns whether a module below this one has hooks.
bool has_hooks_below(const Module& module);
}  // namespace detail

// Options of GPT. The defaults are those of GPT-2 124M, with the vocabulary rounded up to a
// multiple of 64.
struct GPTOptions {
  int64_t vocab_size = 50304;
  int64_t block_size = 1024;  // maximum sequence length
  int64_t n_layer = 12, n_head = 12, n_embd = 768;
  double dropout = 0;
  bool bias = true;  // in Linear and LayerNorm
  // kNone: by erf, as in nanoGPT. GPT-2's published weights need "tanh".
  GeluApproximate gelu = GeluApproximate::kNone;
  Device device = DeviceType::kCpu;

  // Describes the fields except those that the data determine.
  template <class V> void describe(V& v) {
    v("n_layer", n_layer, {1, 1000}, "number of blocks");
    v("n_head", n_head, kWidth, "attention heads in each block");
    v("n_embd", n_embd, kWidth, "width");
    v("dropout", dropout, kBelowOne, "dropout probability");
    v("bias", bias, "whether linear layers and norms have a bias");
    v("gelu", gelu, "formula of GELU; GPT-2's published weights need tanh");
  }
  template <class V> void rules(V& v) {
    v("n_head", "must divide n_embd", [this] { return n_embd % n_head == 0; });
  }
};

// Causal self-attention: each position attends to itself and to those before it. Maps [B, T, C] to
// the same shape. A residual is added if it is given.
class CausalSelfAttention : public Cloneable<CausalSelfAttention> {
 public:
  explicit CausalSelfAttention(const GPTOptions& options);

  Tensor forward(const Tensor& x) override { return resid_dropout(attend(x)); }
  using Module::operator();
  Tensor operator()(const Tensor& x, const Tensor& residual);

  int64_t n_head;
  double dropout;  // of the attention weights
  Child<Linear> c_attn, c_proj;
  Child<Dropout> resid_dropout;

 private:
  Tensor attend(const Tensor& x);
};

// The feed-forward part of a block. Maps [B, T, C] to the same shape. A residual is added if it is
// given.
class GPTMLP : public Cloneable<GPTMLP> {
 public:
  explicit GPTMLP(const GPTOptions& options);

  Tensor forward(const Tensor& x) override;
  using Module::operator();
  Tensor operator()(const Tensor& x, const Tensor& residual);
  std::string type_name() const override { return "MLP"; }

  Child<Linear> c_fc;
  Child<GELU> gelu;
  Child<Linear> c_proj;
  Child<Dropout> dropout;

 private:
  Tensor project(const Tensor& x);
};

// Adds attention, then the MLP, each applied to the layer-normalized input.
class GPTBlock : public Cloneable<GPTBlock> {
 public:
  explicit GPTBlock(const GPTOptions& options);

  Tensor forward(const Tensor& x) override;
  std::string type_name() const override { return "Block"; }

  Child<LayerNorm> ln_1;
  Child<CausalSelfAttention> attn;
  Child<LayerNorm> ln_2;
  Child<GPTMLP> mlp;
  // If true, the block keeps only its input for the backward pass, which computes the block again
  // (checkpoint()). Results and gradients keep their bits. Ignored while a module of the block has
  // hooks, which would otherwise run twice.
  bool recompute = false;

 private:
  Tensor compute(const Tensor& x);
};

// The model without its head. Maps tokens [B, T] to [B, T, n_embd].
class GPTTransformer : public Cloneable<GPTTransformer> {
 public:
  explicit GPTTransformer(const GPTOptions& options);

  Tensor forward(const Tensor& tokens) override;
  std::string type_name() const override { return "ModuleDict"; }

  Child<Embedding> wte, wpe;
  Child<Dropout> drop;
  Child<Sequential> h;
  Child<LayerNorm> ln_f;
};

// Maps tokens [B, T] (int64 or int32, T <= block_size) to logits [B, T, vocab_size]. lm_head.weight
// is tied to transformer.wte.weight. Weights are drawn from a normal distribution with mean 0 and
// standard deviation 0.02, or 0.02 / sqrt(2 n_layer) for the projections back to the residual
// stream. Biases are 0. Throws ValueError if n_head does not divide n_embd.
class GPT : public Cloneable<GPT> {
 public:
  explicit GPT(const GPTOptions& options = {});

  Tensor forward(const Tensor& tokens) override;
  // Returns the cross entropy of the logits for targets [B, T], by linear_cross_entropy: large
  // logits are never stored as a whole. If the model or lm_head has hooks, computes
  // cross_entropy(model(tokens), targets) instead, so that the hooks see all values. The loss is on
  // the device of lm_head, to which the targets are moved.
  Tensor loss(const Tensor& tokens, const Tensor& targets, const CrossEntropyOptions& o = {},
              IntArg max_block_bytes = kLossBlockBytes);
  CallStyle call_style() const override { return CallStyle::kPassesOn; }

  GPTOptions options;
  Child<GPTTransformer> transformer;
  Child<Linear> lm_head;
};

}  // namespace taper::v0
