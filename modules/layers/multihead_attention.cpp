#include "modules/layers/multihead_attention.h"

#include <cmath>
#include <limits>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/nn/attention_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "modules/init.h"
#include "modules/layers/repr.h"

namespace taper::v0 {
namespace {

// Converts a mask to the form that is added to the scores.
Tensor added(const Tensor& mask, DType dtype) {
  if (mask.dtype() != kBool) return mask.to(dtype);
  return masked_fill(zeros(mask.shape(), {.dtype = dtype, .device = mask.device()}), mask,
                     -std::numeric_limits<double>::infinity());
}

// `of` is "batched (3-D)" or "unbatched (2-D)". `dims` names the allowed dimensions in words.
void check_mask(const char* name, const Tensor& mask, const char* of, bool fits, const char* dims) {
  if (!mask.defined()) return;
  require(mask.dtype() == kBool || mask.is_floating_point(), "only bool and floating types of ",
          name, " are supported");
  require(fits, "For ", of, " `query`, expected `", name, "` to be undefined", dims, " but found ",
          mask.dim(), "-D tensor instead");
}

void check(const MultiheadAttention& m, const Tensor& query, const Tensor& key, const Tensor& value,
           const AttendOptions& o) {
  const int dims = query.dim(), batch = m.options.batch_first ? 0 : 1;
  const bool batched = dims == 3;
  const char* of = batched ? "batched (3-D)" : "unbatched (2-D)";
  require(dims == 2 || dims == 3, "query should be unbatched 2D or batched 3D tensor but received ",
          dims, "-D query tensor");
  require(key.dim() == dims && value.dim() == dims, "For ", of,
          " `query`, expected `key` and `value` to be ", dims, "-D but found ", key.dim(),
          "-D and ", value.dim(), "-D tensors respectively");
  const Tensor &padding = o.key_padding_mask, &mask = o.attn_mask;
  check_mask("key_padding_mask", padding, of, padding.defined() && padding.dim() == dims - 1,
             batched ? " or 2-D" : " or 1-D");
  check_mask("attn_mask", mask, of, mask.defined() && (mask.dim() == 2 || mask.dim() == 3),
             ", 2-D or 3-D");
  require(query.size(-1) == m.embed_dim, "was expecting embedding dimension of ", m.embed_dim,
          ", but got ", query.size(-1));
  if (key.shape() != value.shape()) {
    throw Error("key shape ", key.shape(), " does not match value shape ", value.shape());
  }
  require(!batched || query.size(batch) == key.size(batch),
          "query and key must have the same batch size, got shapes ", query.shape(), " and ",
          key.shape(), " with batch_first=", py(m.options.batch_first));
}

// Returns query, key and value after their projections, without changing the batch layout.
std::vector<Tensor> project(const MultiheadAttention& m, const Tensor& query, const Tensor& key,
                            const Tensor& value) {
  if (query.is_same(key) && key.is_same(value)) {
    return chunk(linear(query, m.in_proj_weight, m.in_proj_bias), 3, -1);
  }
  const auto by = [&](int64_t third, const Tensor& x) {
    const auto rows = [&](const Tensor& p) {
      return p.defined() ? p.narrow(0, third * m.embed_dim, m.embed_dim) : p;
    };
    return linear(x, rows(m.in_proj_weight), rows(m.in_proj_bias));
  };
  return {by(0, query), by(1, key), by(2, value)};
}

// Combines all masks into one that is added to scores [B, num_heads, L, S]; undefined without
// masks.
Tensor mask_for(const Tensor& q, const Tensor& k, const AttendOptions& o, bool causal) {
  const int64_t B = q.size(0), num_heads = q.size(1), L = q.size(2), S = k.size(2);
  Tensor sum;
  const auto add = [&](const Tensor& mask) { sum = sum.defined() ? sum + mask : mask; };
  if (o.attn_mask.defined()) {
    const bool flat = o.attn_mask.dim() == 2;
    const Shape want = flat ? Shape{L, S} : Shape{B * num_heads, L, S};
    if (o.attn_mask.shape() != want) {
      throw Error("The shape of the ", o.attn_mask.dim(), "D attn_mask is ", o.attn_mask.shape(),
                  ", but should be ", py(want), ".");
    }
    add(added(flat ? o.attn_mask : o.attn_mask.reshape({B, num_heads, L, S}), q.dtype()));
  }
  if (o.key_padding_mask.defined()) {
    const Tensor& mask = o.key_padding_mask;
    const Shape want = mask.dim() == 1 ? Shape{S} : Shape{B, S};
    for (int d = 0; d < mask.dim(); ++d) {
      require(mask.size(d) == want[d], "Expected key_padded_mask.shape[", d, "] to be ", want[d],
              ", but got ", mask.size(d));
    }
    add(added(mask.reshape({B, 1, 1, S}), q.dtype()));
  }
  if (causal) {
    const TensorOptions place{.device = q.device()};
    add(added(gt(arange(S, place), unsqueeze(arange(L, place), 1)), q.dtype()));
  }
  return sum;
}

// Returns the softmax of scores with an optional mask. A query whose keys are all hidden gets
// zeros. Its scores are replaced too, so that no nan enters the backward pass.
Tensor masked_softmax(const Tensor& scores, const Tensor& mask) {
  if (!mask.defined() || scores.numel() == 0) return softmax(scores, -1);
  const Tensor biased = scores + mask;
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor dead = eq(amax(biased.detach(), {-1}, true), wrap_scalar(-inf));
  return masked_fill(softmax(masked_fill(biased, dead, 0), -1), dead, 0);
}

}  // namespace

MultiheadAttention::MultiheadAttention(IntArg dim, IntArg heads, MultiheadAttentionOptions o)
    : embed_dim(checked(dim, dim > 0 && heads > 0,
                        "embed_dim and num_heads must be greater than 0, got embed_dim=", dim,
                        " and num_heads=", heads, " instead")),
      num_heads(checked<Error>(heads, dim % heads == 0,
                               "embed_dim must be divisible by num_heads (got ", dim, " and ",
                               heads, ")")),
      options(o),
      in_proj_weight(*this, "in_proj_weight",
                     empty({checked_mul(3, dim), dim}, {.device = o.device})),
      in_proj_bias(o.bias ? Parameter(*this, "in_proj_bias", zeros({3 * dim}, {.device = o.device}))
                          : Parameter()),
      out_proj(*this, "out_proj", dim, dim, LinearOptions{.bias = o.bias, .device = o.device}) {
  init::xavier_uniform_(in_proj_weight);
  if (o.bias) init::zeros_(out_proj->bias);
}

Attended MultiheadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                        const AttendOptions& how) {
  return call_with_hooks([this](const auto&... a) { return attend(a...); }, query, key, value, how);
}

Attended MultiheadAttention::attend(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttendOptions& o) {
  check(*this, query, key, value, o);
  const bool batched = query.dim() == 3;
  const int batch = options.batch_first ? 0 : 1;
  const Shape order = batch == 0 ? Shape{0, 2, 1, 3} : Shape{1, 2, 0, 3};
  const Shape order_back = batch == 0 ? Shape{0, 2, 1, 3} : Shape{2, 0, 1, 3};
  const int64_t head_dim = embed_dim / num_heads;
  std::vector<Tensor> qkv = project(*this, query, key, value);
  for (Tensor& x : qkv) {  // to [B, num_heads, L or S, head_dim]
    x = unflatten(batched ? x : x.unsqueeze(batch), -1, {num_heads, head_dim}).permute(order);
  }
  const Tensor &q = qkv[0], &k = qkv[1], &v = qkv[2];

  const double p = is_training() ? options.dropout : 0;
  const bool has_mask = o.attn_mask.defined() || o.key_padding_mask.defined();
  const bool causal_alone = o.is_causal && !has_mask && !o.need_weights;
  const Tensor mask = mask_for(q, k, o, o.is_causal && !causal_alone);
  Tensor y, weights;
  if (o.need_weights) {
    const Tensor scores = matmul(q * (1 / std::sqrt(double(head_dim))), k.transpose(-2, -1));
    weights = dropout(masked_softmax(scores, mask), p);
    y = matmul(weights, v);
    if (o.average_attn_weights) weights = mean(weights, {1});
    if (!batched) weights = weights.squeeze(0);
  } else {
    y = scaled_dot_product_attention(
        q, k, v, {.attn_mask = mask, .dropout_p = p, .is_causal = causal_alone});
  }
  y = out_proj(flatten(y.permute(order_back), -2));
  return {batched ? y : y.squeeze(batch), weights};
}

}  // namespace taper::v0
