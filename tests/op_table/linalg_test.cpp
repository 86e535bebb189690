// Linear algebra for matrices that the op table does not have: by reconstruction, in every layout,
// empty, singular and with equal magnitudes.
#include <cmath>

#include <gtest/gtest.h>

#include "autograd/autocast.h"
#include "autograd/engine.h"
#include "autograd/functional/functional.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/linalg/linalg_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "autograd/step_graph.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "framework/host/thread_pool.h"
#include "framework/kernels/linalg/factorizations.h"
#include "tests/layouts.h"
#include "tests/op_table/op_table.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using taper::diag;

// Skipped on a machine without LAPACK, on which the op table skips the rows of linear algebra, too.
class Linalg : public testing::Test {
 protected:
  void SetUp() override {
    if (*kernels::missing_lapack()) GTEST_SKIP() << kernels::missing_lapack();
  }
};

const Shape kShapes[] = {{1, 1},     {5, 3},   {3, 5},    {8, 8},    {40, 40},
                         {65, 33},   {33, 65}, {2, 4, 3}, {0, 4, 3}, {2, 3, 3, 4},
                         {70, 6, 6}, {4, 0},   {0, 4},    {0, 0},    {2, 0, 3}};

Tensor random_of(const Shape& shape, DType dtype, Device device) {
  return filled(shape, {-1, 1}, 7, dtype, device);
}

Tensor transposed(const Tensor& x) { return transpose(x, -2, -1); }

double tolerance_of(DType dtype) { return dtype == kFloat32 ? 5e-5 : 1e-12; }

// Checks that x^T x is the identity.
testing::AssertionResult has_orthonormal_columns(const Tensor& x) {
  const Tensor product = matmul(transposed(x), x);
  const Tensor identity = eye(x.size(-1), {.dtype = x.dtype(), .device = x.device()});
  return close(product, expand(identity, product.shape()).clone(), tolerance_of(x.dtype()));
}

// Calls f(matrix) for each shape, dtype and device.
template <class F> void for_each_matrix(F f) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kFloat64}) {
      for (const Shape& shape : kShapes) {
        SCOPED_TRACE(concat_to_string(shape, " ", dtype, " on ", device));
        f(random_of(shape, dtype, device));
      }
    }
  }
}

TEST_F(Linalg, SvdGivesTheMatrixBack) {
  for_each_matrix([](const Tensor& a) {
    for (const bool full : {false, true}) {
      const auto [u, s, vh] = linalg::svd(a, {.full_matrices = full});
      const int64_t k = s.size(-1), m = a.size(-2), n = a.size(-1);
      EXPECT_EQ(u.size(-1), full ? m : k);
      EXPECT_EQ(vh.size(-2), full ? n : k);
      EXPECT_TRUE(has_orthonormal_columns(u));
      EXPECT_TRUE(has_orthonormal_columns(transposed(vh)));
      EXPECT_TRUE(all(narrow(s, -1, 0, std::max<int64_t>(k - 1, 0)) >=
                      narrow(s, -1, k > 0 ? 1 : 0, std::max<int64_t>(k - 1, 0)))
                      .item<bool>());
      const Tensor back = matmul(narrow(u, -1, 0, k) * unsqueeze(s, -2), narrow(vh, -2, 0, k));
      EXPECT_TRUE(close(back, a, tolerance_of(a.dtype())));
    }
  });
}

TEST_F(Linalg, QrGivesTheMatrixBack) {
  for_each_matrix([](const Tensor& a) {
    for (const char* mode : {"reduced", "complete"}) {
      const auto [q, r] = linalg::qr(a, {.mode = mode});
      EXPECT_TRUE(has_orthonormal_columns(q)) << mode;
      EXPECT_TRUE(close(matmul(q, r), a, tolerance_of(a.dtype()))) << mode;
      EXPECT_TRUE(close(r, triu(r), 0)) << mode;
      EXPECT_TRUE(all(diagonal(r, 0, -2, -1) >= 0).item<bool>()) << mode;
      EXPECT_EQ(linalg::qr(a, {.mode = "r"}).q.shape(), Shape{0});
    }
    EXPECT_TRUE(close(linalg::qr(a, {.mode = "r"}).r, linalg::qr(a).r, 0));
  });
}

TEST_F(Linalg, EighGivesTheMatrixBackFromOneTriangle) {
  for_each_matrix([](const Tensor& x) {
    const Tensor a = matmul(transposed(x), x), n = zeros_like(a) + 1e6;
    for (const char* uplo : {"L", "U"}) {
      const Tensor read = uplo[0] == 'L' ? tril(a) + triu(n, 1) : triu(a) + tril(n, -1);
      const auto [w, v] = linalg::eigh(read, {.uplo = uplo});
      EXPECT_TRUE(has_orthonormal_columns(v));
      EXPECT_TRUE(close(matmul(v * unsqueeze(w, -2), transposed(v)), a,
                        tolerance_of(a.dtype()) * double(x.size(-2) + 1)))
          << uplo;
    }
  });
}

TEST_F(Linalg, CholeskyGivesTheMatrixBackFromTheLowerTriangle) {
  for_each_matrix([](const Tensor& x) {
    const Tensor a =
        matmul(transposed(x), x) + eye(x.size(-1), {.dtype = x.dtype(), .device = x.device()});
    const Tensor l = linalg::cholesky(tril(a));
    EXPECT_TRUE(close(l, tril(l), 0));
    EXPECT_TRUE(close(matmul(l, transposed(l)), a, tolerance_of(a.dtype())));
    EXPECT_TRUE(close(linalg::cholesky(a, {.upper = true}), transposed(l), 0));
  });
}

TEST_F(Linalg, SolvesSystemsOfAllSizes) {
  for_each_matrix([](const Tensor& b) {
    const int64_t n = b.size(-2);
    Shape square = b.shape();
    square[square.size() - 1] = n;
    const Tensor identity = eye(n, {.dtype = b.dtype(), .device = b.device()});
    const Tensor a = random_of(square, b.dtype(), b.device()) + 2 * identity;
    const double tolerance = 200 * tolerance_of(b.dtype());
    EXPECT_TRUE(close(matmul(a, linalg::solve(a, b)), b, tolerance));
    EXPECT_TRUE(close(matmul(linalg::inv(a), a), expand(identity, a.shape()).clone(), tolerance));
    if (n == 0 || b.numel() == 0) return;
    const Tensor vector = select(b, -1, 0);
    EXPECT_TRUE(close(linalg::solve(a, vector), select(linalg::solve(a, b), -1, 0), tolerance));
    const auto [sign, logabsdet] = linalg::slogdet(a);
    EXPECT_TRUE(close(sum(sign * taper::exp(logabsdet - logabsdet)), sum(sign), 0));
  });
}

// Operators that accept any matrix, so that a layout that repeats elements does not matter.
TEST_F(Linalg, LayoutsDoNotChangeResults) {
  using Op = Tensor (*)(const Tensor&);
  const std::pair<const char*, Op> kOps[] = {
      {"det", linalg::det},
      {"slogdet", [](const Tensor& a) { return linalg::slogdet(a).sign; }},
      {"inv",
       [](const Tensor& a) {
         return linalg::inv(a + 3 * eye(4, {.dtype = a.dtype(), .device = a.device()}));
       }},
      {"solve",
       [](const Tensor& a) {
         return linalg::solve(eye(4, {.dtype = a.dtype(), .device = a.device()}), a);
       }},
      {"qr", [](const Tensor& a) { return linalg::qr(a).r; }},
      {"eigh", [](const Tensor& a) { return linalg::eigh(a).eigenvalues; }},
      {"eigh, upper", [](const Tensor& a) { return linalg::eigh(a, {.uplo = "U"}).eigenvalues; }},
      {"svd", [](const Tensor& a) { return linalg::svd(a).s; }},
      {"solve_triangular", [](const Tensor& a) { return linalg::solve_triangular(a, a); }}};
  for (const Device device : all_devices()) {
    for (const auto& [name, f] : kOps) {
      for (const Layout& layout : kLayouts) {
        for (const Shape& shape : {Shape{4, 4}, Shape{3, 4, 4}, Shape{2, 3, 4, 4}}) {
          const Tensor x = layout.of(random_of(shape, kFloat64, device));
          EXPECT_TRUE(close(f(x), f(x.clone().contiguous()), 1e-9))
              << name << " " << layout.name << " " << to_string(shape);
        }
      }
    }
  }
}

TEST_F(Linalg, BatchesHaveTheBitsOfTheirMatricesForAnyNumberOfThreads) {
  const Tensor a = random_of({400, 24, 24}, kFloat32, Device());
  const Tensor symmetric = matmul(a, transposed(a)) + eye(24);
  const auto results = [&] {
    return Tensors{linalg::inv(symmetric),
                   linalg::cholesky(symmetric),
                   linalg::eigh(symmetric).eigenvectors,
                   linalg::svd(a).u,
                   linalg::qr(a).q,
                   linalg::det(a)};
  };
  const int before = get_num_threads();
  set_num_threads(1);
  const Tensors one = results();
  set_num_threads(4);
  const Tensors four = results();
  set_num_threads(before);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(close(one[i], four[i], 0)) << i;
  EXPECT_TRUE(close(select(one[0], 0, 17), linalg::inv(select(symmetric, 0, 17)), 0));
}

TEST_F(Linalg, TheFirstOfTheLargestComponentsIsPositive) {
  for (const Device device : all_devices()) {
    // The eigenvectors have components of equal magnitude.
    const Tensor swap = tensor({{0.0, -1.0}, {-1.0, 0.0}}, {.dtype = kFloat64, .device = device});
    const double half = std::sqrt(0.5);
    EXPECT_TRUE(close(linalg::eigh(swap).eigenvectors, {2, 2}, {half, half, half, -half}, 1e-12));
    const auto [u, s, vh] = linalg::svd(tensor({{-3.0}, {4.0}}).to(device));
    EXPECT_TRUE(close(narrow(u, 1, 0, 1), {2, 1}, {-0.6, 0.8}, 1e-6));
    EXPECT_TRUE(close(vh, {1, 1}, {1}, 1e-6));
    EXPECT_TRUE(close(linalg::qr(tensor({{-2.0}}).to(device)).q, {1, 1}, {-1}, 1e-6));
  }
}

TEST_F(Linalg, ASingularMatrixHasADeterminantWithGradients) {
  for (const Device device : all_devices()) {
    // Ranks n - 1, with an exact and a rounded zero, and n - 2.
    const Tensor matrices[] = {
        tensor({{1.0, 2.0, 3.0}, {2.0, 4.0, 6.0}, {1.0, 0.0, 5.0}}, {.dtype = kFloat64}),
        tensor({{0.1, 0.2, 0.3}, {0.7, 0.1, 0.5}, {0.8, 0.3, 0.8}}, {.dtype = kFloat64}),
        tensor({{0.0, 0.0}, {0.0, 0.0}}, {.dtype = kFloat64}),
        tensor({{1.0, 2.0}, {3.0, 4.0}}, {.dtype = kFloat64})};
    for (const Tensor& matrix : matrices) {
      const Tensor a = matrix.to(device);
      const auto det = [](const Tensors& x) { return linalg::det(x[0]); };
      EXPECT_NO_THROW(gradcheck(det, {a.clone().requires_grad_()}));
      if (all(a == 0).item<bool>()) continue;  // its singular values are equal
      const Tensor x = a.clone().requires_grad_();
      const Tensor recorded = grad({linalg::det(x)}, {x}, {.create_graph = true})[0];
      EXPECT_TRUE(close(recorded, grad({linalg::det(x)}, {x})[0], 1e-9));
      EXPECT_NO_THROW(gradgradcheck(det, {a.clone().requires_grad_()}));
    }
    EXPECT_EQ(linalg::slogdet(zeros({2, 2}, {.device = device})).logabsdet.item<double>(),
              -INFINITY);
  }
}

TEST_F(Linalg, ACheckOfAFailureNamesTheType) {
  EXPECT_THROW((void)linalg::cholesky(neg(eye(2))), linalg::LinAlgError);
  EXPECT_THROW((void)linalg::solve(zeros({2, 2}), ones({2})), linalg::LinAlgError);
  EXPECT_TRUE(refuses<linalg::LinAlgError>(
      [] {
        return linalg::eigh(stack({eye(2), full({2, 2}, NAN)})).eigenvalues;
      },
      "linalg.eigh: (Batch element 1): The algorithm failed to converge because the input matrix "
      "contained non-finite values."));
  EXPECT_TRUE(std::isnan(linalg::solve(full({1, 1}, NAN), ones({1})).item<float>()));
}

// A matrix of rank 1, and systems that it determines only in part.
TEST_F(Linalg, LeastSquaresReturnsWhatTheDriverNames) {
  for (const Device device : all_devices()) {
    const Tensor one =
        tensor({{1.0, 2.0}, {2.0, 4.0}, {3.0, 6.0}}, {.dtype = kFloat64, .device = device});
    const Tensor b = tensor({1.0, 0.0, 1.0}, {.dtype = kFloat64, .device = device});
    const auto gelsy = linalg::lstsq(one, b);
    EXPECT_TRUE(close(gelsy.solution, {2}, {2.0 / 35, 4.0 / 35}, 1e-12));
    EXPECT_EQ(gelsy.rank.item<int64_t>(), 1);
    EXPECT_EQ(gelsy.residuals.shape(), Shape{0});
    EXPECT_EQ(gelsy.singular_values.shape(), Shape{0});
    const auto gelsd = linalg::lstsq(one, b, {.driver = "gelsd"});
    EXPECT_TRUE(close(gelsd.singular_values, {2}, {std::sqrt(70), 0}, 1e-12));
    EXPECT_EQ(gelsd.residuals.shape(), Shape{0});
    const auto gels = linalg::lstsq(narrow(one, 1, 0, 1), b, {.driver = "gels"});
    EXPECT_EQ(gels.rank.shape(), Shape{0});
    EXPECT_TRUE(close(gels.residuals, {}, {2 - 16.0 / 14}, 1e-12));
    // Of full rank, unless small singular values count as zeros.
    const Tensor full_rank =
        one + narrow(eye(3, {.dtype = kFloat64, .device = device}), 1, 0, 2) * 1e-3;
    EXPECT_EQ(linalg::lstsq(full_rank, b).rank.item<int64_t>(), 2);
    EXPECT_EQ(linalg::lstsq(full_rank, b, {.rcond = 1e-2}).rank.item<int64_t>(), 1);
    EXPECT_TRUE(close(linalg::pinv(full_rank, {.rtol = 1e-2}),
                      linalg::pinv(full_rank, {.atol = 0.1}), 1e-12));
  }
}

TEST_F(Linalg, PseudoinversesHaveMoorePenrosesProperties) {
  for_each_matrix([](const Tensor& a) {
    const Tensor p = linalg::pinv(a);
    const double tolerance = 100 * tolerance_of(a.dtype());
    EXPECT_TRUE(close(matmul(a, matmul(p, a)), a, tolerance));
    EXPECT_TRUE(close(matmul(p, matmul(a, p)), p, tolerance * 100));
    EXPECT_TRUE(close(matmul(a, p), transposed(matmul(a, p)).contiguous(), tolerance));
    EXPECT_TRUE(close(matmul(p, a), transposed(matmul(p, a)).contiguous(), tolerance));
  });
}

TEST_F(Linalg, GradientsThatAreNotDefinedAreRefused) {
  for (const Device device : all_devices()) {
    const Tensor a = random_of({4, 2}, kFloat64, device).requires_grad_();
    EXPECT_TRUE(refuses<NotImplementedError>(
        [&] { return grad({sum(linalg::svd(a).u)}, {a})[0]; },
        "linalg.svd: the gradients of the singular vectors are only defined for "
        "full_matrices=false"));
    EXPECT_TRUE(refuses<NotImplementedError>(
        [&] { return grad({sum(linalg::qr(a, {.mode = "complete"}).q)}, {a})[0]; },
        "linalg.qr: the gradient is not defined for its complete form, which is not unique for "
        "more rows than columns; use the mode 'reduced'"));
    EXPECT_TRUE(refuses<NotImplementedError>(
        [&] { return grad({sum(linalg::qr(a, {.mode = "r"}).r)}, {a})[0]; },
        "linalg.qr: the gradient is not defined for the mode 'r'"));
  }
}

// A step with a factorization runs without a graph, and says why.
TEST_F(Linalg, IsNotCapturedInAGraph) {
  if (skip_without_cuda()) return;
  const Device gpu(DeviceType::kCuda, 0);
  StepGraph step([](const Tensors& in) { return Tensors{linalg::inv(in[0])}; }, 1);
  const Tensor a = 2 * eye(3, {.device = gpu});
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(close(step({a})[0], eye(3) * 0.5, 1e-6));
  }
  EXPECT_EQ(step.num_graphs(), 0u);
  EXPECT_NE(step.reason().find("cannot be captured into a CUDA graph"), std::string::npos)
      << step.reason();
}

// As in PyTorch, equal eigenvalues give eigenvectors without a gradient.
TEST_F(Linalg, EqualEigenvaluesHaveNoGradientOfEigenvectors) {
  const Tensor a = eye(2).requires_grad_();
  const Tensor weights = tensor({{1.0, 2.0}, {3.0, 5.0}});
  EXPECT_FALSE(
      all(isfinite(grad({sum(linalg::eigh(a).eigenvectors * weights)}, {a})[0])).item<bool>());
  EXPECT_TRUE(close(grad({sum(linalg::eigh(a).eigenvalues)}, {a})[0], eye(2), 1e-6));
}

TEST_F(Linalg, AutocastComputesInFloat32) {
  for (const Device device : all_devices()) {
    const AutocastGuard guard(device.type(), kBFloat16);
    const Tensor half = eye(2, {.dtype = kBFloat16, .device = device});
    EXPECT_EQ(linalg::inv(half).dtype(), kFloat32);
    EXPECT_EQ(linalg::solve(half, half).dtype(), kFloat32);
    EXPECT_EQ(linalg::svd(half).s.dtype(), kFloat32);
    EXPECT_EQ(linalg::slogdet(half).sign.dtype(), kFloat32);
    EXPECT_EQ(linalg::eigh(half).eigenvalues.dtype(), kFloat32);
    EXPECT_EQ(linalg::qr(half).r.dtype(), kFloat32);
    EXPECT_EQ(linalg::pinv(half).dtype(), kFloat32);
    EXPECT_EQ(linalg::lstsq(half, half).solution.dtype(), kFloat32);
    EXPECT_EQ(linalg::matrix_norm(half).dtype(), kFloat32);
    EXPECT_EQ(linalg::det(half.to(kFloat64)).dtype(), kFloat64);
  }
}

}  // namespace
}  // namespace taper::v0::test
