// Attention with several heads
// (https://pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html).
#pragma once

#include "modules/layers/linear.h"

namespace taper::v0 {

struct MultiheadAttentionOptions {
  double dropout = 0;  // of the weights, while training
  bool bias = true;
  bool batch_first = false;
  Device device = DeviceType::cpu;
};

// Masks are bool (true: the key is left out) or floating (added to the scores). A query for which
// every key is masked (by true, or by -inf) attends to nothing: its weights are zeros, with and
// without need_weights, its output is the bias of out_proj, and its gradients are zeros. (In
// PyTorch 2.11 both are nan with need_weights.)
struct AttendOptions {
  Tensor key_padding_mask = {};  // [B, S]; [S] without a batch
  bool need_weights = true;      // without them no [L, S] matrix is kept
  Tensor attn_mask = {};         // [L, S] or [B * num_heads, L, S]
  bool average_attn_weights = true;
  bool is_causal = false;  // query i sees keys j <= i alone; needs no mask beside it
  void tensors(const auto& each) { each(key_padding_mask, attn_mask); }
};
// What MultiheadAttention gives.
struct Attended {
  Tensor output;   // as query
  Tensor weights;  // where needed: [B, L, S], or [B, num_heads, L, S] when not averaged
  void tensors(const auto& each) { each(output, weights); }
};

// PyTorch's name for the Linear in it.
class NonDynamicallyQuantizableLinear : public Cloneable<NonDynamicallyQuantizableLinear, Linear> {
 public:
  using Cloneable::Cloneable;
};

// query [L, B, embed_dim], key and value [S, B, embed_dim]; batch_first: [B, L, embed_dim] and so
// on; or all without B. in_proj_weight [3 * embed_dim, embed_dim] (rows of query, key, value) is
// drawn by Xavier's rule; biases are 0. There are no other sizes of key and value (kdim, vdim), no
// bias_kv and no zero_attn.
class MultiheadAttention : public Cloneable<MultiheadAttention> {
 public:
  using Options = MultiheadAttentionOptions;

  MultiheadAttention(IntArg embed_dim, IntArg num_heads, MultiheadAttentionOptions options = {});

  // Attention of x to itself: the output alone.
  Tensor forward(const Tensor& x) override {
    return attend(x, x, x, {.need_weights = false}).output;
  }
  using Module::operator();
  Attended operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                      const AttendOptions& how = {});

  int64_t embed_dim, num_heads;
  MultiheadAttentionOptions options;
  Parameter in_proj_weight, in_proj_bias;
  Child<NonDynamicallyQuantizableLinear> out_proj;

 private:
  Attended attend(const Tensor& query, const Tensor& key, const Tensor& value,
                  const AttendOptions& o);
};

}  // namespace taper::v0
