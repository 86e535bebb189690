// Attention of float32 without dropout. It processes one head and one block of its queries at a
// time (https://arxiv.org/abs/2205.14135). Scores stay in the cache, and scores that the causal
// mask hides are not computed. The backward pass recomputes the probabilities from logsumexp.
#include "framework/kernels/attention/attention.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "framework/host/parallel.h"
#include "framework/kernels/common/math.h"
#include "framework/kernels/matmul/matmul.h"
#include "framework/kernels/reduce/reduce_runs_cpu.h"

namespace taper::v0::kernels::cpu {
namespace {

constexpr int64_t kQueries = 32;  // queries per block
constexpr int64_t kLanes = 16;    // rows of scores are padded to a multiple of this

// The matrices of [B, H, T, D], whose rows are contiguous.
struct Heads {
  float* data;
  int64_t heads, batch, head, row;
  explicit Heads(const Tensor& x)
      : data(static_cast<float*>(x.data_ptr())),
        heads(x.size(1)),
        batch(x.stride(0)),
        head(x.stride(1)),
        row(x.stride(2)) {}
  float* operator[](int64_t i) const { return data + i / heads * batch + i % heads * head; }
};

struct Matrix {
  const float* data;
  int64_t row;
  bool transposed = false;
};
// Computes C [m, n] = alpha * A [m, k] B [k, n] + beta * C.
void product(float* c, int64_t ldc, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b,
             double alpha = 1, float beta = 0) {
  Gemm g{.m = m, .n = n, .k = k, .transpose_a = a.transposed, .transpose_b = b.transposed};
  g.lda = a.row, g.ldb = b.row, g.ldc = ldc;
  g.alpha = float(alpha), g.beta = beta;
  sgemm(g, a.data, b.data, c);
}

// Converts a row of n scores, padded with -inf, to probabilities. Returns its logsumexp.
float softmax_row(float* x, int64_t n) {
  return in_clones([=] {
    float lanes[kLanes], sums[kLanes] = {};
    std::copy_n(x, kLanes, lanes);
    for (int64_t j = kLanes; j < n; j += kLanes) {
#pragma omp simd
      for (int64_t l = 0; l < kLanes; ++l) lanes[l] = MaxOf()(lanes[l], x[j + l]);
    }
    const float max = joined(lanes, MaxOf());
    for (int64_t j = 0; j < n; j += kLanes) {
#pragma omp simd
      for (int64_t l = 0; l < kLanes; ++l) sums[l] += x[j + l] = math::exp(x[j + l] - max);
    }
    const float sum = joined(sums, SumOf()), factor = 1 / sum;
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) x[j] *= factor;
    return max + math::log(sum);
  });
}

// Converts the scores in p to probabilities, and the gradients of the probabilities in dp to
// gradients of the scores.
void backward_row(float* p, float* dp, int64_t n, float logsumexp) {
  in_clones([=] {
    float sums[kLanes] = {};
    for (int64_t j = 0; j < n; j += kLanes) {
#pragma omp simd
      for (int64_t l = 0; l < kLanes; ++l) {
        p[j + l] = math::exp(p[j + l] - logsumexp);
        sums[l] += p[j + l] * dp[j + l];
      }
    }
    const float sum = joined(sums, SumOf());
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) dp[j] = p[j] * (dp[j] - sum);
  });
}

// A block of queries of a head: its first query, the number of queries, and the number of keys that
// they see.
struct Block {
  int64_t head, first, rows, keys, padded;
};

// Calls body(block) for every block. make_body(row) creates one body per thread, where `row` is the
// padded length of a row of scores.
template <class F> void for_blocks(const Tensor& q, const Tensor& k, bool causal, F make_body) {
  const int64_t T = q.size(-2), S = k.size(-2), heads = q.numel() / (T * q.size(-1));
  const int64_t row = (S + kLanes - 1) / kLanes * kLanes, work = T * S * q.size(-1) / 4;
  parallel_for(heads, host::grain_of(work), [&](int64_t begin, int64_t end) {
    auto body = make_body(row);
    for (int64_t h = begin; h < end; ++h) {
      for (int64_t first = 0; first < T; first += kQueries) {
        const int64_t rows = std::min(kQueries, T - first);
        const int64_t keys = causal ? std::min(S, first + rows) : S;
        body(Block{h, first, rows, keys, (keys + kLanes - 1) / kLanes * kLanes});
      }
    }
  });
}

// Writes scale * Q K^T of a block, with -inf for keys that a query does not see.
void scores(float* s, int64_t row, const Block& b, const Heads& q, const Heads& k, int64_t D,
            const AttentionArgs& args) {
  product(s, row, b.rows, b.keys, D, {q[b.head] + b.first * q.row, q.row}, {k[b.head], k.row, true},
          args.scale);
  for (int64_t r = 0; r < b.rows; ++r) {
    const int64_t seen = args.causal ? std::min(b.keys, b.first + r + 1) : b.keys;
    std::fill(s + r * row + seen, s + r * row + b.padded, -std::numeric_limits<float>::infinity());
  }
}

}  // namespace

void attention(const AttentionResult& out, const Tensor& q, const Tensor& k, const Tensor& v,
               const AttentionArgs& args) {
  const Heads queries(q), keys(k), values(v), y(out.y);
  const int64_t T = q.size(-2), D = q.size(-1), Dv = v.size(-1);
  float* const lse = out.logsumexp.data<float>();
  for_blocks(q, k, args.causal, [&](int64_t row) {
    return [&, row, p = std::vector<float>(size_t(kQueries * row))](const Block& b) mutable {
      scores(p.data(), row, b, queries, keys, D, args);
      for (int64_t r = 0; r < b.rows; ++r) {
        lse[b.head * T + b.first + r] = softmax_row(p.data() + r * row, b.padded);
      }
      product(y[b.head] + b.first * y.row, y.row, b.rows, Dv, b.keys, {p.data(), row},
              {values[b.head], values.row});
    };
  });
}

void attention_backward(const AttentionGradients& out, const Tensor& dy, const Tensor& q,
                        const Tensor& k, const Tensor& v, const AttentionResult& forward,
                        const AttentionArgs& args) {
  const Heads queries(q), keys(k), values(v), dys(dy), dq(out.dq), dk(out.dk), dv(out.dv);
  const int64_t T = q.size(-2), S = k.size(-2), D = q.size(-1), Dv = v.size(-1);
  const float* const lse = forward.logsumexp.data<float>();
  for_blocks(q, k, args.causal, [&](int64_t row) {
    std::vector<float> p(size_t(kQueries * row));
    return [&, row, p, dp = p](const Block& b) mutable {
      float *dk_head = dk[b.head], *dv_head = dv[b.head];
      for (int64_t j = 0; b.first == 0 && j < S; ++j) {
        std::fill_n(dk_head + j * dk.row, D, 0.0f);
        std::fill_n(dv_head + j * dv.row, Dv, 0.0f);
      }
      const Matrix x{queries[b.head] + b.first * queries.row, queries.row};
      const Matrix g{dys[b.head] + b.first * dys.row, dys.row};
      scores(p.data(), row, b, queries, keys, D, args);
      product(dp.data(), row, b.rows, b.keys, Dv, g, {values[b.head], values.row, true});
      for (int64_t r = 0; r < b.rows; ++r) {
        std::fill(&dp[size_t(r * row + b.keys)], &dp[size_t(r * row)] + b.padded, 0.0f);
        backward_row(&p[size_t(r * row)], &dp[size_t(r * row)], b.padded,
                     lse[b.head * T + b.first + r]);
      }
      product(dv_head, dv.row, b.keys, Dv, b.rows, {p.data(), row, true}, g, 1, 1);
      product(dk_head, dk.row, b.keys, D, b.rows, {dp.data(), row, true}, x, args.scale, 1);
      product(dq[b.head] + b.first * dq.row, dq.row, b.rows, D, b.keys, {dp.data(), row},
              {keys[b.head], keys.row}, args.scale);
    };
  });
}

}  // namespace taper::v0::kernels::cpu
