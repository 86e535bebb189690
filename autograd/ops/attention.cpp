#include "autograd/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/autocast.h"
#include "autograd/node.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/random.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "autograd/ops/unary.h"
#include "framework/kernels/attention/attention.h"
#include "framework/kernels/elementwise/broadcast.h"

namespace taper {
namespace {

struct Attention {
  Shape scores;  // [batch..., T, S]
  bool causal;
  double scale, dropout_p;
  PhiloxKey key;
};

// --- as a composition of ops: on the CPU; of a recorded backward pass and of a mask's gradient ---

// The same elements again for the same key.
Tensor dropped(const Tensor& p, const Attention& how) {
  if (how.dropout_p == 0) return p;
  Generator generator;
  generator.set_state(how.key);
  return dropout(p, how.dropout_p, true, &generator);
}

// As a mask that is added to scores: a bool becomes 0 where true, -inf where not.
Tensor as_added(const Tensor& mask, DType dtype) {
  return mask.dtype() == kBool ? log(mask.to(dtype)) : mask.to(dtype);
}

// The softmax of the scores [B, H, T, S]; 0 for a query without keys.
Tensor probabilities(const Tensor& q, const Tensor& k, Tensor mask, const Attention& how) {
  const int64_t T = q.size(2), S = k.size(2);
  const Tensor s = matmul(q * how.scale, transpose(k, 2, 3));
  const TensorOptions place{.device = q.device()};
  if (how.causal) mask = as_added(le(arange(S, place), unsqueeze(arange(T, place), 1)), s.dtype());
  if (!mask.defined() || s.numel() == 0) return softmax(s, -1);
  const Tensor biased = reshape(reshape(s, how.scores) + mask, s.shape());
  if (how.causal) return softmax(biased, -1);
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor alive = ne(amax(biased, {-1}, true), wrap_scalar(-inf));
  return masked(softmax(masked(biased, alive), -1), alive);
}

struct Wanted {
  bool dq = true, dk = true, dv = true;
};

// Where dmask is given, the mask's gradient too.
kernels::AttentionGradients composed_backward(const Tensor& dy_given, const Tensor& q_given,
                                              const Tensor& k_given, const Tensor& v_given,
                                              const Tensor& mask, const Attention& how,
                                              Wanted wanted = {}, Tensor* dmask = nullptr) {
  const DType dtype = q_given.dtype(), wide = compute_type(dtype);
  const Tensor q = q_given.to(wide), k = k_given.to(wide), v = v_given.to(wide);
  const Tensor dy = dy_given.to(wide), p = probabilities(q, k, mask, how);
  kernels::AttentionGradients d;
  if (wanted.dv) d.dv = matmul(transpose(dropped(p, how), 2, 3), dy).to(dtype);
  const Tensor dp = dropped(matmul(dy, transpose(v, 2, 3)), how);
  const Tensor ds = p * (dp - sum(dp * p, {-1}, true));
  if (wanted.dq) d.dq = (matmul(ds, k) * how.scale).to(dtype);
  if (wanted.dk) d.dk = (matmul(transpose(ds, 2, 3), q) * how.scale).to(dtype);
  if (dmask) *dmask = sum_to(reshape(ds, how.scores), mask.shape());
  return d;
}

// --- fused ---

kernels::AttentionArgs args_of(const Tensor& mask, const Attention& how) {
  const Tensor whole = mask.defined() ? expand(mask.detach(), how.scores) : Tensor();
  return {whole, how.causal, how.scale, how.dropout_p, how.key};
}

// Without a logsumexp where it is a composition.
kernels::AttentionResult forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                 const Tensor& mask, const Attention& how) {
  const kernels::AttentionArgs args = args_of(mask, how);
  if (kernels::takes_attention(q, k, v, args)) return kernels::attention(q, k, v, args);
  const NoGradGuard guard;
  const DType wide = compute_type(q.dtype());
  const Tensor p = probabilities(q.to(wide), k.to(wide), mask, how);
  return {matmul(dropped(p, how), v.to(wide)).to(q.dtype()), {}};
}

// For the gradient of x: as x lies in memory, where that is by row and then head, else dense.
Tensor like(const Tensor& x) {
  if (x.stride(1) >= x.stride(2)) return Tensor::make(x.shape(), x.dtype(), x.device());
  return kernels::rows_of_heads(x.size(0), x.size(1), x.size(2), x.size(3), x);
}

// On [B, H, T, D], [B, H, S, D] and [B, H, S, Dv], with a mask that is added.
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
              const Attention& how) {
  const kernels::AttentionResult out = forward(q, k, v, mask, how);
  if (!needs_grad({q, k, v, mask})) return out.y;
  return record(
      "ScaledDotProductFlashAttentionBackward0", out.y, {q, k, v, mask},
      [q = Saved(q), k = Saved(k), v = Saved(v), mask = Saved(mask),
       y = q.is_cuda() ? Saved::output(out.y) : Saved(), lse = out.logsumexp, how](Gradients& g) {
        const Tensor queries = q.get(g), keys = k.get(g), values = v.get(g);
        kernels::AttentionGradients d;
        if (!lse.defined() || g.needs(3) || is_grad_enabled()) {
          d = composed_backward(g.dy(), queries, keys, values, mask.get(g), how,
                                {g.needs(0), g.needs(1), g.needs(2)},
                                g.needs(3) ? &g.dx(3) : nullptr);
        } else {
          d = {like(queries), like(keys), like(values)};
          kernels::attention_backward(d, g.dy(), queries, keys, values, {y.get(g), lse},
                                      args_of(mask.get(g), how));
        }
        if (g.needs(0)) g.dx(0) = d.dq;
        if (g.needs(1)) g.dx(1) = d.dk;
        if (g.needs(2)) g.dx(2) = d.dv;
      });
}

// --- packed ---

struct Heads {
  Tensor q, k, v;
};

// The parts of x [B, T, 3 C] as views [B, H, T, D] of its memory, off the tape.
Heads heads_of(const Tensor& x, int64_t H) {
  const int64_t C = x.size(2) / 3, D = C / H, step = x.stride(2);
  const auto part = [&](int64_t i) {
    return Tensor::make(x.storage(), {x.size(0), H, x.size(1), D},
                        {x.stride(0), D * step, x.stride(1), step},
                        x.storage_offset() + i * C * step, x.dtype());
  };
  return {part(0), part(1), part(2)};
}

// The same on the tape.
Heads recorded_heads_of(const Tensor& x, int64_t H) {
  const int64_t C = x.size(2) / 3;
  const auto part = [&](int64_t i) {
    return transpose(unflatten(narrow(x, 2, i * C, C), 2, {H, C / H}), 1, 2);
  };
  return {part(0), part(1), part(2)};
}

// [B, H, T, D] to [B, T, C] and back.
Tensor merged(const Tensor& y) { return flatten(transpose(y, 1, 2), 2); }
Tensor by_head(const Tensor& y, int64_t H) {
  return transpose(unflatten(y, 2, {H, y.size(2) / H}), 1, 2);
}

// The gradient of qkv.
Tensor packed_backward(const Tensor& dy, const Tensor& qkv, const kernels::AttentionResult& forward,
                       int64_t H, const Attention& how) {
  if (!forward.logsumexp.defined() || is_grad_enabled()) {
    const Heads x = recorded_heads_of(qkv, H);
    const auto d = composed_backward(by_head(dy, H), x.q, x.k, x.v, {}, how);
    return cat(std::vector<Tensor>{merged(d.dq), merged(d.dk), merged(d.dv)}, 2);
  }
  const Tensor dqkv = Tensor::make(qkv.shape(), qkv.dtype(), qkv.device());
  const Heads x = heads_of(qkv, H), dx = heads_of(dqkv, H);
  kernels::attention_backward(
      {dx.q, dx.k, dx.v}, by_head(dy, H), x.q, x.k, x.v,
      {forward.y.defined() ? by_head(forward.y, H) : Tensor(), forward.logsumexp},
      args_of({}, how));
  return dqkv;
}

// --- the border ---

void check(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, double dropout_p,
           bool is_causal) {
  kernels::same_device("scaled_dot_product_attention", {&q, &k, &v, &mask},
                       {"query", "key", "value", "attn_mask"});
  if (q.dtype() != k.dtype() || q.dtype() != v.dtype()) {
    throw Error(cat("Expected query, key, and value to have the same dtype, but got query.dtype: ",
                    cpp_name(q.dtype()), " key.dtype: ", cpp_name(k.dtype()),
                    " and value.dtype: ", cpp_name(v.dtype()), " instead."));
  }
  if (q.dim() < 2 || k.dim() < 2 || v.dim() < 2) {
    throw Error(
        cat("Expected query, key, and value to all be  at least 2 dimensional, but got "
            "query.dim: ",
            q.dim(), " key.dim: ", k.dim(), " and value.dim: ", v.dim(), " instead."));
  }
  if (!q.is_floating_point()) {
    throw Error(cat("expected scalar type Float but found ", scalar_type_name(q.dtype()),
                    " (query, key and value of scaled_dot_product_attention)"));
  }
  if (mask.defined() && mask.dtype() != kBool && mask.dtype() != kFloat32 &&
      mask.dtype() != q.dtype()) {
    throw Error(
        cat("Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            "attn_mask.dtype: ",
            cpp_name(mask.dtype()), " and  query.dtype: ", cpp_name(q.dtype()), " instead."));
  }
  if (mask.defined() && is_causal) {
    throw Error(
        "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
  }
  if (!(dropout_p >= 0 && dropout_p <= 1)) {
    throw Error(cat("dropout probability has to be between 0 and 1, but got ", dropout_p));
  }
}

Shape batch_of(const Tensor& x) { return {x.shape().begin(), x.shape().end() - 2}; }

// [batch..., rows, columns]
Shape joined(Shape batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

// x with its batch broadcast, and that in two dimensions, of which the last are the heads.
Tensor folded(const Tensor& x, const Shape& batch) {
  const int64_t rows = x.size(-2), columns = x.size(-1), n = batch.size();
  const int64_t heads = n > 1 ? batch[n - 1] : 1;
  const int64_t outer = n > 1 ? Shape(batch.begin(), batch.end() - 1).numel() : batch.numel();
  const Shape shape{outer, heads, rows, columns};
  return x.shape() == shape ? x : reshape(expand(x, joined(batch, rows, columns)), shape);
}

double usual_scale(int64_t D) { return 1 / std::sqrt(double(std::max<int64_t>(D, 1))); }

PhiloxKey dropout_key(double dropout_p, Generator* generator) {
  return dropout_p == 0 ? PhiloxKey() : next_key(generator);
}

// In PyTorch's words, which are those of the product that fails.
void check_size(int64_t B, int64_t want, int64_t got, const char* which) {
  if (want == got) return;
  throw Error(cat("Expected size for first two dimensions of batch2 tensor to be: [", B, ", ", want,
                  "] but got: [", B, ", ", got, "]. (scaled_dot_product_attention: ", which, ")"));
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& attn_mask, double dropout_p, bool is_causal,
                                    std::optional<double> scale, Generator* generator) {
  if (autocasts(q)) {
    const auto attend = [&](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& m) {
      return scaled_dot_product_attention(a, b, c, m, dropout_p, is_causal, scale, generator);
    };
    return casted(Cast::to_low, attend, q, k, v, attn_mask);
  }
  check(q, k, v, attn_mask, dropout_p, is_causal);
  const int64_t T = q.size(-2), S = k.size(-2), D = q.size(-1);
  const Shape batch = broadcast_shapes(broadcast_shapes(batch_of(q), batch_of(k)), batch_of(v));
  check_size(batch.numel(), D, k.size(-1), "the last sizes of query and key");
  check_size(batch.numel(), S, v.size(-2), "the lengths of key and value");

  Attention how{joined(batch, T, S), is_causal, scale.value_or(usual_scale(D)), dropout_p, {}};
  Tensor mask = attn_mask;
  if (mask.defined()) {
    const Shape shape = broadcast_shapes(how.scores, mask.shape());
    if (shape != how.scores) {
      throw Error(cat("output with shape ", how.scores, " doesn't match the broadcast shape ",
                      shape, " (attn_mask of scaled_dot_product_attention)"));
    }
    mask = as_added(mask, compute_type(q.dtype()));
  }
  how.key = dropout_key(dropout_p, generator);
  const Tensor y = attend(folded(q, batch), folded(k, batch), folded(v, batch), mask, how);
  const Shape shape = joined(batch, T, v.size(-1));
  return y.shape() == shape ? y : reshape(y, shape);
}

Tensor packed_attention(const Tensor& qkv, int64_t n_head, double dropout_p, bool is_causal,
                        std::optional<double> scale, Generator* generator) {
  if (autocasts(qkv)) {
    const auto attend = [&](const Tensor& x) {
      return packed_attention(x, n_head, dropout_p, is_causal, scale, generator);
    };
    return casted(Cast::to_low, attend, qkv);
  }
  if (qkv.dim() != 3 || n_head <= 0 || qkv.size(2) % 3 != 0 ||
      qkv.size(2) / 3 % n_head != 0) {
    throw Error(cat("packed_attention: expected qkv [B, T, 3 * n_head * head_dim], but got ",
                    qkv.shape(), " for n_head = ", n_head));
  }
  check(qkv, qkv, qkv, {}, dropout_p, is_causal);
  const int64_t B = qkv.size(0), T = qkv.size(1), H = n_head, D = qkv.size(2) / (3 * H);
  const Attention how{{B, H, T, T},
                      is_causal,
                      scale.value_or(usual_scale(D)),
                      dropout_p,
                      dropout_key(dropout_p, generator)};
  const Heads x = heads_of(qkv, H);
  kernels::AttentionResult out = forward(x.q, x.k, x.v, {}, how);
  {
    const NoGradGuard guard;
    const Tensor y = merged(out.y);
    // No view to the tape, which would refuse to have it written to.
    out.y = Tensor::make(y.storage(), y.shape(), y.strides(), y.storage_offset(), y.dtype());
  }
  if (!needs_grad({qkv})) return out.y;
  return record("PackedAttentionBackward", out.y, {qkv},
                [qkv = Saved(qkv), y = qkv.is_cuda() ? Saved::output(out.y) : Saved(),
                 lse = out.logsumexp, H, how](Gradients& g) {
                  const Tensor forward_y = lse.defined() ? y.get(g) : Tensor();
                  g.dx(0) = packed_backward(g.dy(), qkv.get(g), {forward_y, lse}, H, how);
                });
}

}  // namespace taper
