// Attention
// (https://pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html).
#pragma once

#include <optional>

#include "framework/random.h"
#include "framework/tensor.h"

namespace taper::v0 {

// dropout(softmax(scale q k^T + attn_mask)) v, for q [..., T, D], k [..., S, D] and v [..., S, Dv];
// the batch dimensions broadcast. attn_mask broadcasts to [..., T, S]: bool (true takes part), or
// floating and added. is_causal, without a mask, lets query i see keys j <= i. The scale is
// 1 / sqrt(D) unless given. A query for which every key is masked gives zeros. float16 and bfloat16
// are computed in float (on the GPU's tensor cores with probabilities rounded to them). No [T, S]
// matrix is kept for the backward pass. Where no fused kernel serves (on the GPU float32, float64
// and masks; on the CPU masks, dropout and other types than float32) the scores of some heads are
// in memory at a time, all where attn_mask needs a gradient or the backward pass is recorded;
// cuDNN's backward pass has them while it runs. enable_gqa: k and v [..., heads, S, D] may have
// fewer heads than q, each for a group of its heads (https://arxiv.org/abs/2305.13245); on the CPU
// they are not copied.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& attn_mask = {}, RealArg dropout_p = 0,
                                    BoolArg is_causal = false,
                                    std::optional<double> scale = std::nullopt,
                                    Generator* generator = nullptr, BoolArg enable_gqa = false);

// The same for query, key and value as one Linear gives them: qkv [B, T, 3 C], where each takes C
// and each of n_head heads C / n_head neighbours of it; to [B, T, C]. Equal bits to
// scaled_dot_product_attention of the parts by head, but nothing is copied between, and the
// gradient is made in one piece (cf. flash_attn_qkvpacked_func of
// https://github.com/Dao-AILab/flash-attention).
Tensor packed_attention(const Tensor& qkv, IntArg n_head, RealArg dropout_p = 0,
                        BoolArg is_causal = false, std::optional<double> scale = std::nullopt,
                        Generator* generator = nullptr);

// What traces are told of both.
struct AttentionTrace {
  double scale;
  bool is_causal;
  int64_t n_head = 0;
};

}  // namespace taper::v0
