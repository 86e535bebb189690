#include "modules/models/tabular.h"

#include <vector>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "tests/data_files.h"
#include "tests/testing.h"

namespace taper::v0 {
namespace {

using test::all_devices;

// Two numbers and two categories; indices are written as numbers.
Tensor rows(Device device) {
  return tensor({{0.5, -1.0, 0.0, 2.0}, {1.5, 2.0, 1.0, 0.0}, {0.0, 0.0, 2.0, 1.0}})
      .to(kFloat32)
      .to(device);
}

TEST(TabularNet, EmbedsTheCategoriesNextToTheNumbers) {
  for (const Device device : all_devices()) {
    TabularNet net({.num_numbers = 2,
                    .category_sizes = {3, 4},
                    .outputs = 2,
                    .hidden = {},
                    .embedding_dim = 3,
                    .device = device});
    net.eval();
    const Tensor x = rows(device);
    const std::vector<Tensor> p = net.parameters();
    ASSERT_EQ(p.size(), 4u);
    EXPECT_EQ(p[0].shape(), (Shape{3, 3}));
    EXPECT_EQ(p[2].shape(), (Shape{2, 2 + 3 + 3}));
    const Tensor index0 = x.select(1, 2).to(kInt64), index1 = x.select(1, 3).to(kInt64);
    const Tensor wide =
        cat({x.narrow(1, 0, 2), p[0].index_select(0, index0), p[1].index_select(0, index1)}, 1);
    const Tensor expected = wide.matmul(p[2].t()) + p[3];
    const std::vector<float> wanted = expected.cpu().to_floats();
    const std::vector<float> got = net(x).cpu().to_floats();
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-5);
  }
}

TEST(TabularNet, EachRowsLossReachesItsEmbeddingsOnly) {
  TabularNet net({.num_numbers = 1, .category_sizes = {5}, .outputs = 1, .hidden = {4}});
  net(tensor({{0.5, 3.0}}).to(kFloat32)).sum().backward();
  const std::vector<float> grad = net.parameters()[0].grad().to_floats();
  const size_t dim = grad.size() / 5;
  for (size_t i = 0; i < grad.size(); ++i) {
    EXPECT_TRUE(i / dim == 3 || grad[i] == 0) << i;
  }
}

TEST(TabularNet, TakesNumbersOrCategoriesAlone) {
  TabularNet numbers({.num_numbers = 3, .outputs = 2});
  EXPECT_EQ(numbers(zeros({4, 3})).shape(), (Shape{4, 2}));
  TabularNet categories({.num_numbers = 0, .category_sizes = {2, 7}, .outputs = 1});
  EXPECT_EQ(categories(zeros({4, 2})).shape(), (Shape{4, 1}));
}

TEST(TabularNet, RefusesWhatDoesNotFit) {
  TabularNet net({.num_numbers = 1, .category_sizes = {3}, .outputs = 1});
  EXPECT_EQ(refusal_of<ValueError>([&] {
              net(zeros({4, 3}));
            }),
            "TabularNet: expected rows [B, 2], got [4, 3]");
  EXPECT_NE(refusal_of<IndexError>([&] { net(full({1, 2}, 3)); }), "accepted");
  EXPECT_EQ(refusal_of<ValueError>([] { TabularNet none({.num_numbers = 0, .outputs = 1}); }),
            "TabularNet: expected at least one feature");
}

TEST(TabularNet, WidthsOfEmbeddingsGrowWithTheWords) {
  const std::pair<int64_t, int64_t> sizes[] = {{1, 2}, {2, 2}, {10, 6}, {100, 21}, {100'000, 64}};
  for (const auto& [indices, dim] : sizes) EXPECT_EQ(tabular_embedding_dim(indices), dim);
}

TEST(OneHotColumns, ReplacesIndices) {
  for (const Device device : all_devices()) {
    OneHotColumns layer(2, {3, 4});
    EXPECT_EQ(layer(rows(device)).cpu().to_floats(),
              (std::vector<float>{0.5, -1, 1, 0, 0, 0, 0, 1, 0,  //
                                  1.5, 2,  0, 1, 0, 1, 0, 0, 0,  //
                                  0,   0,  0, 0, 1, 0, 1, 0, 0}));
  }
}

}  // namespace
}  // namespace taper::v0
