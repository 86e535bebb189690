// The order in which einsum contracts more than two operands.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/einsum_order.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/kernels/matmul/matmul.h"
#include "tests/op_table/op_table.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

// Returns x, whose dimensions have the names, with a dimension for each of `all`, in order.
Tensor spread(Tensor x, std::string names, const std::string& all) {
  for (size_t d = 0; d < all.size(); ++d) {
    const size_t at = names.find(all[d]);
    if (at == std::string::npos) {
      x = unsqueeze(x, int64_t(d));
    } else {
      x = movedim(x, int64_t(at), int64_t(d));
      names.erase(at, 1);
    }
    names.insert(d, 1, all[d]);
  }
  return x;
}

// Computes a sum of products as one product of all operands, which is then summed.
Tensor all_at_once(const std::vector<std::string>& names, const std::string& output,
                   const Tensors& operands) {
  std::string all;
  for (const std::string& term : names) all += term;
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  Tensor y = spread(operands[0], names[0], all);
  for (size_t i = 1; i < operands.size(); ++i) y = y * spread(operands[i], names[i], all);
  std::string rest;
  Shape summed;
  for (size_t d = 0; d < all.size(); ++d) {
    if (output.find(all[d]) == std::string::npos) {
      summed.push_back(int64_t(d));
    } else {
      rest += all[d];
    }
  }
  if (!summed.empty()) y = sum(y, summed);
  return spread(y, rest, output);
}

std::string equation_of(const std::vector<std::string>& names, const std::string& output) {
  std::string text;
  for (const std::string& term : names) text += (text.empty() ? "" : ",") + term;
  return text + "->" + output;
}

struct Case {
  std::vector<std::string> names;
  std::string output;
  std::map<char, int64_t> sizes;
  double multiplications;  // of the cheapest order
};

const Case kCases[] = {
    // A vector at the end of a chain of matrices, and at its beginning.
    {{"ab", "bc", "c"}, "a", {{'a', 20}, {'b', 20}, {'c', 20}}, 800},
    {{"a", "ab", "bc"}, "c", {{'a', 20}, {'b', 20}, {'c', 20}}, 800},
    {{"ab", "bc", "cd", "d"}, "a", {{'a', 9}, {'b', 8}, {'c', 7}, {'d', 6}}, 42 + 56 + 72},
    // Chains of matrices, of which one order is cheap.
    {{"ij", "jk", "kl"}, "il", {{'i', 10}, {'j', 30}, {'k', 5}, {'l', 60}}, 1500 + 3000},
    {{"ij", "jk", "kl"}, "il", {{'i', 60}, {'j', 5}, {'k', 30}, {'l', 10}}, 1500 + 3000},
    // A batch, a sum within one operand, a factor without dimensions.
    {{"xab", "xbc", "xc"}, "xa", {{'x', 3}, {'a', 9}, {'b', 9}, {'c', 9}}, 2 * 243},
    {{"ab", "cb", ""}, "a", {{'a', 4}, {'b', 5}, {'c', 6}}, 0},
    {{"a", "b", "c", "d"}, "abcd", {{'a', 2}, {'b', 3}, {'c', 4}, {'d', 5}}, 0},
    // Two of three share the large dimension.
    {{"ab", "cd", "bd"}, "ac", {{'a', 3}, {'b', 40}, {'c', 3}, {'d', 40}}, 0},
    {{"ab", "bc"}, "ac", {{'a', 3}, {'b', 4}, {'c', 5}}, 60},
    // More than six operands.
    {{"ab", "bc", "cd", "de", "ef", "fg", "g"},
     "a",
     {{'a', 5}, {'b', 5}, {'c', 5}, {'d', 5}, {'e', 5}, {'f', 5}, {'g', 5}},
     6 * 25},
    {{"ab", "bc", "cd"}, "ad", {{'a', 2}, {'b', 0}, {'c', 3}, {'d', 4}}, 0}};

// Returns how many multiplications an order needs.
double cost_of(const Case& c, const std::vector<Contraction>& order) {
  std::vector<std::string> left = c.names;
  double cost = 0;
  for (const auto& [first, second] : order) {
    std::string names = left[first];
    for (const char name : left[second]) {
      if (names.find(name) == std::string::npos) names += name;
    }
    double step = 1;
    for (const char name : names) step *= double(c.sizes.at(name));
    cost += step;
    left.erase(left.begin() + std::ptrdiff_t(second));
    std::string wanted = c.output, kept;
    for (size_t i = 0; i < left.size(); ++i) wanted += i == first ? "" : left[i];
    for (const char name : names) {
      if (wanted.find(name) != std::string::npos) kept += name;
    }
    left[first] = kept;
  }
  EXPECT_EQ(left.size(), 1u);
  return cost;
}

Tensors operands_of(const Case& c, Device device) {
  Tensors out;
  for (const std::string& term : c.names) {
    Shape shape;
    for (const char name : term) shape.push_back(c.sizes.at(name));
    out.push_back(filled(shape, {-1, 1}, out.size() + 1, kFloat64, device));
  }
  return out;
}

TEST(Einsum, ContractsInTheOrderWithTheFewestMultiplications) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(equation_of(c.names, c.output));
    const double cost = cost_of(c, cheapest_order(c.names, c.output, c.sizes));
    std::vector<Contraction> left_to_right(c.names.size() - 1, Contraction{0, 1});
    EXPECT_LE(cost, cost_of(c, left_to_right));
    if (c.multiplications > 0) {
      EXPECT_EQ(cost, c.multiplications);
    }
  }
}

TEST(Einsum, TheOrderDoesNotChangeTheResult) {
  for (const Device device : all_devices()) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(equation_of(c.names, c.output));
      Tensors x = operands_of(c, device);
      const Tensor want = all_at_once(c.names, c.output, x);
      EXPECT_TRUE(close(einsum(equation_of(c.names, c.output), x), want, 1e-12));
      for (Tensor& t : x) t.requires_grad_();
      const Tensors got = grad({sum(einsum(equation_of(c.names, c.output), x))}, x);
      const Tensors gradients = grad({sum(all_at_once(c.names, c.output, x))}, x);
      for (size_t i = 0; i < x.size(); ++i) EXPECT_TRUE(close(got[i], gradients[i], 1e-12));
    }
  }
}

TEST(Einsum, MultipliesNoMoreThanItsOrderNeeds) {
  const Tensor m = ones({64, 64}), v = ones({64});
  const int64_t before = kernels::multiply_adds;
  (void)einsum("ab,bc,cd,d->a", {m, m, m, v});
  EXPECT_EQ(kernels::multiply_adds - before, 3 * 64 * 64);
}

// Equal costs keep the order from left to right, so that results keep their bits.
TEST(Einsum, EqualCostsAreContractedFromLeftToRight) {
  const std::map<char, int64_t> sizes = {{'a', 3}, {'b', 3}, {'c', 3}, {'d', 3}};
  for (const auto& [first, second] : cheapest_order({"ab", "bc", "cd"}, "ad", sizes)) {
    EXPECT_EQ(first, 0u);
    EXPECT_EQ(second, 1u);
  }
}

}  // namespace
}  // namespace taper::v0::test
