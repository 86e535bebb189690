#include "autograd/ops/nn/attention_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/op_helpers.h"
#include "autograd/ops/random_ops.h"
#include "framework/kernels/attention/attention.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/random/random.h"

namespace taper::v0 {
namespace {

struct Attention {
  Shape scores;  // [batch..., T, S]
  bool causal;
  double scale, dropout_p;
  PhiloxKey key;
  uint64_t first = 0;  // the random numbers of `key` that precede the mask of the first score
};

// --- composed of ops: without a fused kernel, and for recorded passes and mask gradients ---

// Applies dropout. The same how.key gives the same mask again.
Tensor dropped(const Tensor& p, const Attention& how) {
  if (how.dropout_p == 0) return p;
  if (!is_grad_enabled()) return kernels::dropout(p, how.dropout_p, how.key, p.dtype(), how.first);
  Generator generator;
  generator.set_state(how.key);
  return dropout(p, how.dropout_p, true, &generator);
}

// Returns the mask in the form that is added to scores: true becomes 0 and false becomes -inf.
Tensor as_added(const Tensor& mask, DType dtype) {
  return mask.dtype() == kBool ? log(mask.to(dtype)) : mask.to(dtype);
}

// Returns the softmax of the scores [B, H, T, S], and 0 for a query without keys.
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
  return zero_outside(softmax(zero_outside(biased, alive), -1), alive);
}

// Computes the gradients by public ops. If dmask is not null, also computes the mask's gradient.
kernels::AttentionGradients composed_backward(const Tensor& dy_given, const Tensor& q_given,
                                              const Tensor& k_given, const Tensor& v_given,
                                              const Tensor& mask, const Attention& how,
                                              Tensor* dmask = nullptr) {
  const DType dtype = q_given.dtype(), wide = compute_type(dtype);
  const Tensor q = q_given.to(wide), k = k_given.to(wide), v = v_given.to(wide);
  const Tensor dy = dy_given.to(wide), p = probabilities(q, k, mask, how);
  const Tensor dv = matmul(transpose(dropped(p, how), 2, 3), dy);
  const Tensor dp = dropped(matmul(dy, transpose(v, 2, 3)), how);
  const Tensor ds = p * (dp - sum(dp * p, {-1}, true));
  if (dmask) *dmask = sum_to(reshape(ds, how.scores), mask.shape());
  const Tensor dq = matmul(ds, k) * how.scale, dk = matmul(transpose(ds, 2, 3), q) * how.scale;
  return {dq.to(dtype), dk.to(dtype), dv.to(dtype)};
}

// --- composed, a few heads at a time to limit memory; not recorded ---

constexpr int64_t kMostScores = int64_t(1) << 24;

// A range of batch elements, or a range of heads of one batch element.
struct Part {
  int64_t batch, batches, head, heads;
  Tensor of(const Tensor& x) const {
    return x.defined() ? narrow(narrow(x, 0, batch, batches), 1, head, heads) : x;
  }
};

// Calls f(part, the part's attention, the part's mask) for each part.
template <class F>
void for_parts(const Tensor& q, const Tensor& k, const Tensor& mask, const Attention& how, F f) {
  const int64_t B = q.size(0), H = q.size(1), T = q.size(2), S = k.size(2);
  const Tensor all = mask.defined() ? reshape(expand(mask, how.scores), {B, H, T, S}) : mask;
  // The random draws of a part must begin at a multiple of four, the block size of the generator.
  const bool at_once = how.dropout_p > 0 && T * S % 4 != 0;
  const int64_t most = at_once ? B * H : kMostScores / std::max<int64_t>(T * S, 1);
  const int64_t heads = std::clamp<int64_t>(most, 1, std::max<int64_t>(H, 1));
  const int64_t batches = std::max<int64_t>(most / heads, 1);
  for (int64_t b = 0; b < B; b += batches) {
    for (int64_t h = 0; h < H; h += heads) {
      const Part part{b, std::min(batches, B - b), h, std::min(heads, H - h)};
      Attention own = how;
      own.scores = {part.batches, part.heads, T, S};
      own.first = uint64_t((b * H + h) * T * S);
      f(part, own, part.of(all));
    }
  }
}

void backward_by_parts(const kernels::AttentionGradients& out, const Tensor& dy, const Tensor& q,
                       const Tensor& k, const Tensor& v, const Tensor& mask, const Attention& how) {
  for_parts(q, k, mask, how, [&](const Part& part, const Attention& own, const Tensor& m) {
    const auto d = composed_backward(part.of(dy), part.of(q), part.of(k), part.of(v), m, own);
    kernels::copy_into(part.of(out.dq), d.dq);
    kernels::copy_into(part.of(out.dk), d.dk);
    kernels::copy_into(part.of(out.dv), d.dv);
  });
}

// --- fused, if a kernel supports the arguments ---

kernels::AttentionArgs args_of(const Attention& how, bool trains = false) {
  return {how.causal, how.scale, how.dropout_p, how.key, trains};
}

// Computes attention by a fused kernel, or otherwise by ops. In the latter case the result has no
// logsumexp. trains: whether a backward pass may follow.
kernels::AttentionResult forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                 const Tensor& mask, const Attention& how, bool trains) {
  kernels::AttentionResult out;
  if (!mask.defined()) out = kernels::attention(q, k, v, args_of(how, trains));
  if (out.y.defined()) return out;
  const NoGradGuard guard;
  const DType wide = compute_type(q.dtype());
  out.y = kernels::rows_of_heads(q.size(0), q.size(1), q.size(2), v.size(3), q);
  for_parts(q, k, mask, how, [&](const Part& part, const Attention& own, const Tensor& m) {
    const Tensor p = probabilities(part.of(q).to(wide), part.of(k).to(wide), m, own);
    kernels::copy_into(part.of(out.y), matmul(dropped(p, own), part.of(v).to(wide)));
  });
  return out;
}

// Writes the gradients into `out` without recording. `forward` is the result of the forward pass;
// its y is needed only with a logsumexp.
void backward(const kernels::AttentionGradients& out, const Tensor& dy, const Tensor& q,
              const Tensor& k, const Tensor& v, const Tensor& mask,
              const kernels::AttentionResult& forward, const Attention& how) {
  const bool fused = forward.logsumexp.defined() &&
                     kernels::attention_backward(out, dy, q, k, v, forward, args_of(how));
  if (!fused) backward_by_parts(out, dy, q, k, v, mask, how);
}

// Returns memory for the gradient of x: with x's layout if x is ordered by row and then by head,
// and dense otherwise.
Tensor memory_like(const Tensor& x) {
  if (x.stride(1) >= x.stride(2)) return Tensor::make(x.shape(), x.dtype(), x.device());
  return kernels::rows_of_heads(x.size(0), x.size(1), x.size(2), x.size(3), x);
}

// Saves y only if the backward pass reads it, which only the GPU's fused kernel does.
SavedTensor saved_result(const kernels::AttentionResult& out) {
  const bool reads = out.logsumexp.defined() && out.y.is_cuda();
  return reads ? SavedTensor::output(out.y) : SavedTensor();
}

// Computes attention of q [B, H, T, D], k [B, H, S, D] and v [B, H, S, Dv], with an additive mask.
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
              const Attention& how) {
  const bool trains = needs_grad({q, k, v, mask});
  const kernels::AttentionResult out = forward(q, k, v, mask, how, trains);
  if (!trains) return out.y;
  return record(
      "ScaledDotProductFlashAttentionBackward0", out.y, {q, k, v, mask},
      [q = SavedTensor(q), k = SavedTensor(k), v = SavedTensor(v), mask = SavedTensor(mask),
       y = saved_result(out), lse = out.logsumexp, kept = out.kept, how](Gradients& g) {
        const Tensor queries = q.get(g), keys = k.get(g), values = v.get(g), bias = mask.get(g);
        kernels::AttentionGradients d;
        if (g.needs(3) || is_grad_enabled()) {
          d = composed_backward(g.dy(), queries, keys, values, bias, how,
                                g.needs(3) ? &g.dx(3) : nullptr);
        } else {
          d = {memory_like(queries), memory_like(keys), memory_like(values)};
          backward(d, g.dy(), queries, keys, values, bias, {y.get(g), lse, kept}, how);
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

// Returns the parts of x [B, T, 3 C] as views [B, H, T, D] of its memory, without recording.
Heads heads_of(const Tensor& x, int64_t H) {
  const int64_t C = x.size(2) / 3, D = C / H, step = x.stride(2);
  const auto part = [&](int64_t i) {
    return Tensor::make(x.storage(), {x.size(0), H, x.size(1), D},
                        {x.stride(0), D * step, x.stride(1), step},
                        x.storage_offset() + i * C * step, x.dtype());
  };
  return {part(0), part(1), part(2)};
}

// Convert [B, H, T, D] to [B, T, C] and back.
Tensor merged(const Tensor& y) { return flatten(transpose(y, 1, 2), 2); }
Tensor by_head(const Tensor& y, int64_t H) {
  return transpose(unflatten(y, 2, {H, y.size(2) / H}), 1, 2);
}

// Returns the gradient of qkv.
Tensor packed_backward(const Tensor& dy, const Tensor& qkv, const kernels::AttentionResult& forward,
                       int64_t H, const Attention& how) {
  if (is_grad_enabled()) {
    const int64_t C = qkv.size(2) / 3;
    const auto part = [&](int64_t i) { return by_head(narrow(qkv, 2, i * C, C), H); };
    const auto d = composed_backward(by_head(dy, H), part(0), part(1), part(2), {}, how);
    return cat(std::vector<Tensor>{merged(d.dq), merged(d.dk), merged(d.dv)}, 2);
  }
  const Tensor dqkv = Tensor::make(qkv.shape(), qkv.dtype(), qkv.device());
  const Heads x = heads_of(qkv, H), dx = heads_of(dqkv, H);
  const Tensor y = forward.y.defined() ? by_head(forward.y, H) : Tensor();
  backward({dx.q, dx.k, dx.v}, by_head(dy, H), x.q, x.k, x.v, {},
           {y, forward.logsumexp, forward.kept}, how);
  return dqkv;
}

// --- checks and shapes ---

void check(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, double dropout_p,
           bool is_causal) {
  kernels::same_device("scaled_dot_product_attention", {&q, &k, &v, &mask},
                       {"query", "key", "value", "attn_mask"});
  require(q.dtype() == k.dtype() && q.dtype() == v.dtype(),
          "Expected query, key, and value to have the same dtype, but got query.dtype: ",
          cpp_name(q.dtype()), " key.dtype: ", cpp_name(k.dtype()),
          " and value.dtype: ", cpp_name(v.dtype()), " instead.");
  require(q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2,
          "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: ",
          q.dim(), " key.dim: ", k.dim(), " and value.dim: ", v.dim(), " instead.");
  require(q.is_floating_point(), "expected scalar type Float but found ",
          scalar_type_name(q.dtype()), " (query, key and value of scaled_dot_product_attention)");
  if (mask.defined()) {
    const DType type = mask.dtype();
    require(type == kBool || type == kFloat32 || type == q.dtype(),
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            "attn_mask.dtype: ",
            cpp_name(type), " and  query.dtype: ", cpp_name(q.dtype()), " instead.");
    require(!is_causal,
            "scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal is "
            "true");
  }
  require(dropout_p >= 0 && dropout_p <= 1,
          "dropout probability has to be between 0 and 1, but got ", dropout_p);
}

Shape batch_of(const Tensor& x) { return {x.shape().begin(), x.shape().end() - 2}; }

// Broadcasts x's batch dimensions and folds them into two: [outer, heads, rows, columns].
Tensor folded(const Tensor& x, const Shape& batch) {
  const int64_t rows = x.size(-2), columns = x.size(-1), n = batch.size();
  const int64_t heads = n > 1 ? batch[n - 1] : 1;
  const int64_t outer = n > 1 ? Shape(batch.begin(), batch.end() - 1).numel() : batch.numel();
  const Shape shape{outer, heads, rows, columns};
  // If one tensor serves all heads, the result can stay a view.
  if (n > 1 && batch_of(x) == joined(Shape(batch.begin(), batch.end() - 1), {1})) {
    return expand(reshape(x, {outer, 1, rows, columns}), shape);
  }
  return x.shape() == shape ? x : reshape(expand(x, joined(batch, {rows, columns})), shape);
}

Attention attention_of(const Shape& scores, int64_t D, const DotProductAttentionOptions& o) {
  const double usual = 1 / std::sqrt(double(std::max<int64_t>(D, 1)));
  return {scores, o.is_causal, o.scale.value_or(usual), o.dropout_p,
          o.dropout_p == 0 ? PhiloxKey() : next_key(o.generator)};
}

// The message is PyTorch's, which reports the matrix product whose sizes do not match.
void check_size(int64_t B, int64_t want, int64_t got, const char* which) {
  require(want == got, "Expected size for first two dimensions of batch2 tensor to be: [", B, ", ",
          want, "] but got: [", B, ", ", got, "]. (scaled_dot_product_attention: ", which, ")");
}

// Repeats every head `times` times in adjacent positions.
Tensor repeated_heads(const Tensor& x, int64_t times) {
  if (times == 1) return x;
  const Tensor one = unsqueeze(x, -3);
  Shape shape = one.shape();
  shape[shape.size() - 3] = times;
  return flatten(expand(one, shape), -4, -3);
}

// Arranges q's heads in groups that share a key and a value: [..., heads, group, T, D].
template <class F>
Tensor in_groups(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                 F attention) {
  const int64_t heads = q.size(-3), of_k = k.size(-3), of_v = v.size(-3);
  require(of_k >= 1 && of_v >= 1 && heads % of_k == 0 && heads % of_v == 0,
          "Number of heads in key and value must divide the number of heads in query, but got ",
          of_k, ", ", of_v, " and ", heads);
  const int64_t shared = std::lcm(of_k, of_v), group = heads / shared;
  Tensor bias = mask;
  if (mask.defined() && mask.dim() > 2) {
    bias = mask.size(-3) == 1 ? unsqueeze(mask, -3) : unflatten(mask, -3, {shared, group});
  }
  return flatten(
      attention(unflatten(q, -3, {shared, group}), unsqueeze(repeated_heads(k, shared / of_k), -3),
                unsqueeze(repeated_heads(v, shared / of_v), -3), bias),
      -4, -3);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const DotProductAttentionOptions& options) {
  const Tensor& attn_mask = options.attn_mask;
  DotProductAttentionOptions o = options;
  const auto again = [&o](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& mask) {
    o.attn_mask = mask;
    return scaled_dot_product_attention(a, b, c, o);
  };
  if (autocasts(q)) return in_half(again, q, k, v, attn_mask);
  check(q, k, v, attn_mask, options.dropout_p, options.is_causal);
  o.enable_gqa = false;
  if (options.enable_gqa) return in_groups(q, k, v, attn_mask, again);
  const int64_t T = q.size(-2), S = k.size(-2), D = q.size(-1);
  constexpr const char* kOp = "scaled_dot_product_attention";
  const Shape batch =
      broadcast_shapes(broadcast_shapes(batch_of(q), batch_of(k), kOp), batch_of(v), kOp);
  check_size(batch.numel(), D, k.size(-1), "the last sizes of query and key");
  check_size(batch.numel(), S, v.size(-2), "the lengths of key and value");

  const Shape scores = joined(batch, {T, S});
  Tensor mask = attn_mask;
  if (mask.defined()) {
    const Shape shape = broadcast_shapes(scores, mask.shape(), kOp);
    require(shape == scores, "output with shape ", scores, " doesn't match the broadcast shape ",
            shape, " (attn_mask of scaled_dot_product_attention)");
    mask = as_added(mask, compute_type(q.dtype()));
  }
  const Attention how = attention_of(scores, D, options);
  const Tensor y = attend(folded(q, batch), folded(k, batch), folded(v, batch), mask, how);
  const Shape shape = joined(batch, {T, v.size(-1)});
  const Tensor result = y.shape() == shape ? y : reshape(y, shape);
  if (options.dropout_p == 0) {
    trace("scaled_dot_product_attention", result, {q, k, v, attn_mask},
          AttentionTrace{how.scale, options.is_causal});
  }
  return result;
}

Tensor packed_attention(const Tensor& qkv, IntArg n_head,
                        const DotProductAttentionOptions& options) {
  require(!options.attn_mask.defined() && !options.enable_gqa,
          "packed_attention takes no attn_mask and no enable_gqa: use "
          "scaled_dot_product_attention");
  if (autocasts(qkv)) {
    return in_half([&](const Tensor& x) { return packed_attention(x, n_head, options); }, qkv);
  }
  const int64_t C = qkv.dim() == 3 ? qkv.size(2) / 3 : 0;  // channels of all heads together
  require(C > 0 && qkv.size(2) % 3 == 0 && n_head > 0 && C % n_head == 0,
          "packed_attention: expected qkv [B, T, 3 * n_head * head_dim], but got ", qkv.shape(),
          " for n_head = ", n_head);
  check(qkv, qkv, qkv, {}, options.dropout_p, options.is_causal);
  const int64_t B = qkv.size(0), T = qkv.size(1), H = n_head, D = C / H;
  const Attention how = attention_of({B, H, T, T}, D, options);
  const Heads x = heads_of(qkv, H);
  const bool trains = needs_grad({qkv});
  kernels::AttentionResult out = forward(x.q, x.k, x.v, {}, how, trains);
  {
    const NoGradGuard guard;
    const Tensor y = merged(out.y);
    // Make a tensor that is not a view, because the tape rejects in-place changes of views that
    // were made in no_grad mode.
    out.y = Tensor::make(y.storage(), y.shape(), y.strides(), y.storage_offset(), y.dtype());
  }
  if (options.dropout_p == 0) {
    trace("packed_attention", out.y, {qkv}, AttentionTrace{how.scale, options.is_causal, n_head});
  }
  if (!trains) return out.y;
  return record("PackedAttentionBackward", out.y, {qkv},
                [qkv = SavedTensor(qkv), y = saved_result(out), lse = out.logsumexp,
                 kept = out.kept, H, how](Gradients& g) {
                  g.dx(0) = packed_backward(g.dy(), qkv.get(g), {y.get(g), lse, kept}, H, how);
                });
}

}  // namespace taper::v0
