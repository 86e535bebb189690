// CPU kernels that work in tiles: sizes on both sides of every tile boundary, and the same bits for
// any distribution of the work.
#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/nn/attention_ops.h"
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
    int64_t T, S, D, Dv;
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
    const Tensor v = randn({2, 3, s.S, s.Dv}).requires_grad_(), dy = randn({2, 3, s.T, s.Dv});
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

}  // namespace
}  // namespace taper::v0::test
