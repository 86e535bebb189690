// Attention
// (https://pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html).
#pragma once

#include <optional>

#include "framework/random.h"
#include "framework/tensor.h"

namespace taper {

// dropout(softmax(scale q k^T + attn_mask)) v, for q [..., T, D], k [..., S, D] and v [..., S, Dv];
// the batch dimensions broadcast. attn_mask broadcasts to [..., T, S]: bool (true takes part), or
// floating and added. is_causal, without a mask, lets query i see keys j <= i. The scale is
// 1 / sqrt(D) unless given. A query for which every key is masked gives zeros. float16 and bfloat16
// are computed in float. On the GPU no [T, S] matrix is kept in memory, unless attn_mask needs a
// gradient or the backward pass is recorded; cuDNN's backward pass of half types has one while it
// runs.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& attn_mask = {}, double dropout_p = 0,
                                    bool is_causal = false,
                                    std::optional<double> scale = std::nullopt,
                                    Generator* generator = nullptr);

}  // namespace taper
