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
#include "framework/kernels/attention.h"
#include "framework/kernels/loop.h"

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

// The softmax of the scores [B, T, S]; 0 for a query without keys.
Tensor probabilities(const Tensor& q, const Tensor& k, Tensor mask, const Attention& how) {
  const int64_t T = q.size(1), S = k.size(1);
  const Tensor s = matmul(q * how.scale, transpose(k, 1, 2));
  const TensorOptions place{.device = q.device()};
  if (how.causal) mask = as_added(le(arange(S, place), unsqueeze(arange(T, place), 1)), s.dtype());
  if (!mask.defined() || s.numel() == 0) return softmax(s, -1);
  const Tensor biased = reshape(reshape(s, how.scores) + mask, s.shape());
  if (how.causal) return softmax(biased, -1);
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor alive = ne(amax(biased, {-1}, true), wrap_scalar(-inf));
  return masked(softmax(masked(biased, alive), -1), alive);
}

void backward(Gradients& g, const Tensor& q_given, const Tensor& k_given, const Tensor& v_given,
              const Tensor& mask, const Attention& how) {
  const DType dtype = q_given.dtype(), wide = compute_type(dtype);
  const Tensor q = q_given.to(wide), k = k_given.to(wide), v = v_given.to(wide);
  const Tensor dy = g.dy().to(wide), p = probabilities(q, k, mask, how);
  if (g.needs(2)) g.dx(2) = matmul(transpose(dropped(p, how), 1, 2), dy).to(dtype);
  const Tensor dp = dropped(matmul(dy, transpose(v, 1, 2)), how);
  const Tensor ds = p * (dp - sum(dp * p, {-1}, true));
  if (g.needs(0)) g.dx(0) = (matmul(ds, k) * how.scale).to(dtype);
  if (g.needs(1)) g.dx(1) = (matmul(transpose(ds, 1, 2), q) * how.scale).to(dtype);
  if (g.needs(3)) g.dx(3) = sum_to(reshape(ds, how.scores), mask.shape());
}

// --- fused ---

kernels::AttentionArgs args_of(const Tensor& mask, const Attention& how) {
  const Tensor whole = mask.defined() ? expand(mask.detach(), how.scores) : Tensor();
  return {whole, how.causal, how.scale, how.dropout_p, how.key};
}

// On [B, T, D], [B, S, D] and [B, S, Dv], with a mask that is added.
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
              const Attention& how) {
  kernels::AttentionResult out;
  if (q.is_cuda()) {
    out = kernels::attention(q, k, v, args_of(mask, how));
  } else {
    const NoGradGuard guard;
    const DType wide = compute_type(q.dtype());
    const Tensor p = probabilities(q.to(wide), k.to(wide), mask, how);
    out.y = matmul(dropped(p, how), v.to(wide)).to(q.dtype());
  }
  if (!needs_grad({q, k, v, mask})) return out.y;
  return record(
      "ScaledDotProductFlashAttentionBackward0", out.y, {q, k, v, mask},
      [q = Saved(q), k = Saved(k), v = Saved(v), mask = Saved(mask),
       y = q.is_cuda() ? Saved::output(out.y) : Saved(), lse = out.logsumexp, how](Gradients& g) {
        if (!lse.defined() || g.needs(3) || is_grad_enabled()) {
          return backward(g, q.get(g), k.get(g), v.get(g), mask.get(g), how);
        }
        const kernels::AttentionGradients d = kernels::attention_backward(
            g.dy(), q.get(g), k.get(g), v.get(g), {y.get(g), lse}, args_of(mask.get(g), how));
        if (g.needs(0)) g.dx(0) = d.dq;
        if (g.needs(1)) g.dx(1) = d.dk;
        if (g.needs(2)) g.dx(2) = d.dv;
      });
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

// x with its batch broadcast, then in one dimension.
Tensor folded(const Tensor& x, const Shape& batch) {
  const int64_t rows = x.size(-2), columns = x.size(-1);
  return reshape(expand(x, joined(batch, rows, columns)), {batch.numel(), rows, columns});
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

  const double usual = 1 / std::sqrt(double(std::max<int64_t>(D, 1)));
  Attention how{joined(batch, T, S), is_causal, scale.value_or(usual), dropout_p, {}};
  Tensor mask = attn_mask;
  if (mask.defined()) {
    const Shape shape = broadcast_shapes(how.scores, mask.shape());
    if (shape != how.scores) {
      throw Error(cat("output with shape ", how.scores, " doesn't match the broadcast shape ",
                      shape, " (attn_mask of scaled_dot_product_attention)"));
    }
    mask = as_added(mask, compute_type(q.dtype()));
  }
  if (dropout_p > 0) how.key = (generator ? *generator : default_generator()).next();

  const Tensor y = attend(folded(q, batch), folded(k, batch), folded(v, batch), mask, how);
  return reshape(y, joined(batch, T, v.size(-1)));
}

}  // namespace taper
