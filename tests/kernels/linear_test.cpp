// Cases that the op table's small samples do not reach: split sums, tiles beyond one block, rows
// that do not start at multiples of 16 bytes, and the same bits in every run.
#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

Tensor drawn(const Shape& shape, DType dtype, Device device) {
  return (rand(shape) - 0.5).to(device, dtype);
}

Tensor activated(Activation activation, const Tensor& x) {
  if (activation == Activation::kRelu) return relu(x);
  return gelu(x, activation == Activation::kGelu ? "none" : "tanh");
}

struct Sizes {
  int64_t m, k, n;
};

TEST(Linear, WithAnActivationEqualsItsParts) {
  for (const Device d : all_devices()) {
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
      manual_seed(1);
      for (const Sizes& s : {Sizes{130, 40, 512}, {1300, 8, 24}, {2100, 5, 33}, {128, 512, 10}}) {
        for (const Activation f : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh}) {
          const Tensor x = drawn({s.m, s.k}, dtype, d).requires_grad_();
          const Tensor w = drawn({s.n, s.k}, dtype, d).requires_grad_();
          const Tensor b = drawn({s.n}, dtype, d).requires_grad_();
          const Tensor dy = drawn({s.m, s.n}, dtype, d);
          const Tensor y = linear(x, w, b, f), parts = activated(f, linear(x, w, b));
          const double tolerance = dtype == kBFloat16 ? 2e-2 : dtype == kFloat64 ? 1e-11 : 1e-5;
          EXPECT_TRUE(close(y, parts, tolerance));
          const auto got = grad({y}, {x, w, b}, {dy}, {.retain_graph = true});
          const auto want = grad({parts}, {x, w, b}, {dy});
          for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(close(got[i], want[i], 10 * tolerance));
          const auto again = grad({y}, {x, w, b}, {dy});
          for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(close(got[i], again[i], 0));
        }
      }
    }
  }
}

TEST(Matmul, ProductsOfAllLayoutsAgreeWithDouble) {
  for (const Device d : all_devices()) {
    manual_seed(2);
    for (const Sizes& s : {Sizes{128, 784, 512},
                           {512, 128, 512},
                           {10, 128, 512},
                           {128, 10, 512},
                           {33, 1000, 7},
                           {1, 4096, 1},
                           {31, 3, 65},
                           {64, 129, 30}}) {
      for (const bool ta : {false, true}) {
        for (const bool tb : {false, true}) {
          const Tensor a = drawn(ta ? Shape{s.k, s.m} : Shape{s.m, s.k}, kFloat32, d);
          const Tensor b = drawn(tb ? Shape{s.n, s.k} : Shape{s.k, s.n}, kFloat32, d);
          const Tensor left = ta ? a.t() : a, right = tb ? b.t() : b;
          const Tensor y = mm(left, right);
          EXPECT_TRUE(close(y, mm(left.to(kFloat64), right.to(kFloat64)).to(kFloat32), 1e-4));
          EXPECT_TRUE(close(y, mm(left, right), 0));
          // Views that do not start at a multiple of 16 bytes.
          if (s.k < 2) continue;
          const Tensor u = slice(left, 1, 1, s.k), v = slice(right, 0, 1, s.k);
          EXPECT_TRUE(close(mm(u, v), mm(u.to(kFloat64), v.to(kFloat64)).to(kFloat32), 1e-4));
        }
      }
    }
  }
}

// On the GPU, large products of half types with odd rows use padded copies.
TEST(Matmul, OddRowsOfHalfTypes) {
  if (skip_without_cuda()) return;
  const Device d = DeviceType::kCuda;
  manual_seed(3);
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Tensor x = drawn({8192, 384}, dtype, d), w = drawn({65, 384}, dtype, d);
    const Tensor dy = drawn({8192, 65}, dtype, d), b = drawn({65}, dtype, d);
    const double tolerance = dtype == kFloat16 ? 2e-3 : 2e-2;
    const auto wide = [](const Tensor& t) { return t.to(kFloat32); };
    EXPECT_TRUE(close(wide(linear(x, w, b)), linear(wide(x), wide(w), wide(b)), tolerance));
    EXPECT_TRUE(close(wide(mm(dy, w)), mm(wide(dy), wide(w)), tolerance));
    EXPECT_TRUE(close(wide(mm(dy.t(), x)), mm(wide(dy).t(), wide(x)), 5 * tolerance));
  }
}

TEST(Sum, OfColumnsAndRowsOfAllLengths) {
  for (const Device d : all_devices()) {
    manual_seed(4);
    for (const DType dtype : {kFloat32, kBFloat16, kFloat64}) {
      for (const Shape& shape : {Shape{128, 512}, {513, 40}, {5000, 24}, {4099, 7}, {300, 1152}}) {
        const Tensor x = drawn(shape, dtype, d), wide = x.to(kFloat64);
        const double tolerance = dtype == kBFloat16 ? 1e-2 : dtype == kFloat64 ? 1e-11 : 1e-4;
        for (const Shape& dims : {Shape{0}, {1}, {0, 1}}) {
          EXPECT_TRUE(close(sum(x, dims).to(kFloat64), sum(wide, dims), tolerance));
        }
      }
    }
  }
}

}  // namespace
}  // namespace taper::v0::test
