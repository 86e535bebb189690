// CPU kernels of matmul, softmax, cross entropy, embedding and optimizers, compared with plain
// loops.
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "framework/factory/factories.h"
#include "framework/host/thread_pool.h"
#include "framework/kernels/index/index.h"
#include "framework/kernels/loss/softmax.h"
#include "framework/kernels/matmul/matmul.h"
#include "framework/kernels/optim/update.h"
#include "framework/kernels/pool/pool.h"
#include "framework/kernels/random/random.h"
#include "optim/algorithms/adam.h"
#include "optim/algorithms/sgd.h"

namespace taper::v0 {
namespace {

using kernels::Gemm;
using kernels::ReduceSizes;

constexpr DType kFloating[] = {kFloat32, kFloat64, kFloat16, kBFloat16};
double tolerance(DType t) {
  return t == kFloat64 ? 1e-12 : t == kFloat32 ? 1e-5 : t == kFloat16 ? 2e-3 : 1.5e-2;
}

Tensor drawn(const Shape& shape, DType dtype, uint64_t stream) {
  const Tensor x = empty(shape, {.dtype = dtype});
  kernels::normal_into(x, {1, stream}, 0, 1);
  return x;
}
Tensor small_integers(int64_t n, DType dtype, uint64_t stream) {
  const Tensor x = empty({n}, {.dtype = dtype});
  kernels::randint_into(x, {1, stream}, 0, 4);
  return x;
}

// Small integers, which every dtype represents exactly.
TEST(Gemm, FollowsItsContractForEveryDtypeAndLayout) {
  for (const DType t : {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32}) {
    for (int row = 0; row < 32; ++row) {
      Gemm g{.m = 1 + row % 7, .n = 1 + row * 5 % 23, .k = row % 6 * 4, .batch = 1 + row % 3};
      g.dtype = t;
      g.transpose_a = row & 1;
      g.transpose_b = row & 2;
      g.lda = (g.transpose_a ? g.m : g.k) + 2;
      g.ldb = (g.transpose_b ? g.k : g.n) + 1;
      g.ldc = g.n + row % 2;
      g.stride_a = row & 4 ? 0 : 40 * g.lda;
      g.stride_b = row & 8 ? 0 : 40 * g.ldb;
      g.stride_c = g.m * g.ldc + 3;
      g.alpha = row & 16 ? 2 : 1;
      g.beta = float(row % 3);
      const Tensor a = small_integers(3 * 40 * g.lda, t, 1),
                   b = small_integers(3 * 40 * g.ldb, t, 2);
      const Tensor c = small_integers(g.batch * g.stride_c, t, 3);
      const auto va = a.to_vector<double>(), vb = b.to_vector<double>();
      std::vector<double> expected = c.to_vector<double>();
      for (int64_t i = 0; i < g.batch * g.m * g.n; ++i) {
        const int64_t matrix = i / (g.m * g.n), r = i / g.n % g.m, col = i % g.n;
        double sum = 0;
        for (int64_t p = 0; p < g.k; ++p) {
          const int64_t at_a = g.transpose_a ? p * g.lda + r : r * g.lda + p;
          const int64_t at_b = g.transpose_b ? col * g.ldb + p : p * g.ldb + col;
          sum += va[size_t(matrix * g.stride_a + at_a)] * vb[size_t(matrix * g.stride_b + at_b)];
        }
        double& out = expected[size_t(matrix * g.stride_c + r * g.ldc + col)];
        const double exact = g.alpha * sum + g.beta * out;
        out = t == kBFloat16 ? double(BFloat16(float(exact))) : exact;
      }
      kernels::cpu::gemm(g, a.data_ptr(), b.data_ptr(), c.data_ptr());
      EXPECT_EQ(c.to_vector<double>(), expected) << name_of(t) << " row " << row;
    }
  }
}

TEST(Gemm, HasTheSameBitsOnAnyNumberOfThreads) {
  const int threads = get_num_threads();
  const Tensor a = drawn({128, 784}, kFloat32, 1), b = drawn({512, 784}, kFloat32, 2);
  const Tensor one = empty({128, 512}), many = empty({128, 512});
  const Gemm g{
      .m = 128, .n = 512, .k = 784, .transpose_b = true, .lda = 784, .ldb = 784, .ldc = 512};
  set_num_threads(1);
  kernels::cpu::gemm(g, a.data_ptr(), b.data_ptr(), one.data_ptr());
  set_num_threads(3);
  kernels::cpu::gemm(g, a.data_ptr(), b.data_ptr(), many.data_ptr());
  set_num_threads(threads);
  EXPECT_EQ(std::memcmp(one.data_ptr(), many.data_ptr(), one.nbytes()), 0);
}

TEST(Gemm, BetaZeroClearsNan) {
  for (const int64_t k : {0, 1}) {
    const Tensor a = ones({1}), c = full({1}, NAN);
    const Gemm g{.m = 1, .n = 1, .k = k, .lda = 1, .ldb = 1, .ldc = 1};
    kernels::cpu::gemm(g, a.data_ptr(), a.data_ptr(), c.data_ptr());
    EXPECT_EQ(c.data<float>()[0], float(k));
  }
}

TEST(Softmax, ForwardAndBackwardFollowTheFormula) {
  const ReduceSizes rows[] = {{3, 10, 1}, {2, 1000, 1}, {2, 7, 5}, {1, 3, 1500}, {300, 200, 1}};
  for (const DType t : kFloating) {
    for (const ReduceSizes s : rows) {
      for (const bool log : {false, true}) {
        const Shape shape = {s.outer, s.n, s.inner};
        const Tensor x = drawn(shape, t, 1), dy = drawn(shape, t, 2);
        const Tensor y = empty(shape, {.dtype = t}), dx = empty(shape, {.dtype = t});
        kernels::cpu::softmax(log, y, x, s);
        kernels::cpu::softmax_backward(log, dx, dy, y, s);
        const auto vx = x.to_vector<double>(), vy = y.to_vector<double>();
        const auto vdy = dy.to_vector<double>(), vdx = dx.to_vector<double>();
        for (int64_t line = 0; line < s.outer * s.inner; ++line) {
          const auto at = [&](int64_t i) {
            return size_t((line / s.inner * s.n + i) * s.inner + line % s.inner);
          };
          double sum = 0, dot = 0;
          for (int64_t i = 0; i < s.n; ++i) sum += std::exp(vx[at(i)]);
          for (int64_t i = 0; i < s.n; ++i) dot += vdy[at(i)] * (log ? 1 : vy[at(i)]);
          for (int64_t i = 0; i < s.n; ++i) {
            const double p = std::exp(vx[at(i)]) / sum, v = vy[at(i)], g = vdy[at(i)];
            const double expected = log ? std::log(p) : p;
            ASSERT_NEAR(v, expected, tolerance(t) * (log ? 3 : p + 1e-3)) << name_of(t);
            const double slope = log ? g - std::exp(v) * dot : v * (g - dot);
            ASSERT_NEAR(vdx[at(i)], slope, tolerance(t) * (std::abs(slope) + 0.1)) << name_of(t);
          }
        }
      }
    }
  }
}

TEST(Softmax, LargeNumbersAreSafeAndARowOfMinusInfinityGivesNan) {
  const Tensor x = tensor({{1e30, 1e30}, {-INFINITY, 0.0}, {-INFINITY, -INFINITY}});
  const Tensor y = empty({3, 2});
  kernels::cpu::softmax(false, y, x, {3, 2, 1});
  EXPECT_EQ(y.data<float>()[0], 0.5f);
  EXPECT_EQ(y.data<float>()[2], 0.0f);
  EXPECT_EQ(y.data<float>()[3], 1.0f);
  EXPECT_TRUE(std::isnan(y.data<float>()[4]));
}

TEST(CrossEntropy, ForwardAndBackwardFollowTheFormula) {
  for (const DType t : kFloating) {
    const DType sums = t == kFloat64 ? kFloat64 : kFloat32;
    const Tensor x = drawn({4, 10}, t, 1), target = tensor({3, -100, 0, 9});
    const Tensor loss = empty({4}, {.dtype = sums}), lse = empty({4}, {.dtype = sums});
    const Tensor scale = full({1}, 0.5, {.dtype = sums}), dx = empty({4, 10}, {.dtype = t});
    const kernels::NllRows rows{loss, empty({4}, {.dtype = sums}), lse};
    kernels::cpu::cross_entropy(rows, x, target, {});
    kernels::cpu::cross_entropy_backward(dx, scale, rows, x, target, {});
    const auto vx = x.to_vector<double>(), vdx = dx.to_vector<double>();
    for (int64_t r = 0; r < 4; ++r) {
      const int64_t k = target.data<int64_t>()[r];
      double sum = 0;
      for (int64_t i = 0; i < 10; ++i) sum += std::exp(vx[size_t(r * 10 + i)]);
      const double expected = k < 0 ? 0 : std::log(sum) - vx[size_t(r * 10 + k)];
      EXPECT_NEAR(loss.to_vector<double>()[size_t(r)], expected, 1e-5);
      for (int64_t i = 0; i < 10; ++i) {
        const double slope = 0.5 * (std::exp(vx[size_t(r * 10 + i)]) / sum - (i == k));
        EXPECT_NEAR(vdx[size_t(r * 10 + i)], k < 0 ? 0 : slope, tolerance(t)) << name_of(t);
      }
    }
  }
}

template <class F> std::string message_of(F f) {
  try {
    f();
  } catch (const IndexError& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(BadIndex, IsRefusedInPyTorchsWords) {
  const Tensor x = zeros({2, 10}), out = empty({2});
  const std::string target = message_of([&] {
    kernels::cpu::cross_entropy({out, out, out}, x, tensor({1, 12}), {});
  });
  EXPECT_TRUE(target.starts_with("Target 12 is out of bounds.")) << target;
  EXPECT_NE(target.find("element 1"), std::string::npos) << target;
  const std::string row = message_of([&] {
    (void)kernels::row_keys({"embedding", "index out of range in self"}, tensor({0, -1}), {2}, 0);
  });
  EXPECT_TRUE(row.starts_with("index out of range in self")) << row;
}

TEST(Index, TakesRowsAndSumsThemBack) {
  const Tensor index = tensor({4, 0, 4, 2, 4});
  for (const DType t : kFloating) {
    const Tensor table = drawn({5, 3}, t, 1);
    const Tensor out = kernels::take_rows(table, index, 3, {5, 3});
    const Tensor dtable = kernels::add_rows({}, {5, 3}, index, 3, out);
    const auto rows = table.to_vector<double>(), taken = out.to_vector<double>();
    const auto sums = dtable.to_vector<double>();
    for (size_t i = 0; i < 15; ++i) {
      const size_t from = size_t(index.data<int64_t>()[i / 3]) * 3 + i % 3;
      EXPECT_EQ(taken[i], rows[from]);
      const double times[] = {1, 0, 1, 0, 3};
      EXPECT_NEAR(sums[i], times[i / 3] * rows[i], tolerance(t) * 10);
    }
  }
}

// Three steps of two parameters, compared with the formulas in double.
TEST(Optim, FollowsPyTorchsFormulas) {
  for (const DType t : kFloating) {
    for (int row = 0; row < 8; ++row) {
      const bool adam = row & 1, variant = row & 2, decay = row & 4;
      const DType wide = t == kFloat64 ? kFloat64 : kFloat32;
      std::vector<kernels::Update> updates;
      for (const int64_t n : {5, 5000}) {
        const auto state = [&] { return zeros({n}, {.dtype = wide}); };
        updates.push_back({drawn({n}, t, uint64_t(n)),
                           drawn({n}, t, 9),
                           {state(), adam ? state() : Tensor()},
                           {}});
      }
      const std::vector<double> g = updates[1].grad.to_vector<double>();
      std::vector<double> p = updates[1].param.to_vector<double>(), m(p.size()), v(p.size());
      const Tensor lr = full({}, 0.01, {.dtype = kFloat64});
      const Tensor step = full({}, 0.0, {.dtype = kFloat64});
      const double weight_decay = decay ? 0.1 : 0;
      for (int k = 1; k <= 3; ++k) {
        *step.data<double>() = k;
        if (adam) {
          kernels::update(
              updates, {lr, step, {}},
              optim::AdamOptions{.weight_decay = weight_decay, .decoupled_weight_decay = variant});
        } else {
          kernels::update(updates, {lr, step, {}},
                          optim::SGDOptions{
                              .momentum = 0.9, .weight_decay = weight_decay, .nesterov = variant});
        }
        for (size_t i = 0; i < p.size(); ++i) {
          if (adam && variant) p[i] *= 1 - 0.01 * weight_decay;
          const double d = g[i] + (adam && variant ? 0 : weight_decay) * p[i];
          m[i] = adam ? 0.9 * m[i] + 0.1 * d : 0.9 * m[i] + d;
          v[i] = 0.999 * v[i] + 0.001 * d * d;
          const double mean = m[i] / (1 - std::pow(0.9, k)), var = v[i] / (1 - std::pow(0.999, k));
          const double move = adam      ? mean / (std::sqrt(var) + 1e-8)
                              : variant ? d + 0.9 * m[i]
                                        : m[i];
          p[i] -= 0.01 * move;
        }
      }
      const std::vector<double> got = updates[1].param.to_vector<double>();
      // Settings are rounded to float if the parameters are float.
      const double near = std::max(3 * tolerance(t), 1e-10);
      for (size_t i = 0; i < p.size(); ++i) {
        ASSERT_NEAR(got[i], p[i], near * (1 + std::abs(p[i]))) << name_of(t) << " row " << row;
      }
    }
  }
}

// Strides of dimensions of size 1 are irrelevant.
TEST(Pools, TakeDenseImagesAsTheyLie) {
  const struct {
    Shape shape, strides;
    bool channels_last, fits;
  } rows[] = {
      {{2, 3, 1, 4}, {12, 4, 99, 1}, false, true},  {{2, 3, 1, 4}, {12, 1, 99, 3}, true, true},
      {{1, 3, 2, 4}, {99, 1, 12, 3}, true, true},   {{2, 3, 1, 1}, {3, 1, 1, 1}, true, true},
      {{2, 3, 1, 4}, {12, 1, 99, 3}, false, false}, {{2, 3, 1, 4}, {12, 4, 99, 1}, true, false},
  };
  for (const auto& row : rows) {
    const Tensor x = view_as(drawn({64}, kFloat32, 9), row.shape, row.strides, 0);
    const kernels::Axes axes{.h = {}, .w = {}, .channels_last = row.channels_last};
    const Tensor y = kernels::in_format(x, axes);
    EXPECT_EQ(y.data_ptr() == x.data_ptr(), row.fits) << to_string(row.shape);
    EXPECT_EQ(y.to_vector<float>(), x.to_vector<float>());
  }
}

}  // namespace
}  // namespace taper::v0
