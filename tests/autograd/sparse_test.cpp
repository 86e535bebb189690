// Sparse matrices compared with dense ones: products, first and second gradients, forms, refusals.
#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/sparse_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "tests/testing.h"

namespace taper::v0 {
namespace {

// Rows 0, 2 and 4 of five. One position occurs twice; one row and one column are empty.
const TensorData kRows = {4, 0, 2, 0, 2, 4, 4}, kColumns = {1, 3, 0, 0, 3, 1, 3};

SparseTensor example(Device device, DType dtype = kFloat64, bool requires_grad = false) {
  const Tensor indices = stack({tensor(kRows), tensor(kColumns)}).to(device);
  const Tensor values = tensor({0.5, -1.25, 2, 3, -0.75, 1.5, 4}).to(device, dtype);
  return sparse_coo_tensor(indices, values.requires_grad_(requires_grad), Shape{5, 4});
}

TEST(Sparse, IsTheDenseMatrixInEveryForm) {
  for (const Device device : test::all_devices()) {
    const SparseTensor a = example(device);
    const Tensor dense = tensor({{3., 0., 0., -1.25},
                                 {0., 0., 0., 0.},
                                 {2., 0., 0., -0.75},
                                 {0., 0., 0., 0.},
                                 {0., 2., 0., 4.}});
    EXPECT_TRUE(test::close(a.to_dense().cpu(), dense.to(kFloat64), 0));
    EXPECT_TRUE(test::close(a.t().to_dense().cpu(), dense.to(kFloat64).t(), 0));
    EXPECT_TRUE(test::close(a.t().t().to_dense().cpu(), dense.to(kFloat64), 0));
    EXPECT_EQ(a.crow_indices().cpu().to_vector<int64_t>(),
              (std::vector<int64_t>{0, 2, 2, 4, 4, 7}));
    EXPECT_EQ(a.indices().shape(), (Shape{2, 7}));
    const SparseTensor again =
        sparse_csr_tensor(a.crow_indices(), a.col_indices(), a.values(), Shape{5, 4});
    EXPECT_TRUE(test::close(again.to_dense().cpu(), dense.to(kFloat64), 0));
    EXPECT_TRUE(test::close(a.to(Device()).to_dense(), dense.to(kFloat64), 0));
  }
}

TEST(Sparse, ProductsAreThoseOfTheDenseMatrix) {
  for (const Device device : test::all_devices()) {
    for (const auto& [dtype, tolerance] :
         {std::pair(kFloat64, 1e-14), {kFloat32, 1e-6}, {kFloat16, 2e-3}, {kBFloat16, 2e-2}}) {
      manual_seed(1);
      const SparseTensor a = example(device, dtype);
      const Tensor x = randn({4, 3}).to(device, dtype), v = randn({4}).to(device, dtype);
      const Tensor wide = a.to_dense().to(kFloat64);
      EXPECT_TRUE(test::close(mm(a, x).to(kFloat64), matmul(wide, x.to(kFloat64)), tolerance));
      EXPECT_TRUE(test::close(matmul(a, v).to(kFloat64), matmul(wide, v.to(kFloat64)), tolerance));
      EXPECT_TRUE(
          test::close(mm(a.t(), a.to_dense()).to(kFloat64), matmul(wide.t(), wide), 4 * tolerance));
    }
  }
}

TEST(Sparse, DifferentiatesByValuesAndByTheDenseMatrixTwice) {
  for (const Device device : test::all_devices()) {
    manual_seed(2);
    const Tensor indices = stack({tensor(kRows), tensor(kColumns)}).to(device);
    const Tensor values = rand({7}, {.dtype = kFloat64, .device = device, .requires_grad = true});
    const Tensor x = randn({4, 3}, {.dtype = kFloat64, .device = device, .requires_grad = true});
    const auto f = [&](const std::vector<Tensor>& in) {
      const SparseTensor a = sparse_coo_tensor(indices, in[0], Shape{5, 4});
      // a^T (a x) uses both directions.
      return mm(a.t(), mm(a, in[1]));
    };
    EXPECT_TRUE(gradcheck(f, {values, x}));
    const Tensor dy = randn({4, 3}, {.dtype = kFloat64, .device = device});
    const auto slope = [&](std::vector<Tensor> in) {
      const AutoGradMode on_the_tape(true);  // also where gradcheck only needs values
      for (Tensor& t : in) {
        if (!t.requires_grad()) t = t.clone().requires_grad_();
      }
      const auto g = grad({f(in)}, in, {dy}, {.create_graph = true});
      return cat({flatten(g[0]), flatten(g[1])});
    };
    EXPECT_TRUE(gradcheck(slope, {values, x}));
  }
}

TEST(Sparse, TakesNothing) {
  const SparseTensor none =
      sparse_coo_tensor(zeros({2, 0}, {.dtype = kInt64}), zeros({0}), Shape{3, 2});
  EXPECT_TRUE(test::close(mm(none, ones({2, 4})), zeros({3, 4}), 0));
  EXPECT_EQ(mm(none, ones({2, 0})).shape(), (Shape{3, 0}));
  EXPECT_EQ(
      mm(sparse_coo_tensor(zeros({2, 0}, {.dtype = kInt64}), zeros({0})), ones({0, 2})).shape(),
      (Shape{0, 2}));
}

TEST(Sparse, RefusesWhatDoesNotFit) {
  const auto coo = [](TensorData rows, TensorData columns, std::optional<Shape> size = {}) {
    return [=] {
      return sparse_coo_tensor(stack({tensor(rows), tensor(columns)}), ones({2}), size);
    };
  };
  EXPECT_TRUE(test::refuses<Error>(
      coo({0, 5}, {0, 0}, Shape{2, 2}),
      "size is inconsistent with indices: for the rows, size is 2 but found index 5"));
  EXPECT_TRUE(test::refuses<Error>(coo({0, 1}, {0, -1}, Shape{2, 2}),
                                   "found negative index -1 among the columns"));
  EXPECT_TRUE(test::refuses<Error>(coo({0, 1}, {0, 0}, Shape{2, 2, 2}),
                                   "a sparse tensor is a matrix, but size is [2, 2, 2]"));
  EXPECT_TRUE(
      test::refuses<Error>(coo({0., 1.}, {0., 0.}), "indices must be an int64 or int32 tensor"));
  EXPECT_TRUE(test::refuses<Error>(coo({0, 1, 2}, {0, 0, 0}), "values must be a floating tensor"));
  EXPECT_TRUE(test::refuses<Error>(
      [] {
        return sparse_csr_tensor(tensor({0, 2, 1}), tensor({0}), ones({1}));
      },
      "crow_indices must rise from 0 to the number of col_indices, 1"));
  const SparseTensor a = example(Device());
  EXPECT_TRUE(test::refuses<Error>(
      [&] {
        return mm(a, ones({3, 2}, {.dtype = kFloat64}));
      },
      "mat1 and mat2 shapes cannot be multiplied (5x4 and 3x2)"));
  EXPECT_TRUE(test::refuses<Error>(
      [&] {
        return mm(a, ones({4, 2}));
      },
      "expected mat1 and mat2 to have the same dtype"));
}

}  // namespace
}  // namespace taper::v0
