// The network for rows of tables.
#include "modules/models/tabular.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "taper.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

TEST(TabularNet, HasTheLayersThatItsOptionsName) {
  TabularNet net({.num_numbers = 3, .category_sizes = {2, 100}, .outputs = 4, .hidden = {8}});
  std::map<std::string, Shape> shapes;
  for (const NamedTensor& t : net.state_dict()) shapes[t.name] = t.tensor.shape();
  const std::map<std::string, Shape> expected = {
      {"embeddings.0.weight", {2, 2}}, {"embeddings.1.weight", {100, 21}},
      {"layers.0.weight", {8, 26}},    {"layers.0.bias", {8}},
      {"layers.3.weight", {4, 8}},     {"layers.3.bias", {4}}};
  EXPECT_EQ(shapes, expected);
  EXPECT_EQ(net(tensor({{.1f, .2f, .3f, 1.f, 99.f}, {0.f, 0.f, 0.f, 0.f, 0.f}})).shape(),
            (Shape{2, 4}));
}

// A column with many words must not outweigh the numbers before anything was learned.
TEST(TabularNet, EmbeddingsBeginSmall) {
  manual_seed(1);
  TabularNet net({.num_numbers = 1, .category_sizes = {1000}, .outputs = 1});
  const Tensor weight = net.named_parameters()[0].tensor.detach();
  EXPECT_EQ(weight.shape(), (Shape{1000, 64}));
  EXPECT_NEAR((weight * weight).mean().item<double>(), 1e-4, 5e-6);
}

TEST(TabularNet, RefusesRowsAndIndicesThatDoNotFit) {
  TabularNet net({.num_numbers = 1, .category_sizes = {3}, .outputs = 1});
  EXPECT_TRUE(refuses<ValueError>(
      [&] {
        return net(zeros({2, 3}));
      },
      "TabularNet: expected rows [B, 2], got [2, 3]"));
  EXPECT_THROW((void)net(tensor({{0.f, 3.f}})), IndexError);
  EXPECT_TRUE(refuses<ValueError>([] { return TabularNet({.num_numbers = 0, .outputs = 1}); },
                                  "TabularNet: expected at least one feature"));
}

TEST(OneHotColumns, ReplacesIndicesByOneHotVectors) {
  OneHotColumns layer(1, {2, 3});
  EXPECT_TRUE(close(layer(tensor({{.5f, 1.f, 0.f}, {-1.f, 0.f, 2.f}})),
                    tensor({{.5f, 0.f, 1.f, 1.f, 0.f, 0.f}, {-1.f, 1.f, 0.f, 0.f, 0.f, 1.f}}), 0));
  OneHotColumns words_only(0, {2});
  EXPECT_TRUE(close(words_only(tensor({{1.f}})), tensor({{0.f, 1.f}}), 0));
}

}  // namespace
}  // namespace taper::v0::test
