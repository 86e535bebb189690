// vjp, jvp, jacobian and hessian against derivatives computed by hand.
#include "autograd/functional/functional.h"

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "tests/testing.h"

namespace taper::v0 {
namespace {

const TensorOptions kDouble = {.dtype = kFloat64};

class Functional : public testing::Test {
 protected:
  const Tensor x = tensor({0.5, -1.25, 2.}, kDouble);
  const Tensor y = tensor({{1., 2., 3.}, {-1., 0.5, 4.}}, kDouble);
};

TEST_F(Functional, JacobianOfOneTensor) {
  EXPECT_TRUE(test::close(jacobian([](const Tensor& t) { return exp(t); }, x),
                          unsqueeze(exp(x), 1) * eye(3, kDouble), 1e-14));
  // The Jacobian of a sum has the shape [] + [3]; that of a matrix times x is the matrix.
  EXPECT_TRUE(
      test::close(jacobian([](const Tensor& t) { return t.sum(); }, x), ones({3}, kDouble), 0));
  EXPECT_TRUE(test::close(jacobian([&](const Tensor& t) { return matmul(y, t); }, x), y, 0));
}

TEST_F(Functional, JacobianOfSeveralHasZerosWhereNothingDepends) {
  const auto f = [](const Tensors& in) { return Tensors{in[0] * 2, in[1].sum(), ones({2})}; };
  const auto j = jacobian(f, {x, y});
  ASSERT_EQ(j.size(), 3u);
  EXPECT_TRUE(test::close(j[0][0], eye(3, kDouble) * 2, 0));
  EXPECT_TRUE(test::close(j[0][1], zeros({3, 2, 3}, kDouble), 0));
  EXPECT_TRUE(test::close(j[1][1], ones({2, 3}, kDouble), 0));
  EXPECT_EQ(j[2][0].shape(), (Shape{2, 3}));
  EXPECT_EQ(jacobian(f, {zeros({0}), y})[0][0].shape(), (Shape{0, 0}));
}

TEST_F(Functional, ProductsAreThoseWithTheJacobian) {
  const auto f = [&](const Tensor& t) { return sin(matmul(y, t)); };
  const Tensor j = jacobian(f, x);
  const Tensor v = tensor({0.3, -2.}, kDouble), u = tensor({1., 0.25, -0.5}, kDouble);
  const auto [out, by_rows] = vjp(f, x, v);
  EXPECT_TRUE(test::close(out, f(x), 0));
  EXPECT_TRUE(test::close(by_rows, matmul(v, j), 1e-13));
  EXPECT_TRUE(test::close(jvp(f, x, u).second, matmul(j, u), 1e-13));
  // Neither result is on the tape, whatever the inputs.
  EXPECT_FALSE(vjp(f, x.clone().requires_grad_(), v).second.requires_grad());
}

TEST_F(Functional, HessianOfAScalar) {
  const auto cubes = [](const Tensor& t) { return (t * t * t).sum(); };
  EXPECT_TRUE(test::close(hessian(cubes, x), unsqueeze(x * 6, 1) * eye(3, kDouble), 1e-13));
  const auto mixed = [](const Tensors& in) { return Tensors{(in[0] * in[1][0]).sum()}; };
  const auto h = hessian(mixed, {x, y});
  EXPECT_TRUE(test::close(h[0][0], zeros({3, 3}, kDouble), 0));
  EXPECT_EQ(h[0][1].shape(), (Shape{3, 2, 3}));
  EXPECT_TRUE(test::close(h[0][1].sum(1), eye(3, kDouble), 0));
}

TEST_F(Functional, StaysOnTheTapeWhereAsked) {
  const Tensor t = x.clone().requires_grad_();
  const auto f = [](const Tensor& in) { return in * in * in; };
  const Tensor j = jacobian(f, t, true);
  j.sum().backward();
  EXPECT_TRUE(test::close(t.grad(), x * 6, 1e-13));
  // The caller's grad mode is left as it was.
  const NoGradGuard no_grad;
  EXPECT_TRUE(test::close(jacobian(f, x).sum(), (x * x * 3).sum(), 1e-13));
  EXPECT_FALSE(is_grad_enabled());
}

TEST_F(Functional, Refuses) {
  const auto f = [](const Tensor& t) { return t * 2; };
  EXPECT_TRUE(test::refuses<Error>([&] { return vjp(f, x); },
                                   "The vector v can only be omitted if the user-provided function "
                                   "returns a single Tensor with a single element"));
  EXPECT_TRUE(test::refuses<Error>([&] { return jvp(f, x, ones({2}, kDouble)); },
                                   "jvp: v[0] has invalid size: should be [3] but got [2]"));
  EXPECT_TRUE(test::refuses<Error>([&] { return hessian(f, x); },
                                   "The function given to hessian should return a single Tensor"));
}

TEST(InferenceMode, RecordsNothingAndEnds) {
  const Tensor w = ones({2}, {.requires_grad = true});
  {
    const InferenceMode guard;
    EXPECT_FALSE((w * 2).requires_grad());
    const InferenceMode off(false);
    EXPECT_TRUE((w * 2).requires_grad());
  }
  EXPECT_TRUE((w * 2).requires_grad());
}

}  // namespace
}  // namespace taper::v0
