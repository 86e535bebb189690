// Multi-head attention
// (https://pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html).
#pragma once

#include "modules/layers/linear.h"

namespace taper::v0 {

struct MultiheadAttentionOptions {
  double dropout = 0;  // of the attention weights, in training mode
  bool bias = true;
  bool batch_first = false;
  Device device = DeviceType::kCpu;
};

// Options of a call. Masks are bool (true: the key is ignored) or floating-point (added to the
// scores). A query whose keys are all hidden, by true or by -inf, attends to nothing. Its weights
// are zeros with and without need_weights, its output is the bias of out_proj, and its gradients
// are zeros. (In PyTorch 2.11 both are nan with need_weights.)
struct AttendOptions {
  Tensor key_padding_mask = {};  // [B, S]; [S] without a batch
  bool need_weights = true;      // false: no [L, S] matrix is stored
  Tensor attn_mask = {};         // [L, S] or [B * num_heads, L, S]
  bool average_attn_weights = true;
  bool is_causal = false;  // query i attends only to keys j <= i; no mask is needed in addition
  void tensors(const auto& each) { each(key_padding_mask, attn_mask); }
};
// The result of MultiheadAttention.
struct Attended {
  Tensor output;   // the shape of query
  Tensor weights;  // with need_weights: [B, L, S], or [B, num_heads, L, S] if not averaged
  void tensors(const auto& each) { each(output, weights); }
};

// A Linear under the name that PyTorch gives to out_proj.
class NonDynamicallyQuantizableLinear : public Cloneable<NonDynamicallyQuantizableLinear, Linear> {
 public:
  using Cloneable::Cloneable;
};

// query is [L, B, embed_dim], key and value are [S, B, embed_dim]. With batch_first they are [B, L,
// embed_dim] and so on; without a batch, B is absent. in_proj_weight [3 * embed_dim, embed_dim]
// (rows for query, key, value) is drawn by xavier_uniform_; biases are 0. PyTorch's options kdim,
// vdim, add_bias_kv and add_zero_attn are not supported.
class MultiheadAttention : public Cloneable<MultiheadAttention> {
 public:
  using Options = MultiheadAttentionOptions;

  MultiheadAttention(IntArg embed_dim, IntArg num_heads, MultiheadAttentionOptions options = {});

  // Computes self-attention of x. Returns only the output.
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
