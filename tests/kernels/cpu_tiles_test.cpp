// CPU kernels that work in tiles: sizes on both sides of every tile boundary, and the same bits for
// any distribution of the work.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/nn/attention_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "framework/host/thread_pool.h"
#include "framework/kernels/matmul/matmul.h"
#include "testing/taper_testing.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using Tensors = std::vector<Tensor>;

struct Threads {
  const int before = get_num_threads();
  explicit Threads(int n) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
};

// [rows, cols], optionally as a transposed view.
Tensor matrix(int64_t rows, int64_t cols, bool transposed) {
  return transposed ? randn({cols, rows}).transpose(0, 1) : randn({rows, cols});
}

TEST(Tiles, ProductsMatchDoubleAndHaveTheSameBitsOnAnyNumberOfThreads) {
  struct Sizes {
    int64_t m, n, k;
  };
  for (const Sizes s : {Sizes{1, 1, 1},
                        {12, 32, 384},
                        {13, 33, 385},
                        {5, 16, 7},
                        {25, 129, 769},
                        {10, 512, 128},
                        {128, 10, 512},
                        {193, 257, 300}}) {
    for (const int transposed : {0, 1, 2, 3}) {
      const Tensor a = matrix(s.m, s.k, transposed & 1), b = matrix(s.k, s.n, transposed & 2);
      const Tensor exact = mm(a.to(kFloat64), b.to(kFloat64));
      Tensor first;
      for (const int n : {1, 2, 3, 16}) {
        const Threads threads(n);
        const Tensor c = mm(a, b);
        if (n == 1) first = c;
        EXPECT_TRUE(close(c.to(kFloat64), exact, 1e-4))
            << concat_to_string(a.shape(), b.shape(), transposed);
        EXPECT_TRUE(same_bits(c, first))
            << concat_to_string(a.shape(), b.shape(), transposed, " threads ", n);
      }
    }
  }
}

TEST(Tiles, APartOfAProductHasTheBitsOfTheWhole) {
  const int64_t m = 50, n = 150, k = 500;
  const Tensor a = randn({m, k}), b = randn({k, n}), whole = zeros({m, n}), part = zeros({m, n});
  kernels::Gemm g{.m = m, .n = n, .k = k, .lda = k, .ldb = n, .ldc = n};
  kernels::cpu::sgemm(g, a.data<float>(), b.data<float>(), whole.data<float>());
  const int64_t row = 7, column = 41;
  g.m = 20, g.n = 70;
  kernels::cpu::sgemm(g, a.data<float>() + row * k, b.data<float>() + column,
                      part.data<float>() + row * n + column);
  const auto cut = [&](const Tensor& c) { return c.narrow(0, row, g.m).narrow(1, column, g.n); };
  EXPECT_TRUE(same_bits(cut(whole), cut(part)));
}

TEST(Tiles, AttentionMatchesDoubleAndHasTheSameBitsOnAnyNumberOfThreads) {
  struct Sizes {
    int64_t T, S, D, V;
    bool causal;
  };
  for (const Sizes s : {Sizes{1, 1, 1, 1, true},
                        {32, 32, 8, 8, true},
                        {33, 70, 16, 8, true},
                        {70, 33, 16, 8, true},
                        {100, 100, 17, 9, true},
                        {5, 90, 8, 40, false}}) {
    const Tensor q = randn({2, s.T, 3, s.D}).transpose(1, 2).detach().requires_grad_();
    const Tensor k = randn({2, 3, s.S, s.D}).requires_grad_();
    const Tensor v = randn({2, 3, s.S, s.V}).requires_grad_(), dy = randn({2, 3, s.T, s.V});
    const auto run = [&](DType dtype, int n) {
      const Threads threads(n);
      Tensors x;
      for (const Tensor& t : {q, k, v}) x.push_back(t.detach().to(dtype).requires_grad_());
      const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = s.causal});
      Tensors all = grad({y}, x, {dy.to(dtype)});
      all.push_back(y.detach());
      return all;
    };
    const Tensors exact = run(kFloat64, 1), one = run(kFloat32, 1), many = run(kFloat32, 5);
    for (size_t i = 0; i < exact.size(); ++i) {
      EXPECT_TRUE(close(one[i].to(kFloat64), exact[i], 1e-5)) << s.T << " " << s.S << " " << i;
      EXPECT_TRUE(same_bits(one[i], many[i])) << s.T << " " << s.S << " " << i;
    }
  }
}

// Returns the values, of a dense tensor of `sizes`, in the order of its permuted dimensions.
std::vector<int64_t> permuted(const std::vector<int64_t>& values, const Shape& sizes,
                              const Shape& order) {
  const Shape strides = contiguous_strides(sizes);
  std::vector<int64_t> out(values.size());
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t from = 0;
    for (int64_t k = order.size() - 1, rest = int64_t(i); k >= 0; --k) {
      const int d = int(order[int(k)]);
      from += rest % sizes[d] * strides[d];
      rest /= sizes[d];
    }
    out[i] = values[size_t(from)];
  }
  return out;
}

struct CopyRow {
  Shape sizes, order;
};

// Sizes on both sides of the blocks and tiles of transposed copies, rows that are a multiple of
// 1 KiB apart, and short and long rows that move as a whole.
TEST(Tiles, PermutedCopiesMoveEveryElement) {
  const CopyRow rows[] = {{{1, 1}, {1, 0}},
                          {{7, 9}, {1, 0}},
                          {{8, 8}, {1, 0}},
                          {{16, 7}, {1, 0}},
                          {{64, 65}, {1, 0}},
                          {{130, 71}, {1, 0}},
                          {{40, 256}, {1, 0}},
                          {{2, 9, 65}, {0, 2, 1}},
                          {{3, 16, 10, 12}, {0, 2, 3, 1}},
                          {{3, 10, 12, 16}, {0, 3, 1, 2}},
                          {{2, 3, 20, 24}, {0, 2, 1, 3}},
                          {{2, 70, 3, 5}, {0, 2, 1, 3}},
                          {{5, 3, 4, 2}, {3, 1, 0, 2}}};
  for (const auto& [sizes, order] : rows) {
    for (const DType dtype : kAllDTypes) {
      const Tensor x =
          remainder(arange(sizes.numel() + 3), 101).to(dtype).narrow(0, 3, sizes.numel());
      const Tensor view = x.reshape(sizes).permute(order);
      const std::vector<int64_t> wanted = permuted(x.to(kInt64).to_vector<int64_t>(), sizes, order);
      for (const int n : {1, 3}) {
        const Threads threads(n);
        const std::string where = concat_to_string(sizes, " ", dtype, " threads ", n);
        EXPECT_EQ(view.contiguous().to(kInt64).to_vector<int64_t>(), wanted) << where;
        Shape wider = view.shape();
        wider[-1] += 5;
        const Tensor part = zeros(wider, {.dtype = dtype}).narrow(-1, 2, view.size(-1));
        part.copy_(view);
        EXPECT_EQ(part.to(kInt64).to_vector<int64_t>(), wanted) << where;
      }
    }
  }
}

// The maximum of a row ignores a NaN, which must then be in the sum, wherever it is.
TEST(Tiles, ANanReachesAllOfItsRowOfASoftmax) {
  for (const int64_t n : {1, 63, 64, 65, 200}) {
    for (int64_t at = 0; at < n; ++at) {
      const Tensor x = randn({3, n});
      x[1][at] = NAN;
      for (const int64_t dim : {1, 0}) {
        const Tensor rows = dim == 1 ? x : x.t().contiguous();
        for (const Tensor& y : {softmax(rows, dim), log_softmax(rows, dim)}) {
          const Tensor bad = ne(dim == 1 ? y : y.t(), dim == 1 ? y : y.t());
          EXPECT_EQ(bad.sum().item<int64_t>(), n) << n << " " << at;
          EXPECT_TRUE(bad[1].all().item<bool>()) << n << " " << at;
        }
      }
    }
  }
}

}  // namespace
}  // namespace taper::v0::test
