// Attention
// (https://pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html).
#pragma once

#include <optional>

#include "framework/factory/generator.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

struct DotProductAttentionOptions {
  Tensor attn_mask = {};
  double dropout_p = 0;
  bool is_causal = false;
  std::optional<double> scale = std::nullopt;  // default: 1 / sqrt(D)
  bool enable_gqa = false;
  Generator* generator = nullptr;  // of the dropout
};

// Returns dropout(softmax(scale * q k^T + attn_mask)) v as [..., T, Dv], for q [..., T, D], k [...,
// S, D] and v [..., S, Dv]. The batch dimensions broadcast.
//
// attn_mask broadcasts to [..., T, S]. A bool mask is true for keys that take part; a floating mask
// is added to the scores. is_causal lets query i see the keys j <= i and excludes a mask. scale
// defaults to 1 / sqrt(D). A query whose keys are all hidden gives zeros. enable_gqa allows k and v
// [..., heads, S, D] to have fewer heads than q, each shared by a group of q's heads
// (https://arxiv.org/abs/2305.13245); on the CPU they are not copied.
//
// float16 and bfloat16 compute in float; the GPU's tensor cores round the probabilities to the half
// type. Throws Error for other than floating dtypes, for dtypes that differ and for sizes that do
// not match. Differentiable as often as needed. Does not synchronize.
//
// Memory: the fused kernels keep no [T, S] matrix for the backward pass. They exist on the GPU for
// half types without a mask and on the CPU for float32 without mask and dropout. In all other cases
// the scores of a few heads are in memory at a time. If attn_mask needs a gradient or the backward
// pass is recorded, the scores of all heads are in memory at once. cuDNN's backward pass also holds
// scores while it runs.
//
//   y = scaled_dot_product_attention(q, k, v, {.is_causal = true});
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const DotProductAttentionOptions& options = {});
// A template, so that options in braces select the function above.
template <class = void>
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& attn_mask, RealArg dropout_p = 0,
                                    BoolArg is_causal = false,
                                    std::optional<double> scale = std::nullopt,
                                    Generator* generator = nullptr, BoolArg enable_gqa = false) {
  return scaled_dot_product_attention(
      q, k, v,
      DotProductAttentionOptions{attn_mask, dropout_p, is_causal, scale, enable_gqa, generator});
}

// Computes scaled_dot_product_attention for query, key and value packed as one Linear layer returns
// them: qkv [B, T, 3 C]. Each of the three has C channels, and each of n_head heads has C / n_head
// adjacent channels. Returns [B, T, C]. The bits equal those of scaled_dot_product_attention on the
// separate heads. It takes neither a mask nor enable_gqa. Nothing is copied in between, and the
// gradient is written as one tensor (compare flash_attn_qkvpacked_func in
// https://github.com/Dao-AILab/flash-attention).
//
//   packed_attention(linear(x, w_qkv), n_head, {.is_causal = true});
Tensor packed_attention(const Tensor& qkv, IntArg n_head,
                        const DotProductAttentionOptions& options = {});
// A template, so that options in braces select the function above.
template <class = void>
Tensor packed_attention(const Tensor& qkv, IntArg n_head, RealArg dropout_p,
                        BoolArg is_causal = false, std::optional<double> scale = std::nullopt,
                        Generator* generator = nullptr) {
  return packed_attention(
      qkv, n_head,
      DotProductAttentionOptions{
          .dropout_p = dropout_p, .is_causal = is_causal, .scale = scale, .generator = generator});
}

// The arguments recorded in traces of both functions.
struct AttentionTrace {
  double scale;
  bool is_causal;
  int64_t n_head = 0;
};

}  // namespace taper::v0
